//! The configs that the coordinator obeys, with Kafka's names, units and defaults.

/// Names as in Kafka's `GroupCoordinatorConfig`, with the dots as underscores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
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
}

impl Default for Config {
    fn default() -> Self {
        Self {
            group_initial_rebalance_delay_ms: 3_000,
            group_min_session_timeout_ms: 6_000,
            group_max_session_timeout_ms: 1_800_000,
            group_max_size: i32::MAX,
            offset_metadata_max_bytes: 4_096,
            offsets_retention_ms: 10_080 * 60_000,
            offsets_retention_check_interval_ms: 600_000,
        }
    }
}
