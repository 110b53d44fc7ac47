//! The configs of a group (KIP-848, KIP-932, KIP-1071; Kafka's `GroupConfig`), one row each, and
//! the bounds that the broker's configs set.

use super::Config;
use super::key::{derived_configs, find};
use super::value::{Valid, at_least, has_duplicates};
use super::{InvalidValue, Key, Overrides};

derived_configs! {
    /// The configs of one group. Classic groups have no configs.
    GroupConfig;
    consumer_assignment_interval_ms: i32 = |c| c.group_consumer_assignment_interval_ms,
        at_least(0), [obeyed], from ["group.consumer.assignment.interval.ms"];
    consumer_assignor_offload_enable: bool = |c| c.group_consumer_assignor_offload_enable,
        Valid::Any, [internal], from ["group.consumer.assignor.offload.enable"];
    consumer_heartbeat_interval_ms: i32 = |c| c.group_consumer_heartbeat_interval_ms,
        at_least(1), [obeyed], from ["group.consumer.heartbeat.interval.ms"];
    consumer_session_timeout_ms: i32 = |c| c.group_consumer_session_timeout_ms,
        at_least(1), [obeyed], from ["group.consumer.session.timeout.ms"];
    errors_deadletterqueue_copy_record_enable: bool = |_c| false, Valid::Any, [obeyed];
    errors_deadletterqueue_topic_name: String = |_c| String::new(), Valid::Any, [obeyed];
    share_assignment_interval_ms: i32 = |c| c.group_share_assignment_interval_ms,
        at_least(0), [], from ["group.share.assignment.interval.ms"];
    share_assignor_offload_enable: bool = |c| c.group_share_assignor_offload_enable,
        Valid::Any, [internal], from ["group.share.assignor.offload.enable"];
    share_auto_offset_reset: String = |_c| "latest".into(), Valid::OffsetReset, [];
    share_delivery_count_limit: i32 = |c| c.group_share_delivery_count_limit,
        at_least(2), [], from ["group.share.delivery.count.limit"];
    share_heartbeat_interval_ms: i32 = |c| c.group_share_heartbeat_interval_ms,
        at_least(1), [], from ["group.share.heartbeat.interval.ms"];
    share_isolation_level: String = |_c| "read_uncommitted".into(),
        Valid::OneOf(&["read_committed", "read_uncommitted"]), [];
    share_partition_max_record_locks: i32 = |c| c.group_share_partition_max_record_locks,
        at_least(100), [], from ["group.share.partition.max.record.locks"];
    share_record_lock_duration_ms: i32 = |c| c.group_share_record_lock_duration_ms,
        at_least(1_000), [], from ["group.share.record.lock.duration.ms"];
    share_renew_acknowledge_enable: bool = |_c| true, Valid::Any, [];
    share_session_timeout_ms: i32 = |c| c.group_share_session_timeout_ms,
        at_least(1), [], from ["group.share.session.timeout.ms"];
    streams_acceptable_recovery_lag: i64 = |c| c.group_streams_acceptable_recovery_lag,
        at_least(0), [obeyed internal], from ["group.streams.acceptable.recovery.lag"];
    streams_assignment_interval_ms: i32 = |c| c.group_streams_assignment_interval_ms,
        at_least(0), [obeyed], from ["group.streams.assignment.interval.ms"];
    streams_assignor_name: String =
        |c| c.group_streams_assignors.first().cloned().unwrap_or_default(),
        Valid::Any, [obeyed], from ["group.streams.assignors"];
    streams_assignor_offload_enable: bool = |c| c.group_streams_assignor_offload_enable,
        Valid::Any, [internal], from ["group.streams.assignor.offload.enable"];
    streams_heartbeat_interval_ms: i32 = |c| c.group_streams_heartbeat_interval_ms,
        at_least(1), [obeyed], from ["group.streams.heartbeat.interval.ms"];
    streams_initial_rebalance_delay_ms: i32 = |c| c.group_streams_initial_rebalance_delay_ms,
        at_least(0), [obeyed], from ["group.streams.initial.rebalance.delay.ms"];
    streams_num_standby_replicas: i32 = |c| c.group_streams_num_standby_replicas,
        at_least(0), [obeyed], from ["group.streams.num.standby.replicas"];
    streams_num_warmup_replicas: i32 = |c| c.group_streams_num_warmup_replicas,
        at_least(0), [internal], from ["group.streams.num.warmup.replicas"];
    streams_rack_aware_assignment_tags: Vec<String> =
        |c| c.group_streams_rack_aware_assignment_tags.clone(),
        Valid::Any, [obeyed], from ["group.streams.rack.aware.assignment.tags"];
    streams_session_timeout_ms: i32 = |c| c.group_streams_session_timeout_ms,
        at_least(1), [obeyed], from ["group.streams.session.timeout.ms"];
    streams_task_offset_interval_ms: i32 = |c| c.group_streams_task_offset_interval_ms,
        at_least(1), [obeyed internal], from ["group.streams.task.offset.interval.ms"];
}

