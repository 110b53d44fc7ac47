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

/// The server's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Socket {
    /// Not accepted yet, or closed.
    Absent,
    Open,
    /// It closes when its output has left.
    Finishing,
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

/// A connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) id: LinkId,
    pub(crate) owner: Owner,
    pub(crate) shard: u32,
    /// The client has not given it up, and has not been notified that it is gone.
    pub(crate) client_open: bool,
    pub(crate) socket: Socket,
    /// Its number among the open sockets of the shard.
    pub(crate) slot: usize,
    /// The incarnation of the server that accepted it.
    pub(crate) life: u32,
    /// A shard has accepted it, or will in its next turn.
    pub(crate) is_accepting: bool,
    pub(crate) reads_slowly: bool,
    /// Whether answers are matched with requests: not those to garbage.
    pub(crate) is_tracked: bool,
    /// Requests in the order in which they were sent; answers arrive in that order.
    pub(crate) asked: VecDeque<Asked>,
    /// Bytes on their way to the server, in pieces.
    pub(crate) to_server: VecDeque<Vec<u8>>,
    pub(crate) last_to_server: u64,
    /// The shard has paused receiving; `held` has the bytes that arrived meanwhile.
    pub(crate) paused: bool,
    pub(crate) held: VecDeque<Vec<u8>>,
    /// The lengths of output that the socket has not accepted yet.
    pub(crate) given: VecDeque<usize>,
    pub(crate) unsent: usize,
    pub(crate) last_taken: u64,
    /// The lengths of output on its way to the client.
    pub(crate) to_client: VecDeque<usize>,
    pub(crate) last_to_client: u64,
    /// The total of bytes that the server sent, and that arrived at the client.
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// The beginning of an answer of which the rest is not sent yet.
    pub(crate) leaving: Vec<u8>,
    /// Answers of which the client has not received all bytes, with the byte at which each ends.
    pub(crate) answers: VecDeque<(u64, Asked, Vec<u8>)>,
    /// The end of the last throttle time in an answer.
    pub(crate) muted_until: u64,
    /// The server closed its end; the client learns of it after the last byte.
    pub(crate) finished: bool,
}

impl Link {
    pub(super) fn new(id: LinkId, owner: Owner, shard: u32, accepted: u64, slow: bool) -> Self {
        Self {
            id,
            owner,
            shard,
            client_open: true,
            socket: Socket::Absent,
            slot: 0,
            life: 0,
            is_accepting: false,
            reads_slowly: slow,
            is_tracked: true,
            asked: VecDeque::new(),
            to_server: VecDeque::new(),
            last_to_server: accepted,
            paused: false,
            held: VecDeque::new(),
            given: VecDeque::new(),
            unsent: 0,
            last_taken: 0,
            to_client: VecDeque::new(),
            last_to_client: 0,
            sent: 0,
            received: 0,
            leaving: Vec::new(),
            answers: VecDeque::new(),
            muted_until: 0,
            finished: false,
        }
    }

    /// Whether a shard has it.
    pub(crate) fn is_open(&self) -> bool {
        self.socket == Socket::Open
    }

    /// The server's end is closed; output that has not left is dropped.
    pub(crate) fn drop_socket(&mut self) {
        (self.socket, self.unsent, self.finished) = (Socket::Absent, 0, true);
        self.given.clear();
        self.held.clear();
    }

    /// The requests whose answers the client waits for, oldest first.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = &Asked> {
        self.answers.iter().map(|(_, asked, _)| asked).chain(&self.asked)
    }

    /// Closes the client's end. Returns the requests whose answers it waited for.
    pub(crate) fn give_up(&mut self) -> Vec<Asked> {
        self.client_open = false;
        self.to_server.clear();
        let answered = self.answers.drain(..).map(|(_, asked, _)| asked);
        answered.chain(self.asked.drain(..)).collect()
    }
}
