//! The configs that the coordinator reads, with Kafka's names, units and defaults.

use crate::assignors::{Assignor, TaskAssignor};
use crate::limits::{GROUPS_MAX, MEMBERS_BYTES_MAX, PENDING_BYTES_MAX};
use crate::text::Text;
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use hashbrown::HashMap;

/// The fields are named as in Kafka's `GroupCoordinatorConfig`, with underscores for dots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The maximum number of groups: [`GROUPS_MAX`], except in tests. Kafka has no such config.
    pub groups_max: usize,
    /// The maximum bytes of members' profiles: [`MEMBERS_BYTES_MAX`], except in tests. Kafka has no
    /// such config.
    pub members_bytes_max: usize,
    /// The maximum bytes of pending offsets: [`PENDING_BYTES_MAX`], except in tests. Kafka has no
    /// such config.
    pub pending_bytes_max: usize,
    /// `group.initial.rebalance.delay.ms`
    pub group_initial_rebalance_delay_ms: i32,
    /// `group.min.session.timeout.ms`
    pub group_min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`
    pub group_max_session_timeout_ms: i32,
    /// `group.max.size`
    pub group_max_size: i32,
    /// `offset.metadata.max.bytes`
    pub offset_metadata_max_bytes: i32,
    /// `offsets.retention.minutes`, in milliseconds
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`
    pub offsets_retention_check_interval_ms: i64,
    /// `group.consumer.session.timeout.ms`
    pub group_consumer_session_timeout_ms: i32,
    /// `group.consumer.heartbeat.interval.ms`
    pub group_consumer_heartbeat_interval_ms: i32,
    /// `group.consumer.assignment.interval.ms`: 0 to assign at once
    pub group_consumer_assignment_interval_ms: i32,
    /// `group.consumer.max.size`
    pub group_consumer_max_size: i32,
    /// `group.consumer.assignors`: the first is the default; not empty
    pub group_consumer_assignors: Cow<'static, [Assignor]>,
    /// `group.consumer.migration.policy`
    pub group_consumer_migration_policy: MigrationPolicy,
    /// `group.consumer.regex.refresh.interval.ms`
    pub group_consumer_regex_refresh_interval_ms: i32,
    /// `group.share.session.timeout.ms`
    pub group_share_session_timeout_ms: i32,
    /// `group.share.heartbeat.interval.ms`
    pub group_share_heartbeat_interval_ms: i32,
    /// `group.share.assignment.interval.ms`: 0 to assign at once
    pub group_share_assignment_interval_ms: i32,
    /// `group.share.max.size`
    pub group_share_max_size: i32,
    /// `group.share.initialize.retry.interval.ms`
    pub group_share_initialize_retry_interval_ms: i32,
    /// `group.streams.session.timeout.ms`
    pub group_streams_session_timeout_ms: i32,
    /// `group.streams.heartbeat.interval.ms`
    pub group_streams_heartbeat_interval_ms: i32,
    /// `group.streams.assignment.interval.ms`: 0 to assign at once
    pub group_streams_assignment_interval_ms: i32,
    /// `group.streams.initial.rebalance.delay.ms`
    pub group_streams_initial_rebalance_delay_ms: i32,
    /// `group.streams.num.standby.replicas`
    pub group_streams_num_standby_replicas: i32,
    /// `group.streams.max.size`
    pub group_streams_max_size: i32,
    /// `group.streams.assignors`: the first is the default; not empty
    pub group_streams_assignors: Cow<'static, [TaskAssignor]>,
    /// `group.streams.rack.aware.assignment.tags`
    pub group_streams_rack_aware_assignment_tags: Vec<String>,
    /// `group.streams.task.offset.interval.ms`
    pub group_streams_task_offset_interval_ms: i32,
    /// `group.streams.acceptable.recovery.lag`
    pub group_streams_acceptable_recovery_lag: i64,
}

/// Decides which groups may change their protocol while they have members:
/// `group.consumer.migration.policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MigrationPolicy {
    /// A classic group becomes a consumer group when a member with the consumer protocol joins, and
    /// becomes classic again when the last such member leaves.
    #[default]
    Bidirectional,
    Upgrade,
    Downgrade,
    Disabled,
}

impl MigrationPolicy {
    /// The policy with this name in a config, in upper or lower case.
    pub fn by_name(name: &str) -> Option<Self> {
        let all = [Self::Bidirectional, Self::Upgrade, Self::Downgrade, Self::Disabled];
        all.into_iter().find(|policy| policy.name().eq_ignore_ascii_case(name))
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Bidirectional => "bidirectional",
            Self::Upgrade => "upgrade",
            Self::Downgrade => "downgrade",
            Self::Disabled => "disabled",
        }
    }

    pub(crate) fn allows_upgrade(self) -> bool {
        matches!(self, Self::Bidirectional | Self::Upgrade)
    }

    pub(crate) fn allows_downgrade(self) -> bool {
        matches!(self, Self::Bidirectional | Self::Downgrade)
    }
}

