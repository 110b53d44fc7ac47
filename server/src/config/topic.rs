//! The configs of a topic, one row each, and the sources of their defaults.

use super::broker::RECORD_BYTES_MAX;
use super::key::{Key, derived_configs, find};
use super::value::{CleanupPolicy, CompressionType, Valid, at_least, between};
use super::{Config, Overrides};
use muster_codec::record_batch::TimestampType;

derived_configs! {
    /// The configs of one topic.
    TopicConfig;
    cleanup_policy: CleanupPolicy = |c| c.log_cleanup_policy, Valid::Any, [obeyed],
        from ["log.cleanup.policy"];
    compression_gzip_level: i32 = |c| c.compression_gzip_level, Valid::GzipLevel, [],
        from ["compression.gzip.level"];
    compression_lz4_level: i32 = |c| c.compression_lz4_level, between(1, 17), [],
        from ["compression.lz4.level"];
    compression_type: CompressionType = |c| c.compression_type, Valid::Any, [],
        from ["compression.type"];
    compression_zstd_level: i32 = |c| c.compression_zstd_level, between(-131_072, 22), [],
        from ["compression.zstd.level"];
    delete_retention_ms: i64 = |c| c.log_cleaner_delete_retention_ms, at_least(0), [obeyed],
        from ["log.cleaner.delete.retention.ms"];
    errors_deadletterqueue_group_enable: bool = |_c| false, Valid::Any, [obeyed];
    file_delete_delay_ms: i64 = |c| c.log_segment_delete_delay_ms, at_least(0), [],
        from ["log.segment.delete.delay.ms"];
    flush_messages: i64 = |c| c.log_flush_interval_messages, at_least(1), [obeyed],
        from ["log.flush.interval.messages"];
    flush_ms: i64 = |c| c.log_flush_interval_ms.unwrap_or(c.log_flush_scheduler_interval_ms),
        at_least(0), [], from ["log.flush.interval.ms", "log.flush.scheduler.interval.ms"];
    follower_replication_throttled_replicas: Vec<String> = |_c| Vec::new(),
        Valid::ThrottledReplicas("follower.replication.throttled.replicas"), [];
    index_interval_bytes: i32 = |c| c.log_index_interval_bytes, at_least(0), [],
        from ["log.index.interval.bytes"];
    leader_replication_throttled_replicas: Vec<String> = |_c| Vec::new(),
        Valid::ThrottledReplicas("leader.replication.throttled.replicas"), [];
    local_retention_bytes: i64 = |c| c.log_local_retention_bytes, at_least(-2), [],
        from ["log.local.retention.bytes"];
    local_retention_ms: i64 = |c| c.log_local_retention_ms, at_least(-2), [],
        from ["log.local.retention.ms"];
    max_compaction_lag_ms: i64 = |c| c.log_cleaner_max_compaction_lag_ms, at_least(1), [obeyed],
        from ["log.cleaner.max.compaction.lag.ms"];
    max_decompressed_message_bytes: i32 = |c| c.max_decompressed_message_bytes,
        between(1, RECORD_BYTES_MAX), [obeyed], from ["max.decompressed.message.bytes"];
    max_message_bytes: i32 = |c| c.message_max_bytes, at_least(0), [obeyed],
        from ["message.max.bytes"];
    message_timestamp_after_max_ms: i64 = |c| c.log_message_timestamp_after_max_ms, at_least(0),
        [obeyed], from ["log.message.timestamp.after.max.ms"];
    message_timestamp_before_max_ms: i64 = |c| c.log_message_timestamp_before_max_ms, at_least(0),
        [obeyed], from ["log.message.timestamp.before.max.ms"];
    message_timestamp_type: TimestampType = |c| c.log_message_timestamp_type, Valid::Any, [obeyed],
        from ["log.message.timestamp.type"];
    min_cleanable_dirty_ratio: f64 = |c| c.log_cleaner_min_cleanable_ratio, Valid::Ratio, [obeyed],
        from ["log.cleaner.min.cleanable.ratio"];
    min_compaction_lag_ms: i64 = |c| c.log_cleaner_min_compaction_lag_ms, at_least(0), [obeyed],
        from ["log.cleaner.min.compaction.lag.ms"];
    min_insync_replicas: i32 = |c| c.min_insync_replicas, at_least(1), [],
        from ["min.insync.replicas"];
    preallocate: bool = |c| c.log_preallocate, Valid::Any, [],
        from ["log.preallocate"];
    remote_copy_lag_bytes: i64 = |c| c.log_remote_copy_lag_bytes, at_least(-1), [],
        from ["log.remote.copy.lag.bytes"];
    remote_copy_lag_ms: i64 = |c| c.log_remote_copy_lag_ms, at_least(-1), [],
        from ["log.remote.copy.lag.ms"];
    remote_log_copy_disable: bool = |_c| false, Valid::Any, [];
    remote_log_delete_on_disable: bool = |_c| false, Valid::Any, [];
    remote_storage_enable: bool = |_c| false, Valid::Any, [];
    retention_bytes: i64 = |c| c.log_retention_bytes, Valid::Any, [obeyed],
        from ["log.retention.bytes"];
    retention_ms: i64 = |c| c.log_retention_ms(), at_least(-1), [obeyed],
        from ["log.retention.ms", "log.retention.minutes", "log.retention.hours"];
    segment_bytes: i32 = |c| c.log_segment_bytes, at_least(1_048_576), [obeyed],
        from ["log.segment.bytes"];
    segment_index_bytes: i32 = |c| c.log_index_size_max_bytes, at_least(4), [],
        from ["log.index.size.max.bytes"];
    segment_jitter_ms: i64 = |c| c.log_roll_jitter_ms(), at_least(0), [],
        from ["log.roll.jitter.ms", "log.roll.jitter.hours"];
    segment_ms: i64 = |c| c.log_roll_ms(), at_least(1), [obeyed],
        from ["log.roll.ms", "log.roll.hours"];
    unclean_leader_election_enable: bool = |c| c.unclean_leader_election_enable, Valid::Any, [],
        from ["unclean.leader.election.enable"];
}

