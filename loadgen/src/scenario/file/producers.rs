//! The keys of a scenario file for producers and readers. Readers read what the producers write.

use serde::Deserialize;

use super::defaults::{
    forty_five_seconds, hundred_millis, one, one_minute, one_second, three_seconds, yes,
};
use super::{Group, Load, Protocol, Share, Streams};
use crate::plan::Isolation;
use crate::scenario::values::{Amount, Span, Words};

/// Producers with the same properties.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Producer {
    pub name: String,
    #[serde(default = "one")]
    pub count: u32,
    /// Names of topic tables. If left out, all of them.
    #[serde(default)]
    pub topics: Words,
    #[serde(default = "yes")]
    pub transactional: bool,
    #[serde(default = "yes")]
    pub idempotent: bool,
    /// 1 or 2. If left out, 2 where the cluster supports it.
    pub transaction_version: Option<u8>,
    #[serde(default = "one_minute")]
    pub transaction_timeout: Span,
    /// The number of records per partition in a transaction.
    #[serde(default = "one")]
    pub records: u32,
    /// The size of each record's value in bytes.
    #[serde(default = "hundred")]
    pub record_size: u32,
    /// The number of partitions whose offsets each transaction commits.
    #[serde(default)]
    pub offsets: u32,
    /// The share of transactions that abort.
    pub abort: Option<Amount>,
    #[serde(default = "hundred_millis")]
    pub backoff: Span,
    #[serde(default = "one_second")]
    pub backoff_max: Span,
    /// How often a transaction begins, or a round of batches if the producer is not transactional.
    /// The default is that the next one begins when the previous one was answered.
    #[serde(default = "closed_loop")]
    pub produce: Load,
}

/// Readers with the same properties.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Reader {
    pub name: String,
    /// The number of readers. Each reads all partitions.
    #[serde(default = "one")]
    pub count: u32,
    /// Names of topic tables. If left out, all of them.
    #[serde(default)]
    pub topics: Words,
    #[serde(default)]
    pub isolation: Isolation,
    #[serde(default = "hundred_millis")]
    pub backoff: Span,
    #[serde(default = "one_second")]
    pub backoff_max: Span,
}

impl Group {
    pub(super) fn of_producers(producer: Producer) -> Self {
        Self {
            members: producer.count,
            topics: producer.topics.clone(),
            backoff: producer.backoff,
            backoff_max: producer.backoff_max,
            producer: Some(producer.clone()),
            ..Self::without_members(producer.name, Protocol::Producer)
        }
    }

    pub(super) fn of_readers(reader: Reader) -> Self {
        Self {
            members: reader.count,
            topics: reader.topics.clone(),
            backoff: reader.backoff,
            backoff_max: reader.backoff_max,
            reader: Some(reader.clone()),
            ..Self::without_members(reader.name, Protocol::Reader)
        }
    }

    fn without_members(name: String, protocol: Protocol) -> Self {
        Self {
            name,
            count: 1,
            members: 1,
            protocol,
            optional: false,
            assignor: Words::default(),
            topics: Words::default(),
            regex: false,
            static_members: None,
            racks: Words::default(),
            session_timeout: forty_five_seconds(),
            heartbeat_interval: three_seconds(),
            rebalance_timeout: one_minute(),
            revocation_takes: None,
            fetch_on_assignment: false,
            backoff: hundred_millis(),
            backoff_max: one_second(),
            commit: None,
            offset_fetch: None,
            fetch: None,
            heartbeat: None,
            share: Share::default(),
            streams: Streams::default(),
            producer: None,
            reader: None,
        }
    }
}

fn hundred() -> u32 {
    100
}

fn closed_loop() -> Load {
    Load { in_flight: 1, ..Load::default() }
}
