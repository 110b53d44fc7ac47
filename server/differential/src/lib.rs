//! Sends the same random requests to muster and to Apache Kafka, and reports the differences
//! between their answers.
//!
//! - [`generate`]: random requests of all APIs and versions, based on what a history has learned.
//! - [`world`]: what a history has learned, according to Kafka's answers.
//! - [`wire`]: connections to one server, with answers that may come late.
//! - [`history`]: one seed. Each request goes to Kafka, and then to muster with muster's own ids.
//! - [`sessions`]: the share sessions of a history.
//! - [`transactional`]: the transactional ids of a history. [`climb`]: raises the epoch of one id
//!   until it is near the last one.
//! - [`settle`], [`settle_groups`], [`ends`]: waits for changes of topics, for what groups do after
//!   an answer, and for the markers of transactions.
//! - [`acls`]: histories of users whose ACLs change.
//! - [`quotas`]: clients with quotas, and how long they are not served.
//! - [`ids`]: maps the ids of Kafka to those of muster.
//! - [`compare`]: compares two answers field by field. [`batches`]: compares their records.
//! - [`known`]: the intended differences.
//! - [`report`]: the differences by kind, each with an example.
//! - [`recording`]: Kafka's part of histories in a file, to compare with muster without Kafka.

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

/// The configs that both servers need for equal answers.
pub const CONFIGS: &[&str] = &[
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.assignment.interval.ms=0",
    "group.consumer.min.assignment.interval.ms=0",
    "log.retention.check.interval.ms=3600000",
    "num.partitions=2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000",
    "group.share.assignment.interval.ms=0",
    "group.share.min.assignment.interval.ms=0",
    "group.share.record.lock.duration.ms=60000",
    "group.streams.assignment.interval.ms=0",
    "group.streams.min.assignment.interval.ms=0",
    "group.streams.initial.rebalance.delay.ms=0",
    "group.streams.heartbeat.interval.ms=15000",
];
