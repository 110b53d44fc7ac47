//! One connection, with both of its ends.

use std::collections::VecDeque;

/// The id of a connection; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LinkId(pub(crate) u32);

/// The client that a connection belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A member, and its incarnation.
    Member {
        member: u32,
        life: u32,
    },
    Client(u32),
}

/// A request that is not answered yet.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) correlation: i32,
    pub(crate) api: i16,
    pub(crate) version: i16,
    /// The client's number for the request.
    pub(crate) token: u32,
    pub(crate) sent: u64,
    /// The request without its length.
    pub(crate) frame: Vec<u8>,
}

/// A connection: the bytes on their way, and the client's end. The server's end is a socket of a
/// node (`node/sockets.rs`).
#[derive(Debug)]
pub(crate) struct Link {
    owner: Owner,
    shard: u32,
    /// Whether the connection is open for the client: it has not closed it, and it has not been
    /// notified that the server's end is gone.
    is_client_open: bool,
    /// The incarnation of the server that accepted the connection.
    life: u32,
    pub(super) reads_slowly: bool,
    /// Whether answers are matched with requests. Answers to invalid requests are not.
    is_tracked: bool,
    /// Requests in the order in which they were sent; answers arrive in that order.
    asked: VecDeque<Asked>,
    /// Bytes on their way to the server, in pieces.
    to_server: VecDeque<Vec<u8>>,
    last_to_server: u64,
    /// The lengths of the pieces of output that the server's socket has not accepted yet.
    given: VecDeque<usize>,
    last_taken: u64,
    /// The lengths of output on its way to the client.
    to_client: VecDeque<usize>,
    last_to_client: u64,
    /// The number of bytes that the server has sent, and the number that has arrived at the client.
    sent: u64,
    received: u64,
    /// The bytes that the server has sent of an answer that is not complete yet.
    leaving: Vec<u8>,
    /// Answers that have left, but have not arrived completely. Each begins with the value that
    /// `sent` had after the answer: the client has the answer once `received` is as high.
    answers: VecDeque<(u64, Asked, Vec<u8>)>,
    /// The time before which no answer may leave, because an earlier answer had a throttle time.
    muted_until: u64,
    /// Whether the server has closed its end. The client is notified after the last byte.
    is_finished: bool,
}

impl Link {
    pub(super) fn new(owner: Owner, shard: u32, accepted: u64, reads_slowly: bool) -> Self {
        Self {
            owner,
            shard,
            is_client_open: true,
            life: 0,
            reads_slowly,
            is_tracked: true,
            asked: VecDeque::new(),
            to_server: VecDeque::new(),
            last_to_server: accepted,
            given: VecDeque::new(),
            last_taken: 0,
            to_client: VecDeque::new(),
            last_to_client: 0,
            sent: 0,
            received: 0,
            leaving: Vec::new(),
            answers: VecDeque::new(),
            muted_until: 0,
            is_finished: false,
        }
    }

    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    pub(crate) fn shard(&self) -> u32 {
        self.shard
    }

    /// Whether the connection is open from the client's view: the client has neither given it up
    /// nor been notified of its loss.
    pub(crate) fn is_client_open(&self) -> bool {
        self.is_client_open
    }

    /// The incarnation of the server that accepted the connection; zero if none did.
    pub(crate) fn life(&self) -> u32 {
        self.life
    }

    /// Accepts the connection for the incarnation `life` of the server.
    pub(crate) fn accept(&mut self, life: u32) {
        self.life = life;
    }

    /// Stops matching answers with requests, because the client sends invalid requests.
    pub(crate) fn stop_tracking(&mut self) {
        self.is_tracked = false;
    }

    /// Notes a request that the client has sent.
    pub(crate) fn ask(&mut self, asked: Asked) {
        self.asked.push_back(asked);
    }

