//! Values that are derived from the configs: the configs of the coordinators, of topics and of
//! groups, and the configs after the changes that clients have made at runtime.

use super::assignors::of_consumer_groups;
use super::broker::SHARD_BYTES_MAX;
use super::value::HIDDEN;
use super::{
    Altered, BROKER_RESOURCE, Config, ConfigType, Finding, GROUP_RESOURCE, GroupConfig, Kind,
    Overrides, TOPIC_RESOURCE, TopicConfig, findings, rules, unserved, unserved_alterable,
};
use crate::placement::{NodePlace, Placement};
use muster_codec::ApiKey;
use muster_codec::records::OFFSETS_TOPIC;
use muster_coordinator::assignors::TaskAssignor;
use muster_coordinator::limits::{GROUPS_MAX, MEMBERS_BYTES_MAX, PENDING_BYTES_MAX};
use muster_coordinator::{GroupOverrides, MigrationPolicy};
use muster_storage::CompactionConfig;
use muster_storage::limits::{
    BLOCK_BYTES_MAX, COMPACTION_MAP_BYTES_MIN, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN,
};
use std::borrow::Cow;

/// The resource name that means all brokers.
const ALL_BROKERS: &str = "";

impl Config {
    /// The placement for a number of shards.
    pub fn placement(&self, shards: u32) -> Placement {
        Placement {
            shards,
            offsets_partitions: self.offsets_topic_num_partitions.unsigned_abs(),
            transactions_partitions: self.transaction_state_log_num_partitions.unsigned_abs(),
            share_state_partitions: self.share_state_partitions().unsigned_abs(),
            node: NodePlace::ALONE,
        }
    }

    /// The number of partitions of `__share_group_state`: at least one for each slot. If
    /// `share.coordinator.state.topic.num.partitions` is not set, its default may be lower than the
    /// number of slots. If it is set, the rules have refused a lower value.
    pub fn share_state_partitions(&self) -> i32 {
        self.share_coordinator_state_topic_num_partitions.max(self.offsets_topic_num_partitions)
    }

    /// Returns a limit that grows in proportion to `shard.memory.max.bytes`. With the default of
    /// this config the limit is `default`.
    pub(crate) fn of_memory(&self, default: usize) -> usize {
        let memory = u128::from(self.shard_memory_max_bytes.max(0).unsigned_abs());
        usize::try_from(default as u128 * memory / SHARD_BYTES_MAX as u128).unwrap_or(usize::MAX)
    }

    /// The configs of the group coordinator.
    pub fn coordinator(&self) -> muster_coordinator::Config {
        muster_coordinator::Config {
            groups_max: GROUPS_MAX,
            members_bytes_max: self.of_memory(MEMBERS_BYTES_MAX),
            pending_bytes_max: self.of_memory(PENDING_BYTES_MAX),
            group_initial_rebalance_delay_ms: self.group_initial_rebalance_delay_ms,
            group_min_session_timeout_ms: self.group_min_session_timeout_ms,
            group_max_session_timeout_ms: self.group_max_session_timeout_ms,
            group_max_size: self.group_max_size,
            offset_metadata_max_bytes: self.offset_metadata_max_bytes,
            offsets_retention_ms: i64::from(self.offsets_retention_minutes) * 60_000,
            offsets_retention_check_interval_ms: self.offsets_retention_check_interval_ms,
            group_consumer_session_timeout_ms: self.group_consumer_session_timeout_ms,
            group_consumer_heartbeat_interval_ms: self.group_consumer_heartbeat_interval_ms,
            group_consumer_assignment_interval_ms: self.group_consumer_assignment_interval_ms,
            group_consumer_max_size: self.group_consumer_max_size,
            group_consumer_assignors: self
                .group_consumer_assignors
                .iter()
                .filter_map(|name| of_consumer_groups(name))
                .collect(),
            group_consumer_migration_policy: self.migration_policy(),
            group_consumer_regex_refresh_interval_ms: self.group_consumer_regex_refresh_interval_ms,
            group_share_session_timeout_ms: self.group_share_session_timeout_ms,
            group_share_heartbeat_interval_ms: self.group_share_heartbeat_interval_ms,
            group_share_assignment_interval_ms: self.group_share_assignment_interval_ms,
            group_share_max_size: self.group_share_max_size,
            group_share_initialize_retry_interval_ms: self.group_share_initialize_retry_interval_ms,
            group_streams_session_timeout_ms: self.group_streams_session_timeout_ms,
            group_streams_heartbeat_interval_ms: self.group_streams_heartbeat_interval_ms,
            group_streams_assignment_interval_ms: self.group_streams_assignment_interval_ms,
            group_streams_initial_rebalance_delay_ms: self.group_streams_initial_rebalance_delay_ms,
            group_streams_num_standby_replicas: self.group_streams_num_standby_replicas,
            group_streams_max_size: self.group_streams_max_size,
            group_streams_assignors: Cow::Borrowed(&[TaskAssignor::STICKY]),
            group_streams_rack_aware_assignment_tags: self
                .group_streams_rack_aware_assignment_tags
                .clone(),
            group_streams_task_offset_interval_ms: self.group_streams_task_offset_interval_ms,
            group_streams_acceptable_recovery_lag: self.group_streams_acceptable_recovery_lag,
        }
    }

