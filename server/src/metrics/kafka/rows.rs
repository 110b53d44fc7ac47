//! Kafka metrics that have one value for each name and set of labels.

use crate::metrics::family::Type;
use crate::metrics::sums::Recent;

/// A Kafka metric, and how its value is derived from the shards' numbers.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) labels: &'static [(&'static str, &'static str)],
    pub(super) of_type: Type,
    pub(super) help: &'static str,
    pub(super) value: fn(&Recent<'_>) -> f64,
}

const fn row(
    name: &'static str,
    labels: &'static [(&'static str, &'static str)],
    of_type: Type,
    help: &'static str,
    value: fn(&Recent<'_>) -> f64,
) -> Row {
    Row { name, labels, of_type, help, value }
}

macro_rules! dead_letters {
    ($name:literal, $help:literal, $number:literal) => {
        row(concat!("kafka_server_sharegroupmetrics_", $name), &[], Type::Counter, $help, |it| {
            it.now.number($number)
        })
    };
}

const CLASSIC_GROUPS: &str = "Classic groups in a state.";
const GROUPS_OF_KIND: &str = "Groups of a protocol.";
const CONSUMER_GROUPS: &str = "Consumer groups in a state.";
const STREAMS_GROUPS: &str = "Streams groups in a state.";
const SHARE_GROUPS: &str = "Share groups in a state.";
const PARTITIONS: &str = "Partitions of __consumer_offsets in a state.";
const LOAD: &str = "The time of the last load of a shard, in ms.";

/// The metrics with one value for each name and set of labels. Some of Kafka's gauges have names
/// that end like those of counters. They have no type here, and none with the JMX exporter.
pub(super) const ROWS: &[Row] = &[
    row(classic!("numgroups"), &[], Type::Gauge, "Classic groups.", classic_groups),
    row(
        classic!("numgroupscompletingrebalance"),
        &[],
        Type::Gauge,
        "Classic groups that wait for the assignment of their leader.",
        |it| it.now.number("groups_classic_completing_rebalance"),
    ),
    row(classic!("numgroupsdead"), &[], Type::Gauge, "Always 0: dead groups are removed.", none),
    row(classic!("numgroupsempty"), &[], Type::Gauge, "Classic groups without members.", |it| {
        it.now.number("groups_classic_empty")
    }),
    row(
        classic!("numgroupspreparingrebalance"),
        &[],
        Type::Gauge,
        "Classic groups that wait for members to join.",
        |it| it.now.number("groups_classic_preparing_rebalance"),
    ),
    row(
        classic!("numgroupsstable"),
        &[],
        Type::Gauge,
        "Classic groups with an assignment.",
        |it| it.now.number("groups_classic_stable"),
    ),
    row(classic!("numoffsets"), &[], Type::Gauge, "Committed offsets.", |it| {
        it.now.number("groups_offsets")
    }),
    row(
        coordinator!("group_count"),
        &[("protocol", "classic")],
        Type::Unknown,
        GROUPS_OF_KIND,
        classic_groups,
    ),
    row(
        coordinator!("group_count"),
        &[("protocol", "consumer")],
        Type::Unknown,
        GROUPS_OF_KIND,
        |it| {
            ["empty", "assigning", "reconciling", "stable"]
                .map(|state| it.now.number(&format!("groups_consumer_{state}")))
                .iter()
                .sum()
        },
    ),
    row(
        coordinator!("group_count"),
        &[("protocol", "share")],
        Type::Unknown,
        GROUPS_OF_KIND,
        |it| it.now.number("groups_share_empty") + it.now.number("groups_share_stable"),
    ),
    row(
        coordinator!("group_count"),
        &[("protocol", "streams")],
        Type::Unknown,
        GROUPS_OF_KIND,
        |it| {
            ["empty", "not_ready", "assigning", "reconciling", "stable"]
                .map(|state| it.now.number(&format!("groups_streams_{state}")))
                .iter()
                .sum()
        },
    ),
    of_classic(&[("state", "CompletingRebalance")], |it| {
        it.now.number("groups_classic_completing_rebalance")
    }),
    of_classic(&[("state", "Dead")], none),
    of_classic(&[("state", "Empty")], |it| it.now.number("groups_classic_empty")),
    of_classic(&[("state", "PreparingRebalance")], |it| {
        it.now.number("groups_classic_preparing_rebalance")
    }),
    of_classic(&[("state", "Stable")], |it| it.now.number("groups_classic_stable")),
    row(
        coordinator!("consumer_group_count"),
        &[("state", "Assigning")],
        Type::Unknown,
        CONSUMER_GROUPS,
        |it| it.now.number("groups_consumer_assigning"),
    ),
    row(
        coordinator!("consumer_group_count"),
        &[("state", "Dead")],
        Type::Unknown,
        CONSUMER_GROUPS,
        none,
    ),
    row(
        coordinator!("consumer_group_count"),
        &[("state", "Empty")],
        Type::Unknown,
        CONSUMER_GROUPS,
        |it| it.now.number("groups_consumer_empty"),
    ),
    row(
        coordinator!("consumer_group_count"),
        &[("state", "Reconciling")],
        Type::Unknown,
        CONSUMER_GROUPS,
        |it| it.now.number("groups_consumer_reconciling"),
    ),
    row(
        coordinator!("consumer_group_count"),
        &[("state", "Stable")],
        Type::Unknown,
        CONSUMER_GROUPS,
        |it| it.now.number("groups_consumer_stable"),
    ),
    of_streams(&[("state", "Assigning")], |it| it.now.number("groups_streams_assigning")),
    of_streams(&[("state", "Dead")], none),
    of_streams(&[("state", "Empty")], |it| it.now.number("groups_streams_empty")),
    of_streams(&[("state", "NotReady")], |it| it.now.number("groups_streams_not_ready")),
    of_streams(&[("state", "Reconciling")], |it| it.now.number("groups_streams_reconciling")),
    of_streams(&[("state", "Stable")], |it| it.now.number("groups_streams_stable")),
    row(coordinator!("share_group_count"), &[("state", "Dead")], Type::Unknown, SHARE_GROUPS, none),
    row(
        coordinator!("share_group_count"),
        &[("state", "Empty")],
        Type::Unknown,
        SHARE_GROUPS,
        |it| it.now.number("groups_share_empty"),
    ),
    row(
        coordinator!("share_group_count"),
        &[("state", "Stable")],
        Type::Unknown,
        SHARE_GROUPS,
        |it| it.now.number("groups_share_stable"),
    ),
    row(coordinator!("num_partitions"), &[("state", "active")], Type::Unknown, PARTITIONS, |it| {
        it.now.number("log_coordinators")
    }),
    row(coordinator!("num_partitions"), &[("state", "failed")], Type::Unknown, PARTITIONS, none),
    row(coordinator!("num_partitions"), &[("state", "loading")], Type::Unknown, PARTITIONS, none),
    row(coordinator!("offset_count"), &[], Type::Unknown, "Committed offsets.", |it| {
        it.now.number("groups_offsets")
    }),
    row(
        coordinator!("event_queue_size"),
        &[],
        Type::Unknown,
        "Connections with requests that wait for their turn.",
        |it| it.now.number("clients_waiting"),
    ),
    row(
        coordinator!("thread_idle_ratio_avg"),
        &[],
        Type::Unknown,
        "The part of the time in which the shards handled no events.",
        idle,
    ),
    row(coordinator!("batch_flush_rate"), &[], Type::Unknown, "Flushes in a second.", |it| {
        it.rate("log_flush_micros")
    }),
    row(coordinator!("partition_load_time_avg"), &[], Type::Unknown, LOAD, load),
    row(coordinator!("partition_load_time_max"), &[], Type::Unknown, LOAD, load),
    row(
        "kafka_server_transaction_coordinator_metrics_partition_load_time_avg",
        &[],
        Type::Unknown,
        LOAD,
        load,
    ),
    row(
        "kafka_server_transaction_coordinator_metrics_partition_load_time_max",
        &[],
        Type::Unknown,
        LOAD,
        load,
    ),
    row(
        "kafka_server_brokertopicmetrics_bytesin",
        &[],
        Type::Counter,
        "Bytes of batches that were appended.",
        |it| it.now.number("partitions_appended_bytes"),
    ),
    row(
        "kafka_server_brokertopicmetrics_bytesout",
        &[],
        Type::Counter,
        "Bytes of records in answers to fetches.",
        |it| it.now.number("partitions_fetched_bytes"),
    ),
    row(
        "kafka_server_brokertopicmetrics_messagesin",
        &[],
        Type::Counter,
        "Records that were appended.",
        |it| it.now.number("partitions_appended_records"),
    ),
    row(
        "kafka_server_replicamanager_leadercount",
        &[],
        Type::Gauge,
        "Partitions that are served.",
        |it| it.now.number("partitions_served"),
    ),
    row(
        "kafka_server_replicamanager_partitioncount",
        &[],
        Type::Gauge,
        "Partitions, served or offline.",
        |it| it.now.number("partitions_served") + it.now.number("partitions_offline"),
    ),
    row(
        "kafka_server_replicamanager_offlinereplicacount",
        &[],
        Type::Gauge,
        "Partitions that are damaged, and not served.",
        |it| it.now.number("partitions_offline"),
    ),
    row(
        "kafka_server_replicamanager_underreplicatedpartitions",
        &[],
        Type::Gauge,
        "Always 0: there is one replica.",
        none,
    ),
    row(
        "kafka_server_sharesessioncache_sharesessionscount",
        &[],
        Type::Gauge,
        "Share sessions.",
        |it| it.now.number("shares_sessions"),
    ),
    row(
        "kafka_server_sharesessioncache_sharepartitionscount",
        &[],
        Type::Gauge,
        "Partitions of all share sessions.",
        |it| it.now.number("shares_session_partitions"),
    ),
    dead_letters!(
        "deadletterqueuefailedproducerequests",
        "Batches of letters that dead letter queues refused.",
        "shares_dead_letter_requests_failed"
    ),
    dead_letters!(
        "deadletterqueuerecordcount",
        "Records that were written to dead letter queues.",
        "shares_dead_letters"
    ),
    dead_letters!(
        "deadletterqueuetotalproducerequests",
        "Batches of letters that were sent to dead letter queues.",
        "shares_dead_letter_requests"
    ),
    acknowledged(&[("ackType", "Accept")], |it| it.now.number("shares_accepted_records")),
    acknowledged(&[("ackType", "Reject")], |it| it.now.number("shares_rejected_records")),
    acknowledged(&[("ackType", "Release")], |it| it.now.number("shares_released_records")),
    acknowledged(&[("ackType", "Renew")], |it| it.now.number("shares_renewed_records")),
    row(
        "kafka_server_delayedsharefetchmetrics_expires",
        &[],
        Type::Counter,
        "ShareFetches that waited until their deadline.",
        |it| it.now.number("shares_expired_fetches"),
    ),
    row(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        &[("delayedOperation", "ShareFetch")],
        Type::Gauge,
        "ShareFetches that wait for records.",
        |it| it.now.number("shares_waiting_fetches"),
    ),
    row(
        "kafka_controller_kafkacontroller_activecontrollercount",
        &[],
        Type::Gauge,
        "Always 1: shard 0.",
        |_| 1.0,
    ),
    row(
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        &[],
        Type::Gauge,
        "Partitions that are damaged, and not served.",
        |it| it.now.number("partitions_offline"),
    ),
];

const fn acknowledged(
    how: &'static [(&'static str, &'static str)],
    value: fn(&Recent<'_>) -> f64,
) -> Row {
    let name = "kafka_server_sharegroupmetrics_recordacknowledgements";
    row(name, how, Type::Counter, "Records of share groups, by how members acknowledged.", value)
}

const fn of_classic(
    state: &'static [(&'static str, &'static str)],
    value: fn(&Recent<'_>) -> f64,
) -> Row {
    row(coordinator!("classic_group_count"), state, Type::Unknown, CLASSIC_GROUPS, value)
}

const fn of_streams(
    state: &'static [(&'static str, &'static str)],
    value: fn(&Recent<'_>) -> f64,
) -> Row {
    row(coordinator!("streams_group_count"), state, Type::Unknown, STREAMS_GROUPS, value)
}

fn classic_groups(recent: &Recent<'_>) -> f64 {
    ["empty", "preparing_rebalance", "completing_rebalance", "stable"]
        .map(|state| recent.now.number(&format!("groups_classic_{state}")))
        .iter()
        .sum()
}

fn none(_: &Recent<'_>) -> f64 {
    0.0
}

/// The average duration of the shards' last loads, in ms.
fn load(recent: &Recent<'_>) -> f64 {
    recent.now.number("shard_load_micros") / recent.now.number("shard_count").max(1.0) / 1_000.0
}

/// The fraction of the last 30 to 60 s in which the shards were not in a turn.
fn idle(recent: &Recent<'_>) -> f64 {
    let busy = recent.histogram("shard_turn_micros", |_| true).sum() as f64 / 1e6;
    let shards = recent.now.number("shard_count").max(1.0);
    (1.0 - busy / (recent.seconds * shards)).clamp(0.0, 1.0)
}
