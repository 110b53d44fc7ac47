//! Keys that muster accepts for compatibility although they promise something that it does not do.
//! A Kafka cluster's file contains such keys, so the operator is warned.

use std::ops::RangeInclusive;

const ONE_REPLICA: &str = "muster keeps one replica of each partition";
const ONE_ACKNOWLEDGES: &str = "with one replica an acknowledged record is on one machine alone";
const NO_TIMED_SYNC: &str = "muster syncs no partition after a time: set \
                             log.flush.interval.messages to limit what a power loss can take";
const OWN_METRICS: &str = "muster has no plug-ins: its metrics are at admin.listener";

/// Each row has a key with a numeric value, the values that promise something, and the behavior of
/// muster instead.
const NUMBERS: &[(&str, RangeInclusive<i64>, &str)] = &[
    ("default.replication.factor", SEVERAL, ONE_REPLICA),
    ("log.flush.interval.ms", INTERVAL, NO_TIMED_SYNC),
    ("log.flush.scheduler.interval.ms", INTERVAL, NO_TIMED_SYNC),
    ("min.insync.replicas", SEVERAL, ONE_ACKNOWLEDGES),
    ("offsets.topic.replication.factor", SEVERAL, ONE_REPLICA),
    ("share.coordinator.state.topic.min.isr", SEVERAL, ONE_ACKNOWLEDGES),
    ("share.coordinator.state.topic.replication.factor", SEVERAL, ONE_REPLICA),
    ("transaction.state.log.min.isr", SEVERAL, ONE_ACKNOWLEDGES),
    ("transaction.state.log.replication.factor", SEVERAL, ONE_REPLICA),
];
const SEVERAL: RangeInclusive<i64> = 2..=i64::MAX;
/// All numbers except the highest one, which is Kafka's default and stands for no interval.
const INTERVAL: RangeInclusive<i64> = i64::MIN..=i64::MAX - 1;

/// Keys that promise something with any value, and what muster does instead.
const TEXTS: &[(&str, &str)] =
    &[("kafka.metrics.reporters", OWN_METRICS), ("metric.reporters", OWN_METRICS)];

/// Describes what muster does instead of what the key promises with this value. None if it promises
/// nothing.
pub(super) fn broken_promise(name: &str, value: &str) -> Option<&'static str> {
    let value = value.trim();
    let of_number = NUMBERS.iter().find(|(key, ..)| *key == name);
    let of_number =
        of_number.filter(|(_, promising, _)| value.parse().is_ok_and(|it| promising.contains(&it)));
    let of_text = TEXTS.iter().find(|(key, _)| *key == name && !value.is_empty());
    of_number.map(|(.., instead)| *instead).or_else(|| of_text.map(|(_, instead)| *instead))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn more_than_one_replica_is_a_promise_and_one_is_none() {
        assert_eq!(broken_promise("min.insync.replicas", " 2 "), Some(ONE_ACKNOWLEDGES));
        assert_eq!(broken_promise("default.replication.factor", "3"), Some(ONE_REPLICA));
        assert_eq!(broken_promise("default.replication.factor", "1"), None);
        assert_eq!(broken_promise("offsets.topic.replication.factor", "-1"), None);
        assert_eq!(broken_promise("metric.reporters", "com.example.Reporter"), Some(OWN_METRICS));
        assert_eq!(broken_promise("metric.reporters", ""), None);
        assert_eq!(broken_promise("log.flush.interval.ms", "1000"), Some(NO_TIMED_SYNC));
        assert_eq!(broken_promise("log.flush.scheduler.interval.ms", "0"), Some(NO_TIMED_SYNC));
        assert_eq!(broken_promise("log.flush.interval.ms", "9223372036854775807"), None);
        assert_eq!(broken_promise("num.io.threads", "8"), None);
    }

    #[test]
    fn each_number_is_a_key_without_effect() {
        let is_inert = |name: &str| Config::key(name).is_some_and(|key| !key.flags.obeyed);
        assert!(NUMBERS.iter().all(|(name, ..)| is_inert(name)));
    }
}
