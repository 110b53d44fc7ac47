//! Rules that involve several broker configs. The messages are Kafka's where Kafka has the rule
//! (`GroupCoordinatorConfig`, `ShareGroupConfig`, `KafkaConfig.validateValues`).

use super::assignors::{is_of_share_groups, of_consumer_groups};
use super::value::has_duplicates;
use super::{Address, Config, ListenerSecurity};
use crate::placement::OFFSETS_PARTITIONS;

/// Triples of keys: minimum, value, maximum. The bounds are inclusive.
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

/// Pairs of keys: the value of the first must be at least the value of the second.
const AT_LEAST: &[[&str; 2]] = &[
    ["group.streams.max.standby.replicas", "group.streams.num.standby.replicas"],
    ["group.streams.max.warmup.replicas", "group.streams.num.warmup.replicas"],
    ["group.streams.task.offset.interval.ms", "group.streams.min.task.offset.interval.ms"],
    ["group.share.max.share.sessions", "group.share.max.size"],
];

/// Pairs of keys: the value of the first must be less than the value of the second.
const LESS: &[[&str; 2]] = &[
    ["group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"],
    ["group.share.heartbeat.interval.ms", "group.share.session.timeout.ms"],
    ["group.streams.heartbeat.interval.ms", "group.streams.session.timeout.ms"],
];

/// The minimum of `connections.max.idle.ms`. With a lower value a connection may be closed before
/// its client sends the first request.
const MAX_IDLE_MS_MIN: i64 = 100;

/// A violated rule, and the key to which the error message refers: the first key of the rule that
/// was set, or else the rule's first key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) key: &'static str,
    pub(super) rule: String,
}

/// The rules that the configs violate.
pub(super) fn check(config: &Config) -> Vec<Broken> {
    let mut check = Check { config, broken: Vec::new() };
    for [min, middle, max] in RANGES {
        check.at_least(max, min);
        check.at_least(middle, min);
        check.require(&[middle, max], number(config, middle) <= number(config, max), || {
            format!("{middle} must be less than or equal to {max}")
        });
    }
    for [larger, smaller] in AT_LEAST {
        check.at_least(larger, smaller);
    }
    for [smaller, larger] in LESS {
        check.require(&[smaller, larger], number(config, smaller) < number(config, larger), || {
            format!("{smaller} must be less than {larger}")
        });
    }
    check.internal_topics();
    check.assignors();
    check.of_streams_groups();
    check.protocols();
    check.roles();
    check.log();
    check.sockets();
    check.cluster();
    check.security();
    check.access();
    check.admin();
    check.telemetry();
    check.broken
}

struct Check<'c> {
    config: &'c Config,
    broken: Vec<Broken>,
}

