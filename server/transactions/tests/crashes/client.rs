//! Clients with a transactional id each. One that gets no answer, or an error that it does not
//! know, begins again with InitProducerId.

use muster_transactions::message::Producer;
use muster_transactions::{RequestId, Text};
use std::collections::BTreeSet;

/// A transaction as its client knows it.
#[derive(Debug, Default)]
pub struct Transaction {
    /// The partitions with acknowledged records, and how many of them.
    pub acknowledged: Vec<i32>,
    /// The end that was acknowledged: true for a commit.
    pub ended: Option<bool>,
}

pub struct Client {
    pub id: Text,
    /// Whether its epoch increases with each transaction.
    pub has_epochs: bool,
    pub state: Stage,
    pub producer: Producer,
    /// The partitions that it has added itself.
    pub added: BTreeSet<i32>,
    /// The number of its present transaction.
    pub transaction: Option<usize>,
    /// When it stops to wait.
    pub gives_up_at: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It has no producer id.
    New,
    Ready,
    Waits(RequestId, Wanted),
    /// Its batch waits for the coordinator.
    Asks(u64, i32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    Begin,
    Add(i32),
    End { is_commit: bool },
}

impl Client {
    pub fn new(number: usize) -> Self {
        Self {
            id: format!("client-{number}").as_str().into(),
            has_epochs: number.is_multiple_of(2),
            state: Stage::New,
            producer: Producer { id: -1, epoch: -1 },
            added: BTreeSet::new(),
            transaction: None,
            gives_up_at: 0,
        }
    }

    /// Forgets all but its name.
    pub fn begin_again(&mut self) {
        self.state = Stage::New;
        self.transaction = None;
        self.added.clear();
    }
}