    /// The configs of the transaction coordinators.
    pub fn transactions(&self) -> muster_transactions::Config {
        muster_transactions::Config {
            transaction_max_timeout_ms: self.transaction_max_timeout_ms,
            transactional_id_expiration_ms: self.transactional_id_expiration_ms.into(),
            abort_timed_out_interval_ms: self
                .transaction_abort_timed_out_transaction_cleanup_interval_ms
                .into(),
            remove_expired_interval_ms: self
                .transaction_remove_expired_transaction_cleanup_interval_ms
                .into(),
            two_phase_commit_enable: self.transaction_two_phase_commit_enable,
            retry_backoff_max_ms: self.add_partitions_to_txn_retry_backoff_max_ms.into(),
        }
    }

    /// Whether consumer groups are served (`group.coordinator.rebalance.protocols`).
    pub fn serves_consumer_groups(&self) -> bool {
        self.serves_protocol("consumer")
    }

    /// Whether streams groups are served.
    pub fn serves_streams_groups(&self) -> bool {
        self.serves_protocol("streams")
    }

    /// Whether `/metrics` shows what clients push.
    pub fn shows_telemetry(&self) -> bool {
        self.client_telemetry_metrics_enable && !self.admin_listener.trim().is_empty()
    }

    /// Whether pushed client metrics have a destination. Otherwise clients are not asked to push.
    /// Kafka, too, asks them only if a reporter is configured that receives their metrics.
    pub fn receives_telemetry(&self) -> bool {
        self.shows_telemetry() || !self.client_telemetry_otlp_endpoint.trim().is_empty()
    }

    /// Whether an API is served. The APIs of consumer and streams groups can be switched off. The
    /// telemetry APIs are served if pushed metrics have a destination.
    pub fn serves(&self, api: ApiKey) -> bool {
        if matches!(api, ApiKey::GetTelemetrySubscriptions | ApiKey::PushTelemetry) {
            return self.receives_telemetry();
        }
        let is_of_streams_groups = matches!(
            api,
            ApiKey::StreamsGroupHeartbeat
                | ApiKey::StreamsGroupDescribe
                | ApiKey::StreamsGroupTopologyDescriptionUpdate
        );
        if is_of_streams_groups {
            return self.serves_streams_groups();
        }
        let is_of_consumer_groups =
            matches!(api, ApiKey::ConsumerGroupHeartbeat | ApiKey::ConsumerGroupDescribe);
        !is_of_consumer_groups || self.serves_consumer_groups()
    }

    fn serves_protocol(&self, name: &str) -> bool {
        self.group_coordinator_rebalance_protocols.iter().any(|protocol| protocol == name)
    }

    /// Whether by default a topic syncs its records after a number of records
    /// (`log.flush.interval.messages`).
    pub fn flushes_records(&self) -> bool {
        self.log_flush_interval_messages < i64::MAX
    }

    /// The segment size of a shard's log: `offsets.topic.segment.bytes`, rounded up to whole blocks
    /// and limited to the sizes that a log supports.
    pub fn segment_bytes(&self) -> u32 {
        let wanted = self.offsets_topic_segment_bytes.unsigned_abs();
        wanted.next_multiple_of(BLOCK_BYTES_MAX).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
    }

