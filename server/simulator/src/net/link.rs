//! One connection, with both of its ends.

use muster::net::ConnectionId;
use std::collections::VecDeque;

/// Names a connection; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LinkId(pub(crate) u32);

/// Which client it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A member, and in which of its lives.
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
    /// The client's own number for it.
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
    /// The client has not given it up, and was not told that it is gone.
    pub(crate) client_open: bool,
    /// What the shard calls it while it has it.
    pub(crate) server: Option<ConnectionId>,
    /// The server's life in which it was accepted.
    pub(crate) life: u32,
    /// A shard has it or will have it with its next turn.
    pub(crate) is_accepting: bool,
    pub(crate) reads_slowly: bool,
    /// Whether answers are laid against requests: not those to garbage.
    pub(crate) is_tracked: bool,
    /// In the order in which they were sent; answers come in that order.
    pub(crate) asked: VecDeque<Asked>,
    /// On its way, in pieces.
    pub(crate) to_server: VecDeque<Vec<u8>>,
    pub(crate) last_to_server: u64,
    /// The shard takes nothing now; what arrived meanwhile.
    pub(crate) paused: bool,
    pub(crate) held: VecDeque<Vec<u8>>,
    /// Output that the socket has not taken, in pieces.
    pub(crate) given: VecDeque<usize>,
    pub(crate) unsent: usize,
    pub(crate) last_taken: u64,
    /// On its way to the client: how many bytes in each piece.
    pub(crate) to_client: VecDeque<usize>,
    pub(crate) last_to_client: u64,
    /// Bytes that the server sent, and that came, in all.
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// The beginning of an answer that has not left in whole.
    pub(crate) leaving: Vec<u8>,
    /// Answers that are not whole at the client, with the byte at which each ends.
    pub(crate) answers: VecDeque<(u64, Asked, Vec<u8>)>,
    /// The server closed its end; the client learns of it behind the last byte.
    pub(crate) finished: bool,
}

impl Link {
    pub(super) fn new(id: LinkId, owner: Owner, shard: u32, accepted: u64, slow: bool) -> Self {
        Self {
            id,
            owner,
            shard,
            client_open: true,
            server: None,
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
            finished: false,
        }
    }

    /// All that the client still waits for, oldest first.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = &Asked> {
        self.answers.iter().map(|(_, asked, _)| asked).chain(&self.asked)
    }

    /// The client's end is gone: gives what it waited for.
    pub(crate) fn give_up(&mut self) -> Vec<Asked> {
        self.client_open = false;
        self.to_server.clear();
        let answered = self.answers.drain(..).map(|(_, asked, _)| asked);
        answered.chain(self.asked.drain(..)).collect()
    }
}
