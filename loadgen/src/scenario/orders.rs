//! The input of a conductor, and its orders.

use std::time::Duration;

use super::cause::Cause;
use crate::client::ClientOrder;
use crate::driver::command::{Command, TaskError, TaskOutcome};
use crate::event::Event;
use crate::plan::GroupIndex;
use crate::time::Time;

/// The parameters of a run that its scenario does not contain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The part of topic and group names that identifies this run.
    pub run: String,
    pub seed: u64,
    /// After this time the run winds down.
    pub duration: Duration,
    /// When the run began, as the time since 1970.
    pub began: Duration,
    /// Whether groups and topics are kept after the run.
    pub keep: bool,
}

/// The status of a run at a tick.
pub struct Status<'a> {
    /// The events since the last tick, in order.
    pub events: &'a [Event],
    /// The tasks that ended since the last tick.
    pub done: &'a [(u64, Result<TaskOutcome, TaskError>)],
    /// The time since which a group has been stable: all members have their target assignments, and
    /// all partitions an owner. `None` if the group is not stable.
    pub stable_since: &'a dyn Fn(GroupIndex) -> Option<Time>,
}

/// The orders of a tick. The caller takes them out.
#[derive(Default, Debug)]
pub struct Orders {
    pub commands: Vec<Command>,
    /// The triggers of rebalances, for the measures.
    pub triggers: Vec<Trigger>,
    /// Events of muster-load itself.
    pub events: Vec<Event>,
    pub clients: Vec<ClientOrder>,
    /// Lines for the user.
    pub notes: Vec<String>,
}

/// An action that makes a group rebalance, or may do so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trigger {
    pub at: Time,
    pub group: GroupIndex,
    pub cause: Cause,
}
