//! The keys of a change of running members.

use serde::Deserialize;

use super::Protocol;
use super::defaults::{all, one, one_second};
use crate::scenario::values::{Amount, Span, Words};

/// Changes members to another subscription, assignor or protocol. In each group a few members
/// change at a time, in the order of their numbers.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Change {
    #[serde(default)]
    pub groups: Words,
    /// How many members change. Members that already have the new properties are skipped.
    #[serde(default = "all")]
    pub members: Amount,
    /// The new subscription, as names of topic tables. It alone does not restart members.
    #[serde(default)]
    pub topics: Words,
    /// The new assignor. Members restart with it, as clients do for a changed config.
    #[serde(default)]
    pub assignor: Words,
    /// The new protocol, `classic` or `consumer`. Members restart with it.
    pub protocol: Option<Protocol>,
    #[serde(default = "one")]
    pub at_once: u32,
    /// The time between the stop and the start of a member that restarts.
    #[serde(default = "one_second")]
    pub down: Span,
    /// The time from one batch of `at_once` members to the next. If left out, the next batch waits
    /// until the group is stable again.
    pub every: Option<Span>,
}

impl Change {
    /// Whether members have to restart for the change.
    pub fn restarts(&self) -> bool {
        self.protocol.is_some() || !self.assignor.0.is_empty()
    }
}