/// The configs of one group (`GroupConfig` of Kafka), already limited to the broker's bounds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupOverrides {
    /// `consumer.session.timeout.ms`
    pub consumer_session_timeout_ms: Option<i32>,
    /// `consumer.heartbeat.interval.ms`
    pub consumer_heartbeat_interval_ms: Option<i32>,
    /// `consumer.assignment.interval.ms`
    pub consumer_assignment_interval_ms: Option<i32>,
    /// `share.session.timeout.ms`
    pub share_session_timeout_ms: Option<i32>,
    /// `share.heartbeat.interval.ms`
    pub share_heartbeat_interval_ms: Option<i32>,
    /// `share.assignment.interval.ms`
    pub share_assignment_interval_ms: Option<i32>,
    /// `streams.session.timeout.ms`
    pub streams_session_timeout_ms: Option<i32>,
    /// `streams.heartbeat.interval.ms`
    pub streams_heartbeat_interval_ms: Option<i32>,
    /// `streams.assignment.interval.ms`
    pub streams_assignment_interval_ms: Option<i32>,
    /// `streams.initial.rebalance.delay.ms`
    pub streams_initial_rebalance_delay_ms: Option<i32>,
    /// `streams.num.standby.replicas`
    pub streams_num_standby_replicas: Option<i32>,
    /// `streams.assignor.name`
    pub streams_assignor_name: Option<String>,
    /// `streams.rack.aware.assignment.tags`
    pub streams_rack_aware_assignment_tags: Option<Vec<String>>,
    /// `streams.task.offset.interval.ms`
    pub streams_task_offset_interval_ms: Option<i32>,
    /// `streams.acceptable.recovery.lag`
    pub streams_acceptable_recovery_lag: Option<i64>,
}

/// The effective configs of one consumer, share or streams group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupConfig {
    pub(crate) session_timeout_ms: i32,
    pub(crate) heartbeat_interval_ms: i32,
    pub(crate) assignment_interval_ms: i32,
}

/// The groups that have their own configs.
#[derive(Debug, Default)]
pub(crate) struct GroupConfigs {
    overrides: HashMap<Text, GroupOverrides>,
    /// The configs of a group that has none of its own.
    none: GroupOverrides,
}

impl GroupConfigs {
    pub(crate) fn set(&mut self, group_id: &str, overrides: GroupOverrides) {
        if overrides == GroupOverrides::default() {
            self.overrides.remove(group_id)
        } else {
            self.overrides.insert(Text::from(group_id), overrides)
        };
    }

    /// The timeouts and intervals of a consumer group.
    pub(crate) fn of_consumers(&self, group_id: &str, config: &Config) -> GroupConfig {
        let own = self.own(group_id);
        GroupConfig {
            session_timeout_ms: own
                .consumer_session_timeout_ms
                .unwrap_or(config.group_consumer_session_timeout_ms),
            heartbeat_interval_ms: own
                .consumer_heartbeat_interval_ms
                .unwrap_or(config.group_consumer_heartbeat_interval_ms),
            assignment_interval_ms: own
                .consumer_assignment_interval_ms
                .unwrap_or(config.group_consumer_assignment_interval_ms),
        }
    }

    /// The timeouts and intervals of a share group.
    pub(crate) fn of_shares(&self, group_id: &str, config: &Config) -> GroupConfig {
        let own = self.own(group_id);
        GroupConfig {
            session_timeout_ms: own
                .share_session_timeout_ms
                .unwrap_or(config.group_share_session_timeout_ms),
            heartbeat_interval_ms: own
                .share_heartbeat_interval_ms
                .unwrap_or(config.group_share_heartbeat_interval_ms),
            assignment_interval_ms: own
                .share_assignment_interval_ms
                .unwrap_or(config.group_share_assignment_interval_ms),
        }
    }

    /// The timeouts and intervals of a streams group.
    pub(crate) fn of_streams(&self, group_id: &str, config: &Config) -> GroupConfig {
        let own = self.own(group_id);
        GroupConfig {
            session_timeout_ms: own
                .streams_session_timeout_ms
                .unwrap_or(config.group_streams_session_timeout_ms),
            heartbeat_interval_ms: own
                .streams_heartbeat_interval_ms
                .unwrap_or(config.group_streams_heartbeat_interval_ms),
            assignment_interval_ms: own
                .streams_assignment_interval_ms
                .unwrap_or(config.group_streams_assignment_interval_ms),
        }
    }

