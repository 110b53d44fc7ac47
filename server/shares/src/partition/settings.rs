//! The configs of a group that apply to its share partitions.

/// The configs of a group at the time of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// `share.record.lock.duration.ms`
    pub record_lock_duration_ms: i64,
    /// `share.delivery.count.limit`
    pub delivery_count_limit: i16,
    /// `share.partition.max.record.locks`
    pub partition_max_record_locks: i64,
    /// `share.renew.acknowledge.enable`
    pub renew_acknowledge_enable: bool,
    /// Whether `errors.deadletterqueue.topic.name` is set.
    pub has_dead_letters: bool,
}
