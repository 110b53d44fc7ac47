//! The configs of a broker: one row for each key. All else is derived from these rows.
//!
//! A field is Kafka's key with `_` for `.`. Types, defaults and ranges are those of Kafka 4.4
//! (`AbstractKafkaConfig.CONFIG_DEF`). They differ from Kafka's for `log.dir` and
//! `offsets.topic.segment.bytes`, in the maxima of `quota.window.num` and of the partitions of
//! internal topics, and where a value would lock out all clients. Keys of features that muster does
//! not have (tiered storage, plug-ins and others) are in `unserved`.

use super::Served;
use super::key::{Flags, Key, find, key_name, set_field};
use super::of_listeners::OfListeners;
use super::value::{
    CleanupPolicy, CompressionType, ConfigValue, Password, Valid, at_least, between, words,
};
use muster_codec::record_batch::TimestampType;
use muster_coordinator::Config as Coordinator;
use muster_storage::PARTITIONS_MAX;
use muster_storage::limits::SEGMENT_BYTES_DEFAULT;
use std::collections::{BTreeMap, BTreeSet};

/// Default of `shard.memory.max.bytes`. It exceeds the sum of the limits in [`crate::limits`].
pub(crate) const SHARD_BYTES_MAX: usize = 1_206 << 20;

/// Default of `disk.reserve.bytes`: enough for several segments of shard logs.
const RESERVE_BYTES: i64 = 64 << 20;

/// Default of `socket.request.max.bytes`.
pub(crate) const REQUEST_BYTES_DEFAULT: i32 = 100 << 20;

/// Maximum of `max.decompressed.message.bytes`: Java's longest array.
pub(super) const RECORD_BYTES_MAX: i64 = 2_147_483_639;

/// Maximum number of partitions of an internal topic. Kafka has no such limit.
const LOG_PARTITIONS: i64 = PARTITIONS_MAX as i64;

/// Kafka's default class for writing dead letters. muster accepts no other class.
const DLQ_MANAGER: &str = "org.apache.kafka.server.share.dlq.DefaultShareGroupDLQManager";

/// The defaults of the coordinator's configs.
const GROUPS: Coordinator = Coordinator::DEFAULT;

fn assignors() -> Vec<String> {
    GROUPS.group_consumer_assignors.iter().map(|it| it.name().to_owned()).collect()
}

macro_rules! broker_configs {
    ($($field:ident: $type:ty = $default:expr, $valid:expr, [$($flag:ident)*];)*) => {
        /// The configs of a server.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Config {
            $(pub $field: $type,)*
            /// The keys that the file or the command line set, with their values as text. Also keys
            /// that were not set, but for which muster has chosen a value ([`Self::default_to`]).
            pub(super) set: BTreeMap<&'static str, String>,
            /// The keys of the command line, including keys of single listeners, in lower case.
            /// Clients cannot override them.
            pub(super) pinned: BTreeSet<String>,
            /// Keys of single listeners or SASL mechanisms. Their values are not printed.
            pub(super) of_listeners: OfListeners,
            /// Keys of features that muster does not have. They were set, and have no effect.
            pub(super) unserved: BTreeSet<String>,
            /// The values of those `unserved` keys that are sizes of thread pools.
            pub(super) unserved_threads: BTreeMap<&'static str, i64>,
            /// Keys that were set although muster does not do what their values promise. Each has a
            /// line that says so.
            pub(super) promises: BTreeMap<String, String>,
            /// The listeners and the data directory, once they are decided.
            pub served: Option<Served>,
        }

        /// Kafka's defaults.
        impl Default for Config {
            fn default() -> Self {
                Self {
                    $($field: $default,)*
                    set: BTreeMap::new(),
                    pinned: BTreeSet::new(),
                    of_listeners: OfListeners::default(),
                    unserved: BTreeSet::new(),
                    unserved_threads: BTreeMap::new(),
                    promises: BTreeMap::new(),
                    served: None,
                }
            }
        }

        impl Config {
            /// All keys, in the order of their names.
            pub const KEYS: &'static [Key<Self>] = &[$(
                Key {
                    name: key_name!($field),
                    config_type: <$type as ConfigValue>::TYPE,
                    valid: $valid,
                    flags: Flags { $($flag: true,)* ..Flags::NONE },
                    synonyms: &[],
                    get: |config| config.$field.value(),
                    set: |config, text, valid| set_field(&mut config.$field, text, valid),
                },
            )*];
        }
    };
}