impl Check<'_> {
    fn require(&mut self, keys: &[&'static str], holds: bool, rule: impl FnOnce() -> String) {
        if !holds {
            let set = keys.iter().find(|key| self.config.set_text(key).is_some());
            let key = set.or(keys.first()).copied().unwrap_or_default();
            self.broken.push(Broken { key, rule: rule() });
        }
    }

    fn at_least(&mut self, larger: &'static str, smaller: &'static str) {
        let holds = number(self.config, larger) >= number(self.config, smaller);
        self.require(&[larger, smaller], holds, || {
            format!("{larger} must be greater than or equal to {smaller}")
        });
    }

    /// Checks that `__share_group_state` has a partition for each slot, if the number of its
    /// partitions was set.
    fn internal_topics(&mut self) {
        const KEY: &str = "share.coordinator.state.topic.num.partitions";
        if self.config.set_text(KEY).is_some() {
            self.at_least(KEY, OFFSETS_PARTITIONS);
        }
    }

    fn telemetry(&mut self) {
        const KEY: &str = "client.telemetry.otlp.endpoint";
        let url = self.config.client_telemetry_otlp_endpoint.trim();
        let is_url = ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme));
        self.require(&[KEY], url.is_empty() || is_url, || {
            format!("{KEY}={url}: a URL that begins with http:// or https:// is expected")
        });
    }

    fn assignors(&mut self) {
        const KEY: &str = "group.consumer.assignors";
        let assignors = &self.config.group_consumer_assignors;
        self.require(&[KEY], !assignors.is_empty(), || format!("{KEY} must not be empty"));
        let are_known = assignors.iter().all(|it| of_consumer_groups(it).is_some());
        self.require(&[KEY], are_known, || {
            format!("{KEY}={}: assignors are uniform and range", assignors.join(","))
        });
        let key = "group.share.assignors";
        let is_simple = matches!(&self.config.group_share_assignors[..],
            [assignor] if is_of_share_groups(assignor));
        self.require(&[key], is_simple, || {
            format!("{key} must contain exactly one assignor, simple")
        });
    }

    fn of_streams_groups(&mut self) {
        const ASSIGNORS: &str = "group.streams.assignors";
        const TAGS: &str = "group.streams.rack.aware.assignment.tags";
        let is_sticky = self.config.group_streams_assignors == ["sticky"];
        self.require(&[ASSIGNORS], is_sticky, || {
            format!("{ASSIGNORS} must contain exactly one assignor, sticky")
        });
        let is_twice = self.config.set_text(TAGS).is_some_and(has_duplicates);
        self.require(&[TAGS], !is_twice, || format!("{TAGS} must not contain duplicate tag keys."));
    }

    /// Checks that classic groups are not switched off; Kafka requires them, too.
    fn protocols(&mut self) {
        const KEY: &str = "group.coordinator.rebalance.protocols";
        let protocols = &self.config.group_coordinator_rebalance_protocols;
        let has_classic = protocols.iter().any(|protocol| protocol == "classic");
        self.require(&[KEY], has_classic, || {
            format!("{KEY}: Disabling the 'classic' protocol is not supported.")
        });
    }

    fn roles(&mut self) {
        let roles = self.config.process_roles.as_deref().unwrap_or_default();
        let is_broker = roles.is_empty() || roles.iter().any(|role| role == "broker");
        self.require(&["process.roles"], is_broker, || {
            "process.roles: this is the file of a controller; muster needs none, as its first \
             shard is the controller. Start it with the file of a broker"
                .into()
        });
    }

    fn admin(&mut self) {
        const KEY: &str = "admin.listener";
        let text = self.config.admin_listener.trim();
        let why = if text.is_empty() { None } else { Address::of_listen(text).err() };
        self.require(&[KEY], why.is_none(), || {
            format!("{KEY}={text}: {}", why.unwrap_or_default())
        });
        self.admin_token();
    }

    /// Checks that the token is valid in an HTTP header and not too short.
    fn admin_token(&mut self) {
        const KEY: &str = "admin.token";
        let token = self.config.admin_token.as_ref().map_or("", |token| token.secret());
        let is_sound = token.len() >= 16 && token.bytes().all(|byte| byte.is_ascii_graphic());
        self.require(&[KEY], self.config.admin_token.is_none() || is_sound, || {
            format!("{KEY} must have at least 16 characters, all of them visible ones of ASCII")
        });
    }

    fn access(&mut self) {
        let broken = [self.config.check_authorizer(), self.config.check_connections()];
        let broken = broken.into_iter().flatten();
        self.broken.extend(broken.map(|(key, rule)| Broken { key, rule }));
    }

    fn log(&mut self) {
        let config = self.config;
        let retention = config.log_retention_ms();
        let keys = ["log.retention.ms", "log.retention.minutes", "log.retention.hours"];
        self.require(&keys, retention == -1 || retention >= 1, || {
            "log.retention.ms must be unlimited (-1) or, equal or greater than 1".into()
        });
        self.require(&["log.roll.ms", "log.roll.hours"], config.log_roll_ms() >= 1, || {
            "log.roll.ms must be greater than or equal to 1".into()
        });
        self.require(
            &["log.roll.jitter.ms", "log.roll.jitter.hours"],
            config.log_roll_jitter_ms() >= 0,
            || "log.roll.jitter.ms must be greater than or equal to 0".into(),
        );
        let is_one = config.data_dirs().len() == 1 && !config.data_dirs()[0].is_empty();
        self.require(&["log.dirs", "log.dir"], is_one, || {
            "log.dirs: muster keeps its data in exactly one directory".into()
        });
    }

    fn sockets(&mut self) {
        let config = self.config;
        let listeners = [
            ("listeners", config.client_listeners().err()),
            ("advertised.listeners", config.advertised_client_listeners().err()),
        ];
        for (key, error) in listeners {
            self.broken.extend(error.map(|rule| Broken { key, rule }));
        }
        let (idle_ms, min_ms) = (config.connections_max_idle_ms, MAX_IDLE_MS_MIN);
        self.require(&["connections.max.idle.ms"], idle_ms < 0 || idle_ms >= min_ms, || {
            format!("connections.max.idle.ms must be at least {min_ms}, or negative for no limit")
        });
        let bytes = config.queued_max_request_bytes;
        let holds = bytes <= 0 || bytes >= i64::from(config.socket_request_max_bytes);
        let keys = ["queued.max.request.bytes", "socket.request.max.bytes"];
        self.require(&keys, holds, || {
            "queued.max.request.bytes must be larger or equal to socket.request.max.bytes".into()
        });
    }
}

impl Check<'_> {
    fn cluster(&mut self) {
        let broken = self.config.cluster().err();
        let key = "controller.quorum.voters";
        self.broken.extend(broken.map(|rule| Broken { key, rule }));
    }

    fn security(&mut self) {
        let config = self.config;
        for listener in config.client_listeners().unwrap_or_default() {
            if let Err((key, rule)) = ListenerSecurity::of(config, &listener) {
                self.broken.push(Broken { key, rule });
            }
        }
        let (delay, idle) =
            (config.connection_failed_authentication_delay_ms, config.connections_max_idle_ms);
        let key = "connection.failed.authentication.delay.ms";
        self.require(&[key], idle < 0 || i64::from(delay) < idle, || {
            format!(
                "{key}={delay} should always be less than connections.max.idle.ms={idle} to \
                 prevent failed authentication responses from timing out"
            )
        });
    }
}

/// The value of an integer key. A test ensures that the rules name only existing integer keys.
fn number(config: &Config, key: &str) -> Option<i64> {
    Config::key(key)?.get(config).integer()
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
