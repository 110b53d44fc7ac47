//! Rules that span several configs of a broker, with Kafka's texts where Kafka has them
//! (`GroupCoordinatorConfig`, `ShareGroupConfig`, `KafkaConfig.validateValues`).

use super::Config;
use super::value::Value;

/// `middle` lies between `min` and `max`, both included.
const RANGES: &[[&str; 3]] = &[
    [
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ],
    [
        "group.consumer.min.session.timeout.ms",
        "group.consumer.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
    ],
    [
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms",
    ],
    [
        "group.share.min.heartbeat.interval.ms",
        "group.share.heartbeat.interval.ms",
        "group.share.max.heartbeat.interval.ms",
    ],
    [
        "group.share.min.session.timeout.ms",
        "group.share.session.timeout.ms",
        "group.share.max.session.timeout.ms",
    ],
    [
        "group.share.min.assignment.interval.ms",
        "group.share.assignment.interval.ms",
        "group.share.max.assignment.interval.ms",
    ],
    [
        "group.share.min.delivery.count.limit",
        "group.share.delivery.count.limit",
        "group.share.max.delivery.count.limit",
    ],
    [
        "group.share.min.partition.max.record.locks",
        "group.share.partition.max.record.locks",
        "group.share.max.partition.max.record.locks",
    ],
    [
        "group.share.min.record.lock.duration.ms",
        "group.share.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    ],
    [
        "group.streams.min.heartbeat.interval.ms",
        "group.streams.heartbeat.interval.ms",
        "group.streams.max.heartbeat.interval.ms",
    ],
    [
        "group.streams.min.session.timeout.ms",
        "group.streams.session.timeout.ms",
        "group.streams.max.session.timeout.ms",
    ],
    [
        "group.streams.min.assignment.interval.ms",
        "group.streams.assignment.interval.ms",
        "group.streams.max.assignment.interval.ms",
    ],
];

/// The first is at least the second.
const AT_LEAST: &[[&str; 2]] = &[
    ["group.streams.max.standby.replicas", "group.streams.num.standby.replicas"],
    ["group.share.max.share.sessions", "group.share.max.size"],
];

/// The first is less than the second.
const LESS: &[[&str; 2]] = &[
    ["group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"],
    ["group.share.heartbeat.interval.ms", "group.share.session.timeout.ms"],
    ["group.streams.heartbeat.interval.ms", "group.streams.session.timeout.ms"],
];

/// With less a connection may be gone before its client has sent the first request.
const MAX_IDLE_MS_MIN: i64 = 100;

/// # Errors
/// The first rule that the configs break.
pub(super) fn check(config: &Config) -> Result<(), String> {
    for [min, middle, max] in RANGES {
        require_at_least(config, max, min)?;
        require_at_least(config, middle, min)?;
        require(number(config, middle) <= number(config, max), || {
            format!("{middle} must be less than or equal to {max}")
        })?;
    }
    for [larger, smaller] in AT_LEAST {
        require_at_least(config, larger, smaller)?;
    }
    for [smaller, larger] in LESS {
        require(number(config, smaller) < number(config, larger), || {
            format!("{smaller} must be less than {larger}")
        })?;
    }
    check_assignors(config)?;
    check_log(config)?;
    check_sockets(config)
}

fn require(holds: bool, rule: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(rule()) }
}

fn require_at_least(config: &Config, larger: &str, smaller: &str) -> Result<(), String> {
    require(number(config, larger) >= number(config, smaller), || {
        format!("{larger} must be greater than or equal to {smaller}")
    })
}

/// None for a key that does not exist or holds no integer; a test sees to it that the rules name
/// none of those.
fn number(config: &Config, key: &str) -> Option<i64> {
    match Config::key(key)?.get(config) {
        Value::Integer(number) => Some(number),
        _ => None,
    }
}

fn check_assignors(config: &Config) -> Result<(), String> {
    let assignors = &config.group_consumer_assignors;
    require(!assignors.is_empty(), || "group.consumer.assignors must not be empty".into())?;
    let mut sorted = assignors.clone();
    sorted.sort();
    sorted.dedup();
    require(sorted.len() == assignors.len(), || {
        "group.consumer.assignors must not name an assignor twice".into()
    })?;
    require(assignors.iter().all(|a| matches!(a.as_str(), "uniform" | "range")), || {
        let list = assignors.join(",");
        format!("group.consumer.assignors={list}: assignors are uniform and range")
    })?;
    require(config.group_share_assignors == ["simple"], || {
        "group.share.assignors must contain exactly one assignor, simple".into()
    })
}

fn check_log(config: &Config) -> Result<(), String> {
    require(config.log_retention_ms() == -1 || config.log_retention_ms() >= 1, || {
        "log.retention.ms must be unlimited (-1) or, equal or greater than 1".into()
    })?;
    require(config.log_roll_ms() >= 1, || "log.roll.ms must be greater than or equal to 1".into())?;
    require(config.log_roll_jitter_ms() >= 0, || {
        "log.roll.jitter.ms must be greater than or equal to 0".into()
    })?;
    require(config.data_dirs().len() == 1 && !config.data_dirs()[0].is_empty(), || {
        "log.dirs: muster keeps its data in exactly one directory".into()
    })
}

fn check_sockets(config: &Config) -> Result<(), String> {
    config.listener()?;
    config.advertised_listener()?;
    let (idle_ms, min_ms) = (config.connections_max_idle_ms, MAX_IDLE_MS_MIN);
    require(idle_ms < 0 || idle_ms >= min_ms, || {
        format!("connections.max.idle.ms must be at least {min_ms}, or negative for no limit")
    })?;
    let bytes = config.queued_max_request_bytes;
    require(bytes <= 0 || bytes >= i64::from(config.socket_request_max_bytes), || {
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes".into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_names_keys_that_hold_integers() {
        let config = Config::default();
        let pairs = AT_LEAST.iter().chain(LESS).flatten();
        for key in RANGES.iter().flatten().chain(pairs) {
            assert!(number(&config, key).is_some(), "{key}");
        }
    }
}