impl TopicConfig {
    pub fn key(name: &str) -> Option<&'static Key<Self>> {
        find(Self::KEYS, name)
    }

    /// Checks overrides of a topic, like Kafka's `LogConfig.validate`.
    ///
    /// # Errors
    /// Kafka's message for the first invalid override; the error code is INVALID_CONFIG.
    pub fn validate(defaults: &Config, overrides: &Overrides) -> Result<(), String> {
        let mut config = defaults.topic_defaults();
        for (name, value) in overrides {
            let key =
                Self::key(name).ok_or_else(|| format!("Unknown topic config name: {name}"))?;
            key.set(&mut config, value).map_err(|error| error.to_string())?;
        }
        config.check_rules()
    }

    /// The maximum size of a record in a compressed batch, after decompression; None if the topic
    /// takes records of every size.
    pub fn decompressed_record_bytes_max(&self) -> Option<usize> {
        let max = self.max_decompressed_message_bytes;
        (i64::from(max) < RECORD_BYTES_MAX).then_some(max.unsigned_abs() as usize)
    }

    fn check_rules(&self) -> Result<(), String> {
        let (min, max) = (self.min_compaction_lag_ms, self.max_compaction_lag_ms);
        if min > max {
            return Err(format!(
                "conflict topic config setting min.compaction.lag.ms ({min}) > \
                 max.compaction.lag.ms ({max})"
            ));
        }
        if self.remote_storage_enable {
            return Err("Tiered Storage functionality is disabled in the broker. \
                        Topic cannot be configured with remote log storage."
                .to_owned());
        }
        Ok(())
    }
}
