//! The same random requests to muster and to Apache Kafka, and the differences of their answers.
//!
//! - [`generate`]: random requests of every API and version, from what a history has learnt so far.
//! - [`wire`]: connections to one server, with answers that may come late.
//! - [`history`]: one seed: each request goes to Kafka, then to muster in muster's own ids.
//! - [`sessions`]: the share sessions of a history.
//! - [`transactional`]: the transactional ids of a history. [`climb`]: one near its last epoch.
//! - [`settle`], [`settle_groups`], [`ends`]: waits for changes of topics, for what groups do after
//!   an answer, and for the markers of transactions.
//! - [`acls`]: histories of users whose ACLs change.
//! - [`quotas`]: clients with quotas, with the times until they are served.
//! - [`ids`]: which id of muster's plays the role of which id of Kafka's.
//! - [`compare`]: two answers, field by field. [`batches`]: their records.
//! - [`known`]: the differences that are argued.
//! - [`recording`]: Kafka's side of histories in a file, which needs no Kafka to be compared again.

#![forbid(unsafe_code)]

pub mod acls;
pub mod batches;
pub mod climb;
pub mod compare;
pub mod ends;
pub mod generate;
pub mod history;
pub mod ids;
pub mod known;
pub mod quotas;
pub mod recording;
pub mod report;
pub mod sessions;
pub mod settle;
pub mod settle_groups;
pub mod transactional;
pub mod wire;
pub mod world;

/// The configs of both servers, so that their answers can be equal.
pub const CONFIGS: &[&str] = &[
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.assignment.interval.ms=0",
    "group.consumer.min.assignment.interval.ms=0",
    "log.retention.check.interval.ms=3600000",
    "num.partitions=2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000",
];

/// The configs of both servers beside [`CONFIGS`], which the recordings were made without.
pub const MORE_CONFIGS: &[&str] = &[
    "group.share.assignment.interval.ms=0",
    "group.share.min.assignment.interval.ms=0",
    "group.share.record.lock.duration.ms=60000",
    "group.streams.assignment.interval.ms=0",
    "group.streams.min.assignment.interval.ms=0",
    "group.streams.initial.rebalance.delay.ms=0",
    "group.streams.heartbeat.interval.ms=15000",
];