    fn migration_policy(&self) -> MigrationPolicy {
        MigrationPolicy::by_name(&self.group_consumer_migration_policy).unwrap_or_default()
    }

    /// The configs of a topic without overrides.
    pub fn topic_defaults(&self) -> TopicConfig {
        TopicConfig::from(self)
    }

    /// The configs that a shard runs with: these configs, then the overrides for all brokers, then
    /// the overrides for this node id. A shard derives them again for each image.
    pub fn with_dynamic(&self, altered: &impl Altered, node_id: u32) -> Self {
        let of = |resource: &str| altered.configs(BROKER_RESOURCE, resource);
        self.with_overrides([of(ALL_BROKERS), of(&node_id.to_string())].into_iter().flatten())
    }

    /// These configs with overrides; later ones win.
    pub(crate) fn with_overrides<'o>(&self, all: impl Iterator<Item = &'o Overrides>) -> Self {
        let mut config = self.clone();
        for (name, value) in all.flatten() {
            // An invalid override leaves the previous value; `unused_dynamic` reports it.
            let _ = config.alter(name, value);
        }
        config
    }

    /// Returns a message, for the operator, for each value that is stored for a broker or for all
    /// brokers but not used.
    pub fn unused_dynamic(&self, altered: &impl Altered, resource: &str) -> Vec<String> {
        let of = match resource {
            ALL_BROKERS => "all brokers".to_owned(),
            node => format!("broker {node}"),
        };
        let words = |(name, value): (&String, &String)| {
            let why = self.clone().alter(name, value).err()?;
            let value = if Self::is_secret(name) { HIDDEN } else { value };
            Some(format!("{name}={value}, which is stored for {of}, is not used: {why}"))
        };
        let overrides = altered.configs(BROKER_RESOURCE, resource);
        overrides.into_iter().flatten().filter_map(words).collect()
    }

    /// The altered configs of a broker, or of all brokers, that have no effect.
    pub fn altered_without_effect(altered: &impl Altered, resource: &str) -> Vec<String> {
        let overrides = altered.configs(BROKER_RESOURCE, resource).into_iter().flatten();
        let names = overrides.map(|(name, _)| name).filter(|it| Self::is_without_effect(it));
        names.map(|name| name.escape_debug().to_string()).collect()
    }

    /// Applies a stored value.
    fn alter(&mut self, name: &str, value: &str) -> Result<(), String> {
        let Some(key) = Self::key(name) else {
            let is_unserved = Self::is_altered_unserved(name);
            return if is_unserved { Ok(()) } else { self.alter_of_listener(name, value) };
        };
        match self.set_text(name) {
            Some(text) if self.is_pinned(name) && text == value => Ok(()),
            Some(text) if self.is_pinned(name) => {
                Err(format!("the command line says {name}={text}"))
            }
            _ => key.set(self, value).map_err(|error| error.invalid.rule),
        }
    }

    fn alter_of_listener(&mut self, name: &str, value: &str) -> Result<(), String> {
        if self.altered_of_listener(name).is_none() {
            return Err("it is not known".to_owned());
        }
        if self.is_pinned(name) {
            return Err("the command line sets it".to_owned());
        }
        self.take_of_listener(name, value).unwrap_or(Ok(()))
    }

    /// Whether a client may alter this name although muster has no such key. The value is stored
    /// and described, without effect.
    pub fn is_altered_unserved(name: &str) -> bool {
        Self::key(name).is_none() && unserved_alterable::alterable(name).is_some()
    }

    /// A note for the operator about a stored broker config whose name neither muster nor Kafka
    /// knows. None if the name is known.
    pub fn note_of_unknown(name: &str) -> Option<String> {
        let is_unknown = Self::is_altered_unserved(name) && !unserved::names().any(|it| it == name);
        is_unknown.then(|| {
            let kind = Kind::Unknown { similar: findings::similar(name) };
            let finding = Finding { line: None, key: name.to_owned(), kind };
            format!("the value is stored without effect: {finding}")
        })
    }

    /// Whether Kafka alters a key for one broker only.
    pub(crate) fn is_altered_for_one_broker(name: &str) -> bool {
        Self::is_of_one_broker(name) || unserved_alterable::is_of_one_broker(name)
    }

    /// Kafka's default of a broker config of type list that is not in [`Config`].
    pub(crate) fn default_of_unserved(name: &str) -> &'static str {
        unserved_alterable::default_of(name)
    }

    /// The type of a broker config that clients may alter.
    pub fn altered_type(name: &str) -> Option<ConfigType> {
        Self::key(name).map(|key| key.config_type).or_else(|| unserved_alterable::alterable(name))
    }

    /// Whether a broker config has no effect in muster.
    pub fn is_without_effect(name: &str) -> bool {
        Self::key(name).map_or_else(|| Self::is_altered_unserved(name), |key| !key.flags.obeyed)
    }

    /// Checks overrides of a broker.
    ///
    /// # Errors
    /// Kafka's message for the first invalid override; the error code is INVALID_REQUEST.
    pub fn validate_dynamic(&self, overrides: &Overrides) -> Result<(), String> {
        let mut config = self.clone();
        for (name, value) in overrides {
            if let Some(key) = Self::key(name) {
                key.set(&mut config, value).map_err(|error| error.to_string())?;
            } else if let Some(of_listener) = self.altered_of_listener(name) {
                let set = of_listener.key.set(&mut config.clone(), value);
                set.map_err(|error| error.to_string())?;
                config.alter_of_listener(name, value)?;
            } else {
                unserved_alterable::check_altered(name, value)
                    .map_err(|error| error.to_string())?;
            }
        }
        rules::check(&config).into_iter().next().map_or(Ok(()), |broken| Err(broken.rule))
    }

    /// The value of `log.retention.ms`; if it is not set, that of `log.retention.minutes`; if it is
    /// not set, either, that of `log.retention.hours`. The result is in milliseconds; -1 means
    /// forever.
    pub fn log_retention_ms(&self) -> i64 {
        let minutes = || self.log_retention_minutes.map(|minutes| i64::from(minutes) * 60_000);
        let hours = || i64::from(self.log_retention_hours) * 3_600_000;
        self.log_retention_ms.or_else(minutes).unwrap_or_else(hours).max(-1)
    }

    /// The value of `log.roll.ms`, else `log.roll.hours` in ms.
    pub fn log_roll_ms(&self) -> i64 {
        self.log_roll_ms.unwrap_or(i64::from(self.log_roll_hours) * 3_600_000)
    }

    /// The value of `log.roll.jitter.ms`, else `log.roll.jitter.hours` in ms.
    pub fn log_roll_jitter_ms(&self) -> i64 {
        self.log_roll_jitter_ms.unwrap_or(i64::from(self.log_roll_jitter_hours) * 3_600_000)
    }

    /// `log.dirs`, or `log.dir`.
    pub fn data_dirs(&self) -> &[String] {
        self.log_dirs.as_ref().unwrap_or(&self.log_dir)
    }
}