impl Config {
    pub fn key(name: &str) -> Option<&'static Key<Self>> {
        find(Self::KEYS, name)
    }
}

broker_configs! {
    add_partitions_to_txn_retry_backoff_max_ms: i32 = 100, at_least(0), [obeyed];
    add_partitions_to_txn_retry_backoff_ms: i32 = 20, at_least(1), [];
    // muster's own: group ids whose lag the metrics always show; `*` at the end matches any rest.
    admin_lag_groups: Vec<String> = Vec::new(), Valid::Any, [obeyed];
    // muster's own: the maximum age of a survey of all groups' lag when a client asks for the lag.
    admin_lag_interval_ms: i64 = 10_000, at_least(100), [obeyed];
    // muster's own: the number of groups with the most lag that the metrics show, and the number of
    // partitions with the most lag.
    admin_lag_top: i32 = 100, between(0, 10_000), [obeyed];
    // muster's own: the address of metrics, health and the page; empty to switch them off.
    admin_listener: String = "127.0.0.1:9190".into(), Valid::Any, [obeyed];
    // muster's own: whether the admin listener shows records of topics.
    admin_records: bool = false, Valid::Any, [obeyed];
    // muster's own, for tests: whether POST /reset removes everything that clients have created,
    // except users.
    admin_reset_enable: bool = false, Valid::Any, [obeyed];
    // muster's own: the token that clients of the admin listener must send.
    admin_token: Option<Password> = None, Valid::Any, [obeyed];
    advertised_listeners: Option<Vec<String>> = None, Valid::Any, [obeyed];
    allow_everyone_if_no_acl_found: bool = false, Valid::Any, [obeyed];
    alter_log_dirs_replication_quota_window_num: i32 = 11, at_least(1), [];
    alter_log_dirs_replication_quota_window_size_seconds: i32 = 1, at_least(1), [];
    authorizer_class_name: String = String::new(), Valid::Any, [obeyed];
    auto_create_topics_enable: bool = true, Valid::Any, [obeyed];
    auto_leader_rebalance_enable: bool = true, Valid::Any, [];
    background_threads: i32 = 10, at_least(1), [dynamic];
    broker_heartbeat_interval_ms: i32 = 2_000, Valid::Any, [];
    broker_id: i32 = -1, Valid::Any, [];
    broker_rack: Option<String> = None, Valid::Any, [];
    broker_session_timeout_ms: i32 = 9_000, Valid::Any, [];
    // muster's own: whether `/metrics` shows the metrics that clients push (KIP-714).
    client_telemetry_metrics_enable: bool = true, Valid::Any, [obeyed];
    // muster's own: the OTLP URL to which pushed metrics are forwarded; empty for none.
    client_telemetry_otlp_endpoint: String = String::new(), Valid::Any, [obeyed];
    compression_gzip_level: i32 = -1, Valid::GzipLevel, [dynamic];
    compression_lz4_level: i32 = 9, between(1, 17), [dynamic];
    compression_type: CompressionType = CompressionType::Producer, Valid::Any, [dynamic];
    compression_zstd_level: i32 = 3, between(-131_072, 22), [dynamic];
    connection_failed_authentication_delay_ms: i32 = 100, at_least(0), [obeyed];
    connections_max_idle_ms: i64 = 600_000, Valid::Any, [obeyed];
    connections_max_reauth_ms: i64 = 0, Valid::Any, [obeyed];
    controlled_shutdown_enable: bool = true, Valid::Any, [];
    controller_listener_names: Option<Vec<String>> = None, Valid::Any, [obeyed];
    controller_quorum_append_linger_ms: i32 = 25, at_least(0), [];
    controller_quorum_auto_join_enable: bool = false, Valid::Any, [];
    controller_quorum_bootstrap_servers: Vec<String> = Vec::new(), Valid::Any, [];
    controller_quorum_election_backoff_max_ms: i32 = 1_000, at_least(0), [];
    controller_quorum_election_timeout_ms: i32 = 1_000, at_least(0), [];
    controller_quorum_fetch_max_bytes: i32 = 1_048_576, at_least(1), [];
    controller_quorum_fetch_snapshot_max_bytes: i32 = 1_048_576, at_least(1), [];
    controller_quorum_fetch_timeout_ms: i32 = 2_000, at_least(0), [];
    controller_quorum_request_timeout_ms: i32 = 2_000, at_least(0), [];
    controller_quorum_retry_backoff_ms: i32 = 20, at_least(0), [];
    controller_quorum_voters: Vec<String> = Vec::new(), Valid::Any, [obeyed];
    controller_quota_window_num: i32 = 11, at_least(1), [obeyed];
    controller_quota_window_size_seconds: i32 = 1, at_least(1), [obeyed];
    controller_socket_timeout_ms: i32 = 30_000, Valid::Any, [];
    default_replication_factor: i32 = 1, Valid::Any, [];
    delete_records_purgatory_purge_interval_requests: i32 = 1, Valid::Any, [];
    delete_topic_enable: bool = true, Valid::Any, [obeyed];
    // muster's own: produces are refused while the volume of the data directory has less free
    // space than this. A file of this size holds further space in reserve, in case other programs
    // fill the volume.
    disk_reserve_bytes: i64 = RESERVE_BYTES, at_least(0), [obeyed];
    errors_deadletterqueue_auto_create_topics_enable: bool = false, Valid::Any, [obeyed dynamic];
    errors_deadletterqueue_topic_name_prefix: String = "dlq.".into(), Valid::Any, [obeyed dynamic];
    fetch_max_bytes: i32 = 57_671_680, at_least(1_024), [obeyed];
    fetch_purgatory_purge_interval_requests: i32 = 1_000, Valid::Any, [];
    group_consumer_assignment_interval_ms: i32 = GROUPS.group_consumer_assignment_interval_ms,
        at_least(0), [obeyed dynamic];
    group_consumer_assignor_offload_enable: bool = true, Valid::Any, [dynamic internal];
    group_consumer_assignors: Vec<String> = assignors(), Valid::Any, [obeyed];
    group_consumer_heartbeat_interval_ms: i32 = GROUPS.group_consumer_heartbeat_interval_ms,
        at_least(1), [obeyed];
    group_consumer_max_assignment_interval_ms: i32 = 15_000, at_least(0), [obeyed];
    group_consumer_max_heartbeat_interval_ms: i32 = 15_000, at_least(1), [obeyed];
    group_consumer_max_session_timeout_ms: i32 = 60_000, at_least(1), [obeyed];
    group_consumer_max_size: i32 = GROUPS.group_consumer_max_size, at_least(1), [obeyed];
    group_consumer_migration_policy: String = GROUPS.group_consumer_migration_policy.name().into(),
        Valid::OneOfIgnoringCase(&["DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"]), [obeyed];
    group_consumer_min_assignment_interval_ms: i32 = 0, at_least(0), [obeyed];
    group_consumer_min_heartbeat_interval_ms: i32 = 5_000, at_least(1), [obeyed];
    group_consumer_min_session_timeout_ms: i32 = 45_000, at_least(1), [obeyed];
    group_consumer_regex_refresh_interval_ms: i32 = GROUPS.group_consumer_regex_refresh_interval_ms,
        at_least(10_000), [obeyed internal];
    group_consumer_session_timeout_ms: i32 = GROUPS.group_consumer_session_timeout_ms,
        at_least(1), [obeyed];
    group_coordinator_append_linger_ms: i32 = -1, at_least(-1), [obeyed];
    group_coordinator_background_threads: i32 = 2, at_least(1), [];
    group_coordinator_cached_buffer_max_bytes: i32 = 1_048_588, at_least(524_288), [dynamic];
    group_coordinator_rebalance_protocols: Vec<String> = words("classic,consumer,streams"),
        Valid::EachOneOf(&["consumer", "classic", "share", "streams"]), [obeyed];
    group_coordinator_threads: i32 = 4, at_least(1), [];
    group_initial_rebalance_delay_ms: i32 = GROUPS.group_initial_rebalance_delay_ms,
        Valid::Any, [obeyed];
    group_max_session_timeout_ms: i32 = GROUPS.group_max_session_timeout_ms, Valid::Any, [obeyed];
    group_max_size: i32 = GROUPS.group_max_size, at_least(1), [obeyed];
    group_min_session_timeout_ms: i32 = GROUPS.group_min_session_timeout_ms, Valid::Any, [obeyed];
    group_share_assignment_interval_ms: i32 = 1_000, at_least(0), [obeyed dynamic];
    group_share_assignor_offload_enable: bool = true, Valid::Any, [dynamic internal];
    group_share_assignors: Vec<String> = words("simple"), Valid::Any, [];
    group_share_delivery_count_limit: i32 = 5, between(2, 10), [obeyed];
    group_share_dlq_manager_class_name: String = DLQ_MANAGER.into(), Valid::Any, [internal];
    group_share_heartbeat_interval_ms: i32 = 5_000, at_least(1), [obeyed];
    group_share_initialize_retry_interval_ms: i32 = 30_000, at_least(1), [obeyed internal];
    group_share_max_assignment_interval_ms: i32 = 15_000, at_least(0), [obeyed];
    group_share_max_delivery_count_limit: i32 = 10, between(5, 25), [obeyed];
    group_share_max_heartbeat_interval_ms: i32 = 15_000, at_least(1), [obeyed];
    group_share_max_partition_max_record_locks: i32 = 4_000, between(2_000, 10_000), [obeyed];
    group_share_max_record_lock_duration_ms: i32 = 60_000, between(30_000, 3_600_000), [obeyed];
    group_share_max_session_timeout_ms: i32 = 60_000, at_least(1), [obeyed];
    group_share_max_share_sessions: i32 = 2_000, at_least(1), [obeyed];
    group_share_max_size: i32 = 200, between(1, 1_000), [obeyed];
    group_share_min_assignment_interval_ms: i32 = 0, at_least(0), [obeyed];
    group_share_min_delivery_count_limit: i32 = 2, between(2, 5), [obeyed];
    group_share_min_heartbeat_interval_ms: i32 = 5_000, at_least(1), [obeyed];
    group_share_min_partition_max_record_locks: i32 = 100, between(100, 2_000), [obeyed];
    group_share_min_record_lock_duration_ms: i32 = 15_000, between(1_000, 30_000), [obeyed];
    group_share_min_session_timeout_ms: i32 = 45_000, at_least(1), [obeyed];
    group_share_partition_max_record_locks: i32 = 2_000, between(100, 10_000), [obeyed];
    group_share_record_lock_duration_ms: i32 = 30_000, between(1_000, 3_600_000), [obeyed];
    group_share_session_timeout_ms: i32 = 45_000, at_least(1), [obeyed];
    group_streams_acceptable_recovery_lag: i64 = 10_000, at_least(0), [obeyed internal];
    group_streams_assignment_interval_ms: i32 = 1_000, at_least(0), [obeyed dynamic];
    group_streams_assignor_offload_enable: bool = true, Valid::Any, [internal dynamic];
    group_streams_assignors: Vec<String> = words("sticky"), Valid::Any, [obeyed];
    group_streams_heartbeat_interval_ms: i32 = 5_000, at_least(1), [obeyed];
    group_streams_initial_rebalance_delay_ms: i32 = 3_000, at_least(0), [obeyed];
    group_streams_max_assignment_interval_ms: i32 = 15_000, at_least(0), [obeyed];
    group_streams_max_heartbeat_interval_ms: i32 = 15_000, at_least(1), [obeyed];
    group_streams_max_session_timeout_ms: i32 = 60_000, at_least(1), [obeyed];
    group_streams_max_size: i32 = i32::MAX, at_least(1), [obeyed];
    group_streams_max_standby_replicas: i32 = 2, at_least(0), [obeyed];
    group_streams_max_warmup_replicas: i32 = 20, at_least(0), [internal];
    group_streams_min_assignment_interval_ms: i32 = 0, at_least(0), [obeyed];
    group_streams_min_heartbeat_interval_ms: i32 = 5_000, at_least(1), [obeyed];
    group_streams_min_session_timeout_ms: i32 = 45_000, at_least(1), [obeyed];
    group_streams_min_task_offset_interval_ms: i32 = 15_000, at_least(1), [obeyed internal];
    group_streams_num_standby_replicas: i32 = 0, at_least(0), [obeyed];
    group_streams_num_warmup_replicas: i32 = 2, at_least(0), [internal];
    group_streams_rack_aware_assignment_tags: Vec<String> = Vec::new(), Valid::Any, [obeyed];
    group_streams_session_timeout_ms: i32 = 45_000, at_least(1), [obeyed];
    group_streams_task_offset_interval_ms: i32 = 60_000, at_least(1), [obeyed internal];
    initial_broker_registration_timeout_ms: i32 = 60_000, Valid::Any, [];
    inter_broker_listener_name: Option<String> = None, Valid::Any, [obeyed];
    // muster's own: the driver for the shards' I/O.
    io_driver: String = "auto".into(), Valid::OneOf(&["auto", "io_uring", "poll"]), [obeyed];
    leader_imbalance_check_interval_seconds: i64 = 300, at_least(1), [];
    listener_security_protocol_map: String =
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT".into(),
        Valid::Any, [obeyed];
    listeners: Vec<String> = words("PLAINTEXT://:9092"), Valid::Any, [obeyed];
    log_cleaner_backoff_ms: i64 = 15_000, at_least(0), [obeyed dynamic];
    log_cleaner_dedupe_buffer_size: i64 = 134_217_728, Valid::Any, [obeyed dynamic];
    log_cleaner_delete_retention_ms: i64 = 86_400_000, at_least(0), [obeyed dynamic];
    log_cleaner_enable: bool = true, Valid::Any, [obeyed];
    log_cleaner_io_buffer_load_factor: f64 = 0.9, Valid::Any, [dynamic];
    log_cleaner_io_buffer_size: i32 = 524_288, at_least(0), [dynamic];
    log_cleaner_io_max_bytes_per_second: f64 = f64::MAX, Valid::Any, [obeyed dynamic];
    log_cleaner_max_compaction_lag_ms: i64 = i64::MAX, at_least(1), [obeyed dynamic];
    log_cleaner_min_cleanable_ratio: f64 = 0.5, Valid::Ratio, [obeyed dynamic];
    log_cleaner_min_compaction_lag_ms: i64 = 0, at_least(0), [obeyed dynamic];
    log_cleaner_threads: i32 = 1, at_least(0), [dynamic];
    log_cleanup_policy: CleanupPolicy = CleanupPolicy::DELETE, Valid::Any, [obeyed dynamic];
    log_dir: Vec<String> = words("data"), Valid::Any, [obeyed];
    log_dir_failure_timeout_ms: i64 = 30_000, at_least(1), [];
    log_dirs: Option<Vec<String>> = None, Valid::Any, [obeyed];
    log_flush_interval_messages: i64 = i64::MAX, at_least(1), [obeyed dynamic];
    log_flush_interval_ms: Option<i64> = None, Valid::Any, [dynamic];
    log_flush_offset_checkpoint_interval_ms: i32 = 60_000, at_least(0), [];
    log_flush_scheduler_interval_ms: i64 = i64::MAX, Valid::Any, [];
    log_flush_start_offset_checkpoint_interval_ms: i32 = 60_000, at_least(0), [];
    log_index_interval_bytes: i32 = 4_096, at_least(0), [dynamic];
    log_index_size_max_bytes: i32 = 10_485_760, at_least(4), [dynamic];
    log_initial_task_delay_ms: i64 = 30_000, at_least(0), [internal];
    log_local_retention_bytes: i64 = -2, at_least(-2), [dynamic];
    log_local_retention_ms: i64 = -2, at_least(-2), [dynamic];
    log_message_timestamp_after_max_ms: i64 = 3_600_000, at_least(0), [obeyed dynamic];
    log_message_timestamp_before_max_ms: i64 = i64::MAX, at_least(0), [obeyed dynamic];
    log_message_timestamp_type: TimestampType =
        TimestampType::CreateTime, Valid::Any, [obeyed dynamic];
    log_preallocate: bool = false, Valid::Any, [dynamic];
    log_remote_copy_lag_bytes: i64 = -1, at_least(-1), [dynamic];
    log_remote_copy_lag_ms: i64 = 0, at_least(-1), [dynamic];
    log_retention_bytes: i64 = -1, Valid::Any, [obeyed dynamic];
    log_retention_check_interval_ms: i64 = 300_000, at_least(1), [obeyed];
    log_retention_hours: i32 = 168, Valid::Any, [obeyed];
    log_retention_minutes: Option<i32> = None, Valid::Any, [obeyed];
    log_retention_ms: Option<i64> = None, Valid::Any, [obeyed dynamic];
    log_roll_hours: i32 = 168, at_least(1), [obeyed];
    log_roll_jitter_hours: i32 = 0, at_least(0), [];
    log_roll_jitter_ms: Option<i64> = None, Valid::Any, [dynamic];
    log_roll_ms: Option<i64> = None, Valid::Any, [obeyed dynamic];
    log_segment_bytes: i32 = 1_073_741_824, at_least(1_048_576), [obeyed dynamic];
    log_segment_delete_delay_ms: i64 = 60_000, at_least(0), [dynamic];
    // Kafka accepts 0, which would admit no client.
    max_connection_creation_rate: i32 = i32::MAX, at_least(1), [obeyed dynamic];
    // Kafka accepts 0, as it has exceptions by listener and address; in muster 0 would lock out all
    // clients.
    max_connections: i32 = i32::MAX, at_least(1), [obeyed dynamic];
    max_connections_per_ip: i32 = i32::MAX, at_least(1), [obeyed dynamic];
    max_connections_per_ip_overrides: String = String::new(), Valid::Any, [obeyed dynamic];
    max_decompressed_message_bytes: i32 = i32::MAX - 8, between(1, RECORD_BYTES_MAX),
        [obeyed dynamic];
    max_incremental_fetch_session_cache_slots: i32 = 1_000, at_least(0), [];
    max_request_partition_size_limit: i32 = 2_000, at_least(1), [obeyed];
    message_max_bytes: i32 = 1_048_588, at_least(0), [obeyed dynamic];
    metadata_log_max_record_bytes_between_snapshots: i64 = 20_971_520, at_least(1), [obeyed];
    metadata_log_max_snapshot_interval_ms: i64 = 3_600_000, at_least(0), [obeyed];
    metadata_log_segment_bytes: i32 = 1_073_741_824, at_least(8_388_608), [];
    metadata_log_segment_ms: i64 = 604_800_000, Valid::Any, [];
    metadata_max_idle_interval_ms: i32 = 500, at_least(0), [];
    metadata_max_retention_bytes: i64 = 104_857_600, Valid::Any, [];
    metadata_max_retention_ms: i64 = 604_800_000, Valid::Any, [];
    metrics_num_samples: i32 = 2, at_least(1), [];
    metrics_recording_level: String = "INFO".into(), Valid::Any, [];
    metrics_sample_window_ms: i64 = 30_000, at_least(1), [];
    min_insync_replicas: i32 = 1, at_least(1), [dynamic];
    node_id: Option<i32> = None, at_least(0), [obeyed];
    num_io_threads: i32 = 8, at_least(1), [dynamic];
    num_network_threads: i32 = 3, at_least(1), [dynamic];
    num_partitions: i32 = 1, at_least(1), [obeyed];
    num_recovery_threads_per_data_dir: i32 = 2, at_least(1), [dynamic];
    num_replica_alter_log_dirs_threads: Option<i32> = None, Valid::Any, [];
    num_replica_fetchers: i32 = 1, at_least(1), [dynamic];
    offset_metadata_max_bytes: i32 = GROUPS.offset_metadata_max_bytes, Valid::Any, [obeyed];
    offsets_commit_timeout_ms: i32 = 5_000, at_least(1), [];
    offsets_load_buffer_size: i32 = 5_242_880, at_least(1), [];
    offsets_retention_check_interval_ms: i64 = GROUPS.offsets_retention_check_interval_ms,
        at_least(1), [obeyed];
    offsets_retention_minutes: i32 = (GROUPS.offsets_retention_ms / 60_000) as i32,
        at_least(1), [obeyed];
    offsets_topic_compression_codec: i32 = 0, Valid::Any, [];
    offsets_topic_num_partitions: i32 = 50, between(1, LOG_PARTITIONS), [obeyed];
    offsets_topic_replication_factor: i16 = 3, at_least(1), [];
    // Kafka's 100 MiB would delay the first answer on a new data directory: a segment is filled
    // with zeros before it takes its first record.
    offsets_topic_segment_bytes: i32 = SEGMENT_BYTES_DEFAULT as i32, at_least(1), [obeyed];
    process_roles: Option<Vec<String>> = None, Valid::EachOneOf(&["broker", "controller"]), [];
    producer_id_expiration_check_interval_ms: i32 = 600_000, at_least(1), [internal];
    producer_id_expiration_ms: i32 = 86_400_000, at_least(1), [obeyed dynamic];
    producer_purgatory_purge_interval_requests: i32 = 1_000, Valid::Any, [];
    queued_max_request_bytes: i64 = -1, Valid::Any, [obeyed];
    queued_max_requests: i32 = 500, at_least(1), [];
    // The upper limit bounds memory: each client with a quota has this number of samples.
    quota_window_num: i32 = 11, between(1, 1_000), [obeyed];
    quota_window_size_seconds: i32 = 1, at_least(1), [obeyed];
    replica_fetch_backoff_ms: i32 = 1_000, at_least(0), [];
    replica_fetch_max_bytes: i32 = 1_048_576, at_least(0), [];
    replica_fetch_min_bytes: i32 = 1, Valid::Any, [];
    replica_fetch_response_max_bytes: i32 = 10_485_760, at_least(0), [];
    replica_fetch_wait_max_ms: i32 = 500, Valid::Any, [];
    replica_high_watermark_checkpoint_interval_ms: i64 = 5_000, Valid::Any, [];
    replica_lag_time_max_ms: i64 = 30_000, Valid::Any, [];
    replica_socket_receive_buffer_bytes: i32 = 65_536, Valid::Any, [];
    replica_socket_timeout_ms: i32 = 30_000, Valid::Any, [];
    replication_quota_window_num: i32 = 11, at_least(1), [];
    replication_quota_window_size_seconds: i32 = 1, at_least(1), [];
    request_timeout_ms: i32 = 30_000, Valid::Any, [];
    sasl_enabled_mechanisms: Vec<String> = words("GSSAPI"), Valid::Any, [obeyed];
    sasl_oauthbearer_clock_skew_seconds: i32 = 30, Valid::Any, [obeyed];
    sasl_oauthbearer_expected_audience: Vec<String> = Vec::new(), Valid::Any, [obeyed];
    sasl_oauthbearer_expected_issuer: Option<String> = None, Valid::Any, [obeyed];
    sasl_oauthbearer_jwks_endpoint_refresh_ms: i64 = 3_600_000, at_least(1), [obeyed];
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: i64 = 10_000, at_least(1), [obeyed];
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: i64 = 100, at_least(1), [obeyed];
    sasl_oauthbearer_jwks_endpoint_url: Option<String> = None, Valid::Any, [obeyed];
    sasl_oauthbearer_scope_claim_name: String = "scope".into(), Valid::Any, [obeyed];
    sasl_oauthbearer_sub_claim_name: String = "sub".into(), Valid::Any, [obeyed];
    sasl_server_max_receive_size: i32 = 524_288, at_least(1), [obeyed];
    // muster's own: the memory that a shard uses for its clients apart from durable state. Some
    // other limits are fractions of this value.
    shard_memory_max_bytes: i64 = SHARD_BYTES_MAX as i64, at_least(SHARD_BYTES_MAX as i64 / 2),
        [obeyed];
    share_coordinator_append_linger_ms: i32 = -1, at_least(-1), [];
    share_coordinator_cached_buffer_max_bytes: i32 = 1_048_588, at_least(524_288), [dynamic];
    share_coordinator_cold_partition_snapshot_interval_ms: i32 = 300_000, at_least(1),
        [obeyed internal];
    share_coordinator_load_buffer_size: i32 = 5_242_880, at_least(1), [];
    share_coordinator_snapshot_update_records_per_snapshot: i32 = 500, between(0, 500),
        [obeyed];
    share_coordinator_state_topic_compression_codec: i32 = 0, Valid::Any, [];
    share_coordinator_state_topic_min_isr: i16 = 2, at_least(1), [];
    share_coordinator_state_topic_num_partitions: i32 = 50, between(1, LOG_PARTITIONS),
        [obeyed];
    share_coordinator_state_topic_prune_interval_ms: i32 = 300_000, at_least(1), [internal];
    share_coordinator_state_topic_replication_factor: i16 = 3, at_least(1), [];
    share_coordinator_state_topic_segment_bytes: i32 = 104_857_600, at_least(1), [];
    share_coordinator_threads: i32 = 1, at_least(1), [];
    share_coordinator_write_timeout_ms: i32 = 5_000, at_least(1), [];
    share_fetch_purgatory_purge_interval_requests: i32 = 1_000, Valid::Any, [];
    // muster's own: how long a clean stop may take to write a due snapshot, which makes the next
    // startup fast.
    snapshot_on_stop_max_ms: i64 = 5_000, at_least(0), [obeyed];
    socket_connection_setup_timeout_max_ms: i64 = 30_000, Valid::Any, [];
    socket_connection_setup_timeout_ms: i64 = 10_000, Valid::Any, [];
    socket_listen_backlog_size: i32 = 50, at_least(1), [];
    socket_receive_buffer_bytes: i32 = 102_400, Valid::Any, [];
    // With a smaller value not even ApiVersions would fit.
    socket_request_max_bytes: i32 = REQUEST_BYTES_DEFAULT, at_least(1_024), [obeyed];
    socket_send_buffer_bytes: i32 = 102_400, Valid::Any, [];
    ssl_allow_dn_changes: bool = false, Valid::Any, [obeyed];
    ssl_allow_san_changes: bool = false, Valid::Any, [obeyed];
    ssl_cipher_suites: Vec<String> = Vec::new(), Valid::Any, [obeyed];
    ssl_client_auth: String = "none".to_owned(), Valid::OneOf(&["required", "requested", "none"]),
        [obeyed];
    ssl_enabled_protocols: Vec<String> = words("TLSv1.2,TLSv1.3"), Valid::Any, [obeyed];
    ssl_key_password: Option<Password> = None, Valid::Any, [obeyed dynamic];
    ssl_keystore_certificate_chain: Option<Password> = None, Valid::Any, [obeyed dynamic];
    ssl_keystore_key: Option<Password> = None, Valid::Any, [obeyed dynamic];
    ssl_keystore_location: Option<String> = None, Valid::Any, [obeyed dynamic];
    ssl_keystore_password: Option<Password> = None, Valid::Any, [obeyed dynamic];
    ssl_keystore_type: String = "JKS".to_owned(), Valid::Any, [obeyed dynamic];
    ssl_principal_mapping_rules: String = "DEFAULT".to_owned(), Valid::Any, [obeyed];
    ssl_truststore_certificates: Option<Password> = None, Valid::Any, [obeyed dynamic];
    ssl_truststore_location: Option<String> = None, Valid::Any, [obeyed dynamic];
    ssl_truststore_password: Option<Password> = None, Valid::Any, [obeyed dynamic];
    ssl_truststore_type: String = "JKS".to_owned(), Valid::Any, [obeyed dynamic];
    // muster's own: the rate at which the log is read back to check the state of groups, and also
    // the rate at which partition segments are read to find damage. 0 switches off both, and the
    // looks at partition files.
    state_check_max_bytes_per_second: i64 = 4_194_304, at_least(0), [obeyed];
    // muster's own: the longest time for a stop, even if something hangs.
    stop_max_ms: i64 = 50_000, at_least(1_000), [obeyed];
    super_users: String = String::new(), Valid::Any, [obeyed];
    telemetry_max_bytes: i32 = 1_048_576, at_least(1), [obeyed];
    transaction_abort_timed_out_transaction_cleanup_interval_ms: i32 = 10_000,
        at_least(1), [obeyed];
    transaction_max_timeout_ms: i32 = 900_000, at_least(1), [obeyed];
    transaction_partition_verification_enable: bool = true, Valid::Any, [obeyed dynamic];
    transaction_remove_expired_transaction_cleanup_interval_ms: i32 = 3_600_000,
        at_least(1), [obeyed];
    transaction_state_log_load_buffer_size: i32 = 5_242_880, at_least(1), [];
    transaction_state_log_min_isr: i32 = 2, at_least(1), [];
    transaction_state_log_num_partitions: i32 = 50, between(1, LOG_PARTITIONS), [obeyed];
    transaction_state_log_replication_factor: i16 = 3, at_least(1), [];
    transaction_state_log_segment_bytes: i32 = 104_857_600, at_least(1), [];
    transaction_two_phase_commit_enable: bool = false, Valid::Any, [obeyed];
    transactional_id_expiration_ms: i32 = 604_800_000, at_least(1), [obeyed];
    // muster's own: how long files stay in the trash; -1 means forever.
    trash_retention_ms: i64 = 604_800_000, at_least(-1), [obeyed];
    unclean_leader_election_enable: bool = false, Valid::Any, [dynamic];
    unclean_leader_election_interval_ms: i64 = 300_000, at_least(1), [internal];
}
