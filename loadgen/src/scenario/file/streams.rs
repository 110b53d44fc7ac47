//! The keys of the members of streams groups.

use serde::Deserialize;

use crate::scenario::values::{Span, Words};

/// An application of Kafka Streams, and the configs of its group.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Streams {
    /// The number of members in a process.
    pub threads: u32,
    /// Whether each process has an endpoint for interactive queries.
    pub endpoints: bool,
    /// If left out, one subtopology that reads all topics of the group and has a store.
    pub subtopologies: Vec<Subtopology>,
    /// Configs of the group. If one is left out, the cluster's value applies.
    pub standbys: Option<u32>,
    pub initial_delay: Option<Span>,
    pub assignment_interval: Option<Span>,
    pub heartbeat_interval: Option<Span>,
    pub session_timeout: Option<Span>,
}

/// A part of a topology.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Subtopology {
    /// Names of topic tables.
    pub sources: Words,
    /// The names of the repartition topics that the subtopology writes to.
    pub sinks: Words,
    /// The names of the repartition topics that the subtopology reads.
    pub repartitions: Words,
    /// The partition count of each topic in `repartitions`. 0 lets the coordinator choose it.
    pub partitions: u32,
    /// The names of the subtopology's stores. Each store has a changelog topic.
    pub stores: Words,
    /// Whether all topics that the subtopology reads must have equal partition counts, as for a
    /// join.
    pub copartitioned: bool,
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            threads: 1,
            endpoints: false,
            subtopologies: Vec::new(),
            standbys: None,
            initial_delay: None,
            assignment_interval: None,
            heartbeat_interval: None,
            session_timeout: None,
        }
    }
}

impl Streams {
    /// The configs of the group.
    pub(in crate::scenario) fn configs(&self) -> Vec<(String, String)> {
        let millis = |span: Option<Span>| span.map(|span| span.0.as_millis().to_string());
        let configs = [
            ("streams.num.standby.replicas", self.standbys.map(|count| count.to_string())),
            ("streams.initial.rebalance.delay.ms", millis(self.initial_delay)),
            ("streams.assignment.interval.ms", millis(self.assignment_interval)),
            ("streams.heartbeat.interval.ms", millis(self.heartbeat_interval)),
            ("streams.session.timeout.ms", millis(self.session_timeout)),
        ];
        let set = configs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        set.collect()
    }
}