/// The configs of a topic. `config` is the shard's config with altered values
/// ([`Config::with_dynamic`]).
pub fn effective(config: &Config, altered: &impl Altered, topic: &str) -> TopicConfig {
    let none = Overrides::new();
    let overrides = altered.configs(TOPIC_RESOURCE, topic).unwrap_or(&none);
    config.topic_defaults().with(overrides)
}

/// The compaction config for the log of a shard, if there are `shards` shards. The log has the
/// records of the offsets topic, so the config of this topic applies. None if `log.cleaner.enable`
/// is false. `config` is the shard's config with altered values ([`Config::with_dynamic`]).
pub fn compaction(
    config: &Config,
    altered: &impl Altered,
    shards: u32,
) -> Option<CompactionConfig> {
    let none = Overrides::new();
    let overrides = altered.configs(TOPIC_RESOURCE, OFFSETS_TOPIC).unwrap_or(&none);
    let topic = config.topic_defaults().with(overrides);
    config.log_cleaner_enable.then(|| rules_of(config, &topic, shards))
}

/// The compaction config for the partitions of a user topic. A shard's part of the limits depends
/// on the number of shards. `config` is the shard's config with altered values.
pub fn topic_compaction(
    config: &Config,
    topic: &TopicConfig,
    placement: Placement,
) -> CompactionConfig {
    rules_of(config, topic, placement.shards)
}