    /// The requests whose answers the client waits for, oldest first.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = &Asked> {
        self.answers.iter().map(|(_, asked, _)| asked).chain(&self.asked)
    }

    /// Sends bytes of the client to the server. They arrive at `at`, but not before earlier bytes.
    /// Returns the time when they arrive.
    pub(super) fn send(&mut self, bytes: Vec<u8>, at: u64) -> u64 {
        self.last_to_server = self.last_to_server.max(at);
        self.to_server.push_back(bytes);
        self.last_to_server
    }

    /// Takes the oldest bytes on their way to the server: they arrive now.
    pub(crate) fn arrive(&mut self) -> Option<Vec<u8>> {
        self.to_server.pop_front()
    }

    /// Passes output to the server's socket. The socket accepts it at `at`, but not before earlier
    /// output. Returns the time when the socket has accepted it.
    pub(super) fn give(&mut self, len: usize, at: u64) -> u64 {
        self.given.push_back(len);
        self.last_taken = self.last_taken.max(at);
        self.last_taken
    }

    /// Takes the oldest output, which the socket has accepted. It arrives at the client at `at`,
    /// but not before earlier output. Returns its length, and the time when it arrives.
    pub(super) fn take(&mut self, at: u64) -> (usize, u64) {
        let len = self.given.pop_front().unwrap_or(0);
        self.to_client.push_back(len);
        self.last_to_client = self.last_to_client.max(at);
        (len, self.last_to_client)
    }

    /// Takes bytes that the server sends. Returns the answers that these bytes complete.
    pub(crate) fn leave(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.leaving.extend_from_slice(bytes);
        let (mut frames, mut rest) = (Vec::new(), &self.leaving[..]);
        while let Some((announced, after)) = rest.split_first_chunk::<4>() {
            let Some((frame, after)) =
                after.split_at_checked(u32::from_be_bytes(*announced) as usize)
            else {
                break;
            };
            frames.push(frame.to_vec());
            rest = after;
        }
        self.leaving = rest.to_vec();
        frames
    }

    /// Whether the server has sent only the beginning of an answer.
    pub(crate) fn is_in_answer(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Counts the bytes of an answer that leaves. Returns its request; None if the client does not
    /// wait for an answer.
    pub(crate) fn answer(&mut self, frame: &[u8]) -> Option<Asked> {
        self.sent += frame.len() as u64 + 4;
        self.asked.pop_front()
    }

    /// Whether it is a violation if the server answers without a request. It is no violation if the
    /// client sends invalid requests, or has closed the connection, which the server may not know
    /// yet.
    pub(crate) fn forbids_answer(&self) -> bool {
        self.is_client_open && self.is_tracked
    }

    /// Keeps the answer that has just left, until it arrives at the client.
    pub(crate) fn keep_answer(&mut self, asked: Asked, frame: Vec<u8>) {
        self.answers.push_back((self.sent, asked, frame));
    }

    /// Notes that the oldest bytes on their way to the client arrive.
    pub(crate) fn come(&mut self) {
        self.received += self.to_client.pop_front().unwrap_or(0) as u64;
    }

    /// The next answer that the client has received completely.
    pub(crate) fn next_answer(&mut self) -> Option<(Asked, Vec<u8>)> {
        let received = self.received;
        let (_, asked, frame) = self.answers.pop_front_if(|(end, _, _)| *end <= received)?;
        Some((asked, frame))
    }

    /// Whether the client has received everything that the server sent before it closed its end.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_finished && self.given.is_empty() && self.to_client.is_empty()
    }

    /// The end of the last throttle time in an answer.
    pub(crate) fn muted_until(&self) -> u64 {
        self.muted_until
    }

    pub(crate) fn mute(&mut self, until: u64) {
        self.muted_until = until;
    }

    /// Closes the server's end after its output. `is_empty` is whether all output has left. Returns
    /// whether nothing is on its way to the client.
    pub(super) fn finish(&mut self, is_empty: bool) -> bool {
        self.is_finished = true;
        is_empty && self.to_client.is_empty()
    }

    /// Closes the server's end, and drops output that has not left. Returns the time when the last
    /// bytes on their way arrive.
    pub(super) fn close(&mut self) -> u64 {
        self.is_finished = true;
        self.given.clear();
        self.last_to_client
    }

    /// Closes the client's end. Returns the requests that were not answered.
    pub(crate) fn give_up(&mut self) -> Vec<Asked> {
        self.is_client_open = false;
        self.to_server.clear();
        let answered = self.answers.drain(..).map(|(_, asked, _)| asked);
        answered.chain(self.asked.drain(..)).collect()
    }
}
