//! Messages to a shard from other shards and from other threads of the process. Each part of a
//! shard that receives messages has an enum for them.
//!
//! Records and commits stay on the shard to which a client sends them. But some requests have to
//! wait for an answer from another shard:
//! - A change of the cluster waits for the controller ([`ToController::Admin`]).
//! - The first batch and the first offsets of a transaction wait for the coordinator of the
//!   transaction ([`ToTransactions::Letters`]).
//! - A request about the offsets of a share group waits for the leaders of the partitions
//!   ([`ToShares::StateQuestion`]).
//!
//! Dead letters of share groups go to the leaders of their queues ([`ToShares::DeadLetters`]).

mod broker;
mod controller;
mod reactor;
mod shares;
mod transactions;

pub(crate) use broker::ToBroker;
pub use controller::AdminRequest;
pub(crate) use controller::{Created, Creation, FromController, ToController};
pub(crate) use reactor::{Dialled, ToReactor};
pub(crate) use shares::{DeadLetters, DeadLettersAdded, ToShares};
pub use shares::{StateAnswer, StateQuestion};
pub use transactions::{Letter, ToTransactions};

use crate::inquiry::Inquiry;
use crate::security::TokenKeys;
use crate::telemetry::Pushed;
use crossbeam_channel::Sender;
use muster_uring::Waker;

/// A message to a shard, by the part that receives it.
#[derive(Debug)]
pub enum Message {
    Controller(ToController),
    FromController(FromController),
    Broker(ToBroker),
    Transactions(ToTransactions),
    Shares(ToShares),
    Reactor(ToReactor),
    /// The current keys by which tokens are checked.
    TokenKeys(TokenKeys),
    /// From the telemetry thread: the outcome of a push.
    Pushed(Pushed),
    /// From the admin side.
    Inquiry(Inquiry),
    /// From the operator: finish pending requests and end.
    Stop,
}

/// The way to reach another shard.
#[derive(Debug, Clone)]
pub struct Peer {
    pub sender: Sender<Message>,
    pub waker: Waker,
}

impl Peer {
    /// Sends a message. If the shard has ended, drops it, because the whole process is about to
    /// end.
    pub fn send(&self, message: impl Into<Message>) {
        if self.sender.send(message.into()).is_ok() {
            self.waker.wake();
        }
    }
}

impl From<ToController> for Message {
    fn from(message: ToController) -> Self {
        Self::Controller(message)
    }
}

impl From<FromController> for Message {
    fn from(message: FromController) -> Self {
        Self::FromController(message)
    }
}

impl From<ToBroker> for Message {
    fn from(message: ToBroker) -> Self {
        Self::Broker(message)
    }
}

impl From<ToTransactions> for Message {
    fn from(message: ToTransactions) -> Self {
        Self::Transactions(message)
    }
}

impl From<ToShares> for Message {
    fn from(message: ToShares) -> Self {
        Self::Shares(message)
    }
}

impl From<ToReactor> for Message {
    fn from(message: ToReactor) -> Self {
        Self::Reactor(message)
    }
}