fn rules_of(config: &Config, topic: &TopicConfig, shards: u32) -> CompactionConfig {
    let share = |all: u64| all / u64::from(shards.max(1));
    CompactionConfig {
        min_dirty_ratio: topic.min_cleanable_dirty_ratio,
        min_lag_ms: topic.min_compaction_lag_ms,
        max_lag_ms: topic.max_compaction_lag_ms,
        delete_retention_ms: topic.delete_retention_ms,
        map_bytes: (share(config.log_cleaner_dedupe_buffer_size.max(0).unsigned_abs()) as usize)
            .max(COMPACTION_MAP_BYTES_MIN),
        io_bytes_per_second: share(config.log_cleaner_io_max_bytes_per_second as u64),
        backoff_ms: config.log_cleaner_backoff_ms,
    }
}

/// The configs of a group, limited to the broker's bounds. `config` is the shard's config with
/// altered values ([`Config::with_dynamic`]).
pub fn group_config(config: &Config, altered: &impl Altered, group: &str) -> GroupConfig {
    let none = Overrides::new();
    let overrides = altered.configs(GROUP_RESOURCE, group).unwrap_or(&none);
    GroupConfig::from(config).with(overrides).clamped(config)
}

/// The configs that a group overrides, limited to the broker's bounds. `config` is the shard's
/// config with altered values ([`Config::with_dynamic`]).
pub fn group_overrides(config: &Config, altered: &impl Altered, group: &str) -> GroupOverrides {
    let none = Overrides::new();
    let overrides = altered.configs(GROUP_RESOURCE, group).unwrap_or(&none);
    let effective = group_config(config, altered, group);
    let own = |name: &str, value: i32| overrides.contains_key(name).then_some(value);
    let is_own = |name: &str| overrides.contains_key(name);
    GroupOverrides {
        consumer_session_timeout_ms: own(
            "consumer.session.timeout.ms",
            effective.consumer_session_timeout_ms,
        ),
        consumer_heartbeat_interval_ms: own(
            "consumer.heartbeat.interval.ms",
            effective.consumer_heartbeat_interval_ms,
        ),
        consumer_assignment_interval_ms: own(
            "consumer.assignment.interval.ms",
            effective.consumer_assignment_interval_ms,
        ),
        share_session_timeout_ms: own(
            "share.session.timeout.ms",
            effective.share_session_timeout_ms,
        ),
        share_heartbeat_interval_ms: own(
            "share.heartbeat.interval.ms",
            effective.share_heartbeat_interval_ms,
        ),
        streams_session_timeout_ms: own(
            "streams.session.timeout.ms",
            effective.streams_session_timeout_ms,
        ),
        streams_heartbeat_interval_ms: own(
            "streams.heartbeat.interval.ms",
            effective.streams_heartbeat_interval_ms,
        ),
        streams_assignment_interval_ms: own(
            "streams.assignment.interval.ms",
            effective.streams_assignment_interval_ms,
        ),
        streams_initial_rebalance_delay_ms: own(
            "streams.initial.rebalance.delay.ms",
            effective.streams_initial_rebalance_delay_ms,
        ),
        streams_num_standby_replicas: own(
            "streams.num.standby.replicas",
            effective.streams_num_standby_replicas,
        ),
        streams_assignor_name: is_own("streams.assignor.name")
            .then_some(effective.streams_assignor_name),
        streams_rack_aware_assignment_tags: is_own("streams.rack.aware.assignment.tags")
            .then_some(effective.streams_rack_aware_assignment_tags),
        streams_task_offset_interval_ms: own(
            "streams.task.offset.interval.ms",
            effective.streams_task_offset_interval_ms,
        ),
        streams_acceptable_recovery_lag: is_own("streams.acceptable.recovery.lag")
            .then_some(effective.streams_acceptable_recovery_lag),
        share_assignment_interval_ms: own(
            "share.assignment.interval.ms",
            effective.share_assignment_interval_ms,
        ),
    }
}
