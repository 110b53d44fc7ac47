//! Checks altered values against the broker's present values, as Kafka's reconfigurable parts do.
//! Types and bounds are checked elsewhere.

use super::{Altered, BROKER_RESOURCE, Config, Overrides, Value};

/// Numbers of threads. An alteration at most halves or doubles such a number.
const THREADS: &[&str] = &[
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
];

/// Thread pools of Kafka that have no field in [`Config`]: the key of each, and its default size.
const UNSERVED_THREADS: &[(&str, i64)] = &[
    ("remote.log.manager.copier.thread.pool.size", 10),
    ("remote.log.manager.expiration.thread.pool.size", 10),
    ("remote.log.manager.follower.thread.pool.size", 2),
    ("remote.log.reader.threads", 10),
];

/// The bytes that Kafka's log cleaner needs for each of its threads.
const DEDUPE_BYTES_OF_A_THREAD: i64 = 1 << 20;

/// The overrides of one broker and those of all brokers. The broker's own take precedence.
#[derive(Clone, Copy)]
struct Layers<'a> {
    of_all: Option<&'a Overrides>,
    of_one: Option<&'a Overrides>,
}

impl Config {
    /// Checks whether a client may change the overrides of `resource` to `after`. `resource` is one
    /// broker, or all brokers if it is empty. The new values are compared with those that broker
    /// `node` has.
    ///
    /// # Errors
    /// Kafka's message for the first invalid value; the error code is INVALID_REQUEST.
    pub fn check_step(
        &self,
        altered: &impl Altered,
        node: u32,
        resource: &str,
        after: &Overrides,
    ) -> Result<(), String> {
        let of = |resource: &str| altered.configs(BROKER_RESOURCE, resource);
        let before = Layers { of_all: of(""), of_one: of(&node.to_string()) };
        let after = if resource.is_empty() {
            Layers { of_all: Some(after), ..before }
        } else {
            Layers { of_one: Some(after), ..before }
        };
        for (name, default) in UNSERVED_THREADS {
            let threads =
                |layers: Layers<'_>| self.unserved_number(layers, name).unwrap_or(*default);
            check_threads(name, threads(before), threads(after))?;
        }
        let (before, after) = (before.config(self), after.config(self));
        for name in THREADS {
            check_threads(name, number(&before, name), number(&after, name))?;
        }
        check_dedupe_buffer(&before, &after)?;
        check_tiers(&before, &after)
    }

    /// Remembers the size that the operator set for one of Kafka's thread pools that muster does
    /// not have. [`Self::check_step`] compares alterations with it.
    pub(super) fn keep_threads(&mut self, name: &str, value: &str) {
        let key = UNSERVED_THREADS.iter().find(|(key, _)| *key == name);
        if let (Some((key, _)), Ok(threads)) = (key, value.trim().parse()) {
            self.unserved_threads.insert(key, threads);
        }
    }

    /// The size of a thread pool that muster does not have; None if no size was set.
    fn unserved_number(&self, altered: Layers<'_>, name: &str) -> Option<i64> {
        let altered = altered.text(name).filter(|_| !self.is_pinned(name));
        let altered = altered.and_then(|text| text.trim().parse().ok());
        altered.or_else(|| self.unserved_threads.get(name).copied())
    }
}

impl<'a> Layers<'a> {
    fn text(self, name: &str) -> Option<&'a str> {
        let mut layers = [self.of_one, self.of_all].into_iter().flatten();
        layers.find_map(|it| it.get(name)).map(String::as_str)
    }

    fn config(self, base: &Config) -> Config {
        base.with_overrides([self.of_all, self.of_one].into_iter().flatten())
    }
}

fn number(config: &Config, name: &str) -> i64 {
    let value = Config::key(name).map(|key| key.get(config));
    value.and_then(Value::integer).unwrap_or_default()
}

fn check_threads(name: &str, before: i64, after: i64) -> Result<(), String> {
    let refuse = |rule: &str| {
        Err(format!(
            "Dynamic thread count update validation failed for {name}={after}, value should {rule} \
             the current value {before}"
        ))
    };
    if after == before {
        Ok(())
    } else if after < before / 2 {
        refuse("be at least half")
    } else if after > before.saturating_mul(2) {
        refuse("not be greater than double")
    } else {
        Ok(())
    }
}

fn check_dedupe_buffer(before: &Config, after: &Config) -> Result<(), String> {
    let of = |config: &Config| (config.log_cleaner_dedupe_buffer_size, config.log_cleaner_threads);
    let (bytes, threads) = of(after);
    let is_enough = threads > 0 && bytes / i64::from(threads) > DEDUPE_BYTES_OF_A_THREAD;
    if of(before) == of(after) || is_enough {
        return Ok(());
    }
    Err("log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.".to_owned())
}

/// Checks that a log's limits on local disks do not exceed the limits of the whole log, and that
/// the lag of remote copies does not exceed the local limits. muster has no remote storage, but
/// checks these values if they change.
fn check_tiers(before: &Config, after: &Config) -> Result<(), String> {
    for (unit, of) in [("ms", tiers_ms as fn(&Config) -> Tiers), ("bytes", tiers_bytes)] {
        let tiers = of(after);
        if tiers != of(before) {
            tiers.check(unit)?;
        }
    }
    Ok(())
}

/// Limits of time in ms, or of size in bytes; -1 means no limit.
#[derive(PartialEq)]
struct Tiers {
    retention: i64,
    /// [`AS_RETENTION`] means the value of `retention`.
    local: i64,
    lag: i64,
}

const AS_RETENTION: i64 = -2;

fn tiers_ms(config: &Config) -> Tiers {
    Tiers {
        retention: config.log_retention_ms(),
        local: config.log_local_retention_ms,
        lag: config.log_remote_copy_lag_ms,
    }
}

fn tiers_bytes(config: &Config) -> Tiers {
    Tiers {
        retention: config.log_retention_bytes,
        local: config.log_local_retention_bytes,
        lag: config.log_remote_copy_lag_bytes,
    }
}

impl Tiers {
    fn check(&self, unit: &str) -> Result<(), String> {
        let Self { retention, local, lag } = *self;
        if local != AS_RETENTION && retention != -1 && (local == -1 || local > retention) {
            return Err(format!(
                "Invalid value {local} for configuration log.local.retention.{unit}: Value must \
                 not be more than log.retention.{unit} property value: {retention}"
            ));
        }
        let effective = if local == AS_RETENTION { retention } else { local };
        if effective != -1 && lag > effective.max(-1) {
            return Err(format!(
                "Invalid value {lag} for configuration log.remote.copy.lag.{unit}: Value must not \
                 exceed log.local.retention.{unit} (effective value: {effective})"
            ));
        }
        Ok(())
    }
}
