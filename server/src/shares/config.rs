//! The configs of a share group in the form that its partitions use.

use crate::config::{Altered, Config, group_config};
use muster_shares::Settings;
use std::sync::Arc;

/// The configs of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShareConfig {
    pub(super) settings: Settings,
    pub(super) reset: Reset,
    /// `share.isolation.level`
    pub(super) reads_committed: bool,
    /// `errors.deadletterqueue.topic.name`
    pub(super) dead_letter_topic: Arc<str>,
    /// `errors.deadletterqueue.copy.record.enable`
    pub(super) copies_dead_letters: bool,
}

/// `share.auto.offset.reset`: the start of a share partition that has no start offset yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reset {
    Latest,
    Earliest,
    /// At the first record that is at most this many milliseconds old.
    ByDuration(i64),
}

impl ShareConfig {
    /// `config` is the config of the shard, including altered configs.
    pub(super) fn new(config: &Config, altered: &impl Altered, group_id: &str) -> Self {
        let group = group_config(config, altered, group_id);
        Self {
            settings: Settings {
                record_lock_duration_ms: group.share_record_lock_duration_ms.into(),
                delivery_count_limit: group.share_delivery_count_limit as i16,
                partition_max_record_locks: group.share_partition_max_record_locks.into(),
                renew_acknowledge_enable: group.share_renew_acknowledge_enable,
                has_dead_letters: !group.errors_deadletterqueue_topic_name.is_empty(),
            },
            reset: Reset::of(&group.share_auto_offset_reset),
            reads_committed: group.share_isolation_level == "read_committed",
            dead_letter_topic: group.errors_deadletterqueue_topic_name.into(),
            copies_dead_letters: group.errors_deadletterqueue_copy_record_enable,
        }
    }
}

impl Reset {
    /// The value of the config, which was checked when it was set.
    fn of(value: &str) -> Self {
        match value.strip_prefix("by_duration:") {
            Some(duration) => Self::ByDuration(milliseconds(duration)),
            None if value == "earliest" => Self::Earliest,
            None => Self::Latest,
        }
    }
}

/// The milliseconds of `PnDTnHnMn.nS` (`Duration.parse` of Java).
fn milliseconds(duration: &str) -> i64 {
    let mut number = String::new();
    let mut sum = 0.0;
    for letter in duration.chars() {
        let unit = match letter.to_ascii_lowercase() {
            'd' => 86_400_000.0,
            'h' => 3_600_000.0,
            'm' => 60_000.0,
            's' => 1_000.0,
            'p' | 't' => continue,
            digit => {
                number.push(digit);
                continue;
            }
        };
        sum += unit * number.parse::<f64>().unwrap_or(0.0);
        number.clear();
    }
    sum as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resets_are_those_of_the_config() {
        assert_eq!(Reset::of("latest"), Reset::Latest);
        assert_eq!(Reset::of("earliest"), Reset::Earliest);
        for (value, ms) in [
            ("by_duration:P1D", 86_400_000),
            ("by_duration:PT1H30M", 5_400_000),
            ("by_duration:P2DT3H4M5.25S", 183_845_250),
        ] {
            assert_eq!(Reset::of(value), Reset::ByDuration(ms), "{value}");
        }
    }
}