    /// The delay before the first target assignment of a streams group.
    pub(crate) fn initial_delay_ms(&self, group_id: &str, config: &Config) -> i32 {
        let own = self.own(group_id).streams_initial_rebalance_delay_ms;
        own.unwrap_or(config.group_streams_initial_rebalance_delay_ms)
    }

    /// The number of standbys of each task of a streams group.
    pub(crate) fn standbys(&self, group_id: &str, config: &Config) -> i32 {
        let own = self.own(group_id).streams_num_standby_replicas;
        own.unwrap_or(config.group_streams_num_standby_replicas)
    }

    /// The assignor of a streams group: the assignor in the group's config if the server has it,
    /// else the default.
    pub(crate) fn task_assignor(&self, group_id: &str, config: &Config) -> TaskAssignor {
        let assignors = &config.group_streams_assignors;
        let name = self.own(group_id).streams_assignor_name.as_deref();
        let own = name.and_then(|name| assignors.iter().find(|it| it.name() == name));
        own.or(assignors.first()).copied().unwrap_or(TaskAssignor::STICKY)
    }

    /// The client tags that the members of a streams group should have.
    pub(crate) fn rack_tags<'c>(&'c self, group_id: &str, config: &'c Config) -> &'c [String] {
        let own = self.own(group_id).streams_rack_aware_assignment_tags.as_ref();
        own.unwrap_or(&config.group_streams_rack_aware_assignment_tags)
    }

    /// How often the members of a streams group should report the offsets of their tasks.
    pub(crate) fn task_offset_interval_ms(&self, group_id: &str, config: &Config) -> i32 {
        let own = self.own(group_id).streams_task_offset_interval_ms;
        own.unwrap_or(config.group_streams_task_offset_interval_ms)
    }

    /// The greatest lag with which a task of a streams group counts as caught up.
    pub(crate) fn acceptable_recovery_lag(&self, group_id: &str, config: &Config) -> i64 {
        let own = self.own(group_id).streams_acceptable_recovery_lag;
        own.unwrap_or(config.group_streams_acceptable_recovery_lag)
    }

    fn own(&self, group_id: &str) -> &GroupOverrides {
        if self.overrides.is_empty() {
            return &self.none;
        }
        self.overrides.get(group_id).unwrap_or(&self.none)
    }
}

impl Config {
    /// Kafka's defaults.
    pub const DEFAULT: Self = Self {
        groups_max: GROUPS_MAX,
        members_bytes_max: MEMBERS_BYTES_MAX,
        pending_bytes_max: PENDING_BYTES_MAX,
        group_initial_rebalance_delay_ms: 3_000,
        group_min_session_timeout_ms: 6_000,
        group_max_session_timeout_ms: 1_800_000,
        group_max_size: i32::MAX,
        offset_metadata_max_bytes: 4_096,
        offsets_retention_ms: 10_080 * 60_000,
        offsets_retention_check_interval_ms: 600_000,
        group_consumer_session_timeout_ms: 45_000,
        group_consumer_heartbeat_interval_ms: 5_000,
        group_consumer_assignment_interval_ms: 1_000,
        group_consumer_max_size: i32::MAX,
        group_consumer_assignors: Cow::Borrowed(&[Assignor::Uniform, Assignor::Range]),
        group_consumer_migration_policy: MigrationPolicy::Bidirectional,
        group_consumer_regex_refresh_interval_ms: 600_000,
        group_share_session_timeout_ms: 45_000,
        group_share_heartbeat_interval_ms: 5_000,
        group_share_assignment_interval_ms: 1_000,
        group_share_max_size: 200,
        group_share_initialize_retry_interval_ms: 30_000,
        group_streams_session_timeout_ms: 45_000,
        group_streams_heartbeat_interval_ms: 5_000,
        group_streams_assignment_interval_ms: 1_000,
        group_streams_initial_rebalance_delay_ms: 3_000,
        group_streams_num_standby_replicas: 0,
        group_streams_max_size: i32::MAX,
        group_streams_assignors: Cow::Borrowed(&[TaskAssignor::STICKY]),
        group_streams_rack_aware_assignment_tags: Vec::new(),
        group_streams_task_offset_interval_ms: 60_000,
        group_streams_acceptable_recovery_lag: 10_000,
    };
}

impl Default for Config {
    fn default() -> Self {
        Self::DEFAULT
    }
}