/// A group config, and the broker keys for its minimum and maximum; "" for no bound.
const BOUNDS: &[[&str; 3]] = &[
    [
        "consumer.heartbeat.interval.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ],
    [
        "consumer.session.timeout.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
    ],
    [
        "consumer.assignment.interval.ms",
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms",
    ],
    [
        "share.heartbeat.interval.ms",
        "group.share.min.heartbeat.interval.ms",
        "group.share.max.heartbeat.interval.ms",
    ],
    [
        "share.session.timeout.ms",
        "group.share.min.session.timeout.ms",
        "group.share.max.session.timeout.ms",
    ],
    [
        "share.record.lock.duration.ms",
        "group.share.min.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    ],
    [
        "share.delivery.count.limit",
        "group.share.min.delivery.count.limit",
        "group.share.max.delivery.count.limit",
    ],
    [
        "share.partition.max.record.locks",
        "group.share.min.partition.max.record.locks",
        "group.share.max.partition.max.record.locks",
    ],
    [
        "share.assignment.interval.ms",
        "group.share.min.assignment.interval.ms",
        "group.share.max.assignment.interval.ms",
    ],
    [
        "streams.heartbeat.interval.ms",
        "group.streams.min.heartbeat.interval.ms",
        "group.streams.max.heartbeat.interval.ms",
    ],
    [
        "streams.session.timeout.ms",
        "group.streams.min.session.timeout.ms",
        "group.streams.max.session.timeout.ms",
    ],
    ["streams.num.standby.replicas", "", "group.streams.max.standby.replicas"],
    ["streams.num.warmup.replicas", "", "group.streams.max.warmup.replicas"],
    ["streams.task.offset.interval.ms", "group.streams.min.task.offset.interval.ms", ""],
    [
        "streams.assignment.interval.ms",
        "group.streams.min.assignment.interval.ms",
        "group.streams.max.assignment.interval.ms",
    ],
];

/// Pairs of keys: the value of the first must be greater than the value of the second.
const GREATER: &[[&str; 2]] = &[
    ["consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"],
    ["share.session.timeout.ms", "share.heartbeat.interval.ms"],
    ["streams.session.timeout.ms", "streams.heartbeat.interval.ms"],
];

const RACK_TAGS: &str = "streams.rack.aware.assignment.tags";

impl GroupConfig {
    pub fn key(name: &str) -> Option<&'static Key<Self>> {
        find(Self::KEYS, name)
    }

    /// Checks overrides of a group, like Kafka's `GroupConfig.validate`.
    ///
    /// # Errors
    /// Kafka's message for the first invalid override; the error code is INVALID_CONFIG.
    pub fn validate(defaults: &Config, overrides: &Overrides) -> Result<(), String> {
        if let Some(name) = overrides.keys().find(|name| Self::key(name).is_none()) {
            return Err(format!("Unknown group config name: {name}"));
        }
        let mut config = Self::from(defaults);
        for (name, value) in overrides {
            let Some(key) = Self::key(name) else { continue };
            key.set(&mut config, value).map_err(|error| error.to_string())?;
            if *name == *RACK_TAGS && has_duplicates(value) {
                return Err(format!("{RACK_TAGS} must not contain duplicate tag keys."));
            }
        }
        config.check_assignor(defaults)?;
        config.check_rules(defaults, |name| overrides.contains_key(name))
    }

    fn check_assignor(&self, broker: &Config) -> Result<(), String> {
        let (name, known) = (&self.streams_assignor_name, &broker.group_streams_assignors);
        if known.contains(name) {
            return Ok(());
        }
        let known = known.join(", ");
        Err(format!(
            "streams.assignor.name '{name}' is not a registered task assignor. Registered \
             assignors are: [{known}]."
        ))
    }

    /// Checks the rules that involve a value that the group sets. `self` has the broker's value for
    /// each key that the group does not set.
    fn check_rules(&self, broker: &Config, is_set: impl Fn(&str) -> bool) -> Result<(), String> {
        for [name, min, max] in BOUNDS.iter().filter(|[name, ..]| is_set(name)) {
            let Some(value) = self.number(name) else { continue };
            let (min, max) = (broker_number(broker, min), broker_number(broker, max));
            let is_within =
                min.is_none_or(|min| min <= value) && max.is_none_or(|max| value <= max);
            let bounds = match (min, max) {
                _ if is_within => continue,
                (Some(min), Some(max)) => format!("in the range {min} to {max} inclusive."),
                (Some(min), None) => format!("greater than or equal to {min}"),
                (None, max) => format!("less than or equal to {}", max.unwrap_or(i64::MAX)),
            };
            return Err(format!("{name} must be {bounds}"));
        }
        if self.errors_deadletterqueue_topic_name.starts_with("__") {
            let rule = "DLQ topic name must not start with '__'";
            return Err(format!("errors.deadletterqueue.topic.name: {rule}"));
        }
        let is_broken = |[more, less]: &&[&str; 2]| {
            (is_set(more) || is_set(less)) && self.number(more) <= self.number(less)
        };
        let broken = GREATER.iter().find(is_broken);
        broken.map_or(Ok(()), |[more, less]| Err(format!("{more} must be greater than {less}")))
    }

    /// Limits the values to the bounds of the broker, which may have changed since the values were
    /// set (`GroupConfig.evaluate`).
    pub(super) fn clamped(mut self, broker: &Config) -> Self {
        for [name, min, max] in BOUNDS {
            let (Some(key), Some(value)) = (Self::key(name), self.number(name)) else { continue };
            let min = broker_number(broker, min).unwrap_or(i64::MIN);
            let max = broker_number(broker, max).unwrap_or(i64::MAX);
            let within = value.min(max).max(min);
            if within != value {
                // A bound is always a valid value; the broker's rules and a test ensure this.
                let _: Result<(), InvalidValue> = key.set(&mut self, &within.to_string());
            }
        }
        self
    }

    fn number(&self, name: &str) -> Option<i64> {
        Self::key(name)?.get(self).integer()
    }
}

fn broker_number(broker: &Config, name: &str) -> Option<i64> {
    Config::key(name)?.get(broker).integer()
}
