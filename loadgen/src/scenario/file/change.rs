//! The keys of a change of running members.

use serde::Deserialize;

use super::Protocol;
use super::defaults::{all, one, one_second};
use crate::scenario::values::{Amount, Span, Words};

/// Gives members another subscription, assignor or protocol: in each group, a few members at a
/// time, in the order of their numbers.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Change {
    #[serde(default)]
    pub groups: Words,
    /// Members that are as they are to be do not count.
    #[serde(default = "all")]
    pub members: Amount,
    /// Names of topic tables, to which members subscribe instead. They continue meanwhile.
    #[serde(default)]
    pub topics: Words,
    /// Members restart with it, as clients do with another config.
    #[serde(default)]
    pub assignor: Words,
    /// `classic` or `consumer`: members restart with it.
    pub protocol: Option<Protocol>,
    #[serde(default = "one")]
    pub at_once: u32,
    /// The time between stop and start of members that restart.
    #[serde(default = "one_second")]
    pub down: Span,
    /// The interval of batches; if left out, the next one waits until the group is stable again.
    pub every: Option<Span>,
}

impl Change {
    /// Whether members have to restart for it.
    pub fn restarts(&self) -> bool {
        self.protocol.is_some() || !self.assignor.0.is_empty()
    }
}
