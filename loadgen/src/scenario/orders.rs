//! The input and the orders of a conductor.

use std::time::Duration;

use super::cause::Cause;
use crate::client::ClientOrder;
use crate::driver::command::{Command, TaskError, TaskOutcome};
use crate::event::Event;
use crate::plan::GroupIndex;
use crate::time::Time;

/// The parameters of a run that are not in its scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The part of the names of topics and groups that identifies this run.
    pub run: String,
    pub seed: u64,
    /// The time after which the run winds down.
    pub duration: Duration,
    /// When the run began, since 1970.
    pub began: Duration,
    /// Whether groups and topics are kept at the end.
    pub keep: bool,
}

/// The status of a run.
pub struct Status<'a> {
    /// The events since the last tick, in order.
    pub events: &'a [Event],
    /// Tasks that ended since then.
    pub done: &'a [(u64, Result<TaskOutcome, TaskError>)],
    /// The time since which a group is stable: all members have their target assignments, and all
    /// partitions an owner. `None` if it is not.
    pub stable_since: &'a dyn Fn(GroupIndex) -> Option<Time>,
}

/// The orders of a tick. The caller empties it.
#[derive(Default, Debug)]
pub struct Orders {
    pub commands: Vec<Command>,
    /// Triggers of rebalances, for the measures.
    pub triggers: Vec<Trigger>,
    /// Events of muster-load itself.
    pub events: Vec<Event>,
    pub clients: Vec<ClientOrder>,
    /// Lines for the user.
    pub notes: Vec<String>,
}

/// An action that makes, or may make, a group rebalance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trigger {
    pub at: Time,
    pub group: GroupIndex,
    pub cause: Cause,
}
