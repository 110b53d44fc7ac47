//! Keys of Kafka that are not in [`Config`]: of Kafka 4.4, of earlier versions, of its authorizer
//! and of plug-ins. Some keys have no effect. The others belong to features that muster lacks. With
//! a value that uses such a feature the server refuses to start, so that no operator relies on the
//! feature.

use super::Config;

/// How muster handles a key that is not in [`Config`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unserved {
    /// The key is accepted without effect.
    WithoutEffect,
    /// The key is refused. The text names the missing feature and the consequence.
    Refused(&'static str),
}

const TLS: &str = "muster has TLS of its own (rustls), without providers and plug-ins of Java";
const SASL: &str = "muster has PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER. Set users with \
                    kafka-configs, in listener.name.NAME.plain.sasl.jaas.config, or with \
                    sasl.oauthbearer.jwks.endpoint.url";
const TOKENS: &str = "muster has no delegation tokens";
const PRINCIPALS: &str =
    "muster has no principal builders: a client has the name that it logged in with";
const POLICIES: &str = "muster has no policies: only its own rules limit topics and configs";
const QUOTA_CLASS: &str = "muster has only Kafka's own rules for quotas";
const OLD_QUOTAS: &str =
    "it belongs to Kafka before 3.0: set the default with kafka-configs --entity-default";
const PROVIDERS: &str =
    "muster resolves no placeholders: a value such as ${file:...} stays as it is";
const TIERED: &str = "muster has no tiered storage: all records stay in the data directory";
const DESCRIPTIONS: &str =
    "muster keeps the descriptions of topologies itself, without plug-ins of Java";
const OLD_ADDRESS: &str = "it belongs to Kafka before 3.0: use listeners and advertised.listeners";

/// A key; the feature that it needs and muster lacks, or None if the key is harmless; a value with
/// which it does not need the feature. With an empty value no key needs its feature.
type Row = (&'static str, Option<&'static str>, &'static str);

/// Keys of Kafka 4.4.
const KEYS: &[Row] = &[
    ("alter.config.policy.class.name", Some(POLICIES), ""),
    ("client.quota.callback.class", Some(QUOTA_CLASS), ""),
    ("controller.performance.always.log.threshold.ms", None, ""),
    ("controller.performance.sample.period.ms", None, ""),
    ("cordoned.log.dirs", None, ""),
    ("create.topic.policy.class.name", Some(POLICIES), ""),
    ("delegation.token.expiry.check.interval.ms", None, ""),
    ("delegation.token.expiry.time.ms", None, ""),
    ("delegation.token.max.lifetime.ms", None, ""),
    ("delegation.token.secret.key", Some(TOKENS), ""),
    ("early.start.listeners", None, ""),
    ("follower.fetch.last.tiered.offset.enable", None, ""),
    ("follower.replication.throttled.rate", None, ""),
    ("group.share.persister.class.name", None, ""),
    ("group.streams.topology.description.plugin.class", Some(DESCRIPTIONS), ""),
    ("internal.metadata.delete.delay.millis", None, ""),
    ("internal.metadata.log.segment.bytes", None, ""),
    ("internal.metadata.max.batch.size.in.bytes", None, ""),
    ("kafka.metrics.polling.interval.secs", None, ""),
    ("kafka.metrics.reporters", None, ""),
    ("leader.replication.throttled.rate", None, ""),
    ("metadata.log.dir", None, ""),
    ("metric.reporters", None, ""),
    (
        "principal.builder.class",
        Some(PRINCIPALS),
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    ),
    ("remote.fetch.max.wait.ms", None, ""),
    ("remote.list.offsets.request.timeout.ms", None, ""),
    ("remote.log.index.file.cache.total.size.bytes", None, ""),
    ("remote.log.index.file.cache.ttl.ms", None, ""),
    ("remote.log.manager.copier.thread.pool.size", None, ""),
    ("remote.log.manager.copy.max.bytes.per.second", None, ""),
    ("remote.log.manager.copy.quota.window.num", None, ""),
    ("remote.log.manager.copy.quota.window.size.seconds", None, ""),
    ("remote.log.manager.expiration.thread.pool.size", None, ""),
    ("remote.log.manager.fetch.max.bytes.per.second", None, ""),
    ("remote.log.manager.fetch.quota.window.num", None, ""),
    ("remote.log.manager.fetch.quota.window.size.seconds", None, ""),
    ("remote.log.manager.follower.thread.pool.size", None, ""),
    ("remote.log.manager.task.interval.ms", None, ""),
    ("remote.log.manager.task.retry.backoff.max.ms", None, ""),
    ("remote.log.manager.task.retry.backoff.ms", None, ""),
    ("remote.log.manager.task.retry.jitter", None, ""),
    ("remote.log.manager.thread.pool.size", None, ""),
    ("remote.log.metadata.custom.metadata.max.bytes", None, ""),
    ("remote.log.metadata.manager.class.name", None, ""),
    ("remote.log.metadata.manager.class.path", None, ""),
    ("remote.log.metadata.manager.impl.prefix", None, ""),
    ("remote.log.metadata.manager.listener.name", None, ""),
    ("remote.log.reader.max.pending.tasks", None, ""),
    ("remote.log.reader.threads", None, ""),
    ("remote.log.storage.manager.class.name", None, ""),
    ("remote.log.storage.manager.class.path", None, ""),
    ("remote.log.storage.manager.impl.prefix", None, ""),
    ("remote.log.storage.system.enable", Some(TIERED), "false"),
    ("replica.alter.log.dirs.io.max.bytes.per.second", None, ""),
    ("replica.selector.class", None, ""),
    ("sasl.client.callback.handler.class", Some(SASL), ""),
    ("sasl.jaas.config", Some(SASL), ""),
    ("sasl.kerberos.kinit.cmd", Some(SASL), "/usr/bin/kinit"),
    ("sasl.kerberos.min.time.before.relogin", Some(SASL), "60000"),
    ("sasl.kerberos.principal.to.local.rules", Some(SASL), "DEFAULT"),
    ("sasl.kerberos.service.name", Some(SASL), ""),
    ("sasl.kerberos.ticket.renew.jitter", Some(SASL), "0.05"),
    ("sasl.kerberos.ticket.renew.window.factor", Some(SASL), "0.8"),
    ("sasl.login.callback.handler.class", Some(SASL), ""),
    ("sasl.login.class", Some(SASL), ""),
    ("sasl.login.connect.timeout.ms", Some(SASL), ""),
    ("sasl.login.read.timeout.ms", Some(SASL), ""),
    ("sasl.login.refresh.buffer.seconds", Some(SASL), "300"),
    ("sasl.login.refresh.min.period.seconds", Some(SASL), "60"),
    ("sasl.login.refresh.window.factor", Some(SASL), "0.8"),
    ("sasl.login.refresh.window.jitter", Some(SASL), "0.05"),
    ("sasl.login.retry.backoff.max.ms", Some(SASL), "10000"),
    ("sasl.login.retry.backoff.ms", Some(SASL), "100"),
    ("sasl.mechanism.controller.protocol", None, ""),
    ("sasl.mechanism.inter.broker.protocol", None, ""),
    ("sasl.oauthbearer.assertion.algorithm", Some(SASL), "RS256"),
    ("sasl.oauthbearer.assertion.claim.aud", Some(SASL), ""),
    ("sasl.oauthbearer.assertion.claim.exp.seconds", Some(SASL), "300"),
    ("sasl.oauthbearer.assertion.claim.iss", Some(SASL), ""),
    ("sasl.oauthbearer.assertion.claim.jti.include", Some(SASL), "false"),
    ("sasl.oauthbearer.assertion.claim.nbf.seconds", Some(SASL), "60"),
    ("sasl.oauthbearer.assertion.claim.sub", Some(SASL), ""),
    ("sasl.oauthbearer.assertion.file", Some(SASL), ""),
    ("sasl.oauthbearer.assertion.private.key.file", Some(SASL), ""),
    ("sasl.oauthbearer.assertion.private.key.passphrase", Some(SASL), ""),
    ("sasl.oauthbearer.assertion.template.file", Some(SASL), ""),
    ("sasl.oauthbearer.client.credentials.client.id", Some(SASL), ""),
    ("sasl.oauthbearer.client.credentials.client.secret", Some(SASL), ""),
    (
        "sasl.oauthbearer.jwt.retriever.class",
        Some(SASL),
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
    ),
    (
        "sasl.oauthbearer.jwt.validator.class",
        Some(SASL),
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
    ),
    ("sasl.oauthbearer.scope", Some(SASL), ""),
    ("sasl.oauthbearer.token.endpoint.url", Some(SASL), ""),
    ("sasl.server.callback.handler.class", Some(SASL), ""),
    ("security.inter.broker.protocol", None, ""),
    ("security.providers", Some(TLS), ""),
    ("server.max.startup.time.ms", None, ""),
    ("ssl.endpoint.identification.algorithm", None, ""),
    ("ssl.engine.factory.class", Some(TLS), ""),
    ("ssl.keymanager.algorithm", None, ""),
    ("ssl.protocol", None, ""),
    ("ssl.provider", Some(TLS), ""),
    ("ssl.secure.random.implementation", None, ""),
    ("ssl.trustmanager.algorithm", None, ""),
    ("unstable.api.versions.enable", None, ""),
    ("unstable.feature.versions.enable", None, ""),
];

/// Keys of earlier versions of Kafka, of its feature levels and of plug-ins. Kafka 4.4 treats them
/// as unknown names.
const FOREIGN: &[Row] = &[
    ("advertised.host.name", Some(OLD_ADDRESS), ""),
    ("advertised.port", Some(OLD_ADDRESS), ""),
    ("auto.include.jmx.reporter", None, ""),
    ("broker.id.generation.enable", None, ""),
    ("config.providers", Some(PROVIDERS), ""),
    ("control.plane.listener.name", None, ""),
    ("controlled.shutdown.max.retries", None, ""),
    ("controlled.shutdown.retry.backoff.ms", None, ""),
    ("delegation.token.master.key", Some(TOKENS), ""),
    ("eligible.leader.replicas.enable", None, ""),
    ("eligible.leader.replicas.version", None, ""),
    ("group.coordinator.new.enable", None, ""),
    ("group.share.enable", None, ""),
    ("group.share.max.groups", None, ""),
    ("group.version", None, ""),
    ("host.name", Some(OLD_ADDRESS), ""),
    ("inter.broker.protocol.version", None, ""),
    ("kraft.version", None, ""),
    ("log.message.downconversion.enable", None, ""),
    ("log.message.format.version", None, ""),
    ("log.message.timestamp.difference.max.ms", None, ""),
    ("offsets.commit.required.acks", None, ""),
    ("password.encoder.cipher.algorithm", None, ""),
    ("password.encoder.iterations", None, ""),
    ("password.encoder.key.length", None, ""),
    ("password.encoder.keyfactory.algorithm", None, ""),
    ("password.encoder.old.secret", None, ""),
    ("password.encoder.secret", None, ""),
    ("port", Some(OLD_ADDRESS), ""),
    ("quota.consumer.default", Some(OLD_QUOTAS), "9223372036854775807"),
    ("quota.producer.default", Some(OLD_QUOTAS), "9223372036854775807"),
    ("reserved.broker.max.id", None, ""),
    ("share.version", None, ""),
    ("streams.version", None, ""),
    ("transaction.version", None, ""),
    ("unstable.metadata.versions.enable", None, ""),
];

/// Keys of plug-ins and of products around Kafka, by prefix.
const PREFIXES: &[(&str, Option<&str>)] = &[
    ("config.providers.", Some(PROVIDERS)),
    ("confluent.", None),
    ("cruise.control.", None),
    ("kafka.metrics.", None),
    ("metrics.jmx.", None),
    ("rlmm.config.", None),
    ("rsm.config.", None),
    ("sasl.", Some(SASL)),
    ("ssl.", Some(TLS)),
    ("zookeeper.", None),
];

/// The prefix of the keys of one listener; the listener's name follows it.
pub(super) const OF_LISTENER: &str = "listener.name.";

/// How muster handles a key that is not in [`Config`]; None if the key is unknown.
pub(super) fn unserved(name: &str, value: &str) -> Option<Unserved> {
    match name.strip_prefix(OF_LISTENER) {
        Some(rest) => of_listener(rest.split_once('.')?.1, value),
        None => of_all(name, value),
    }
}

fn of_all(name: &str, value: &str) -> Option<Unserved> {
    by_name(name, value).or_else(|| by_prefix(name))
}

/// Handles a key of one listener. The keys of a SASL mechanism have the mechanism's name as a
/// prefix.
fn of_listener(key: &str, value: &str) -> Option<Unserved> {
    if key.contains(".sasl.") {
        return Some(Unserved::Refused(SASL));
    }
    of_all(key, value).or_else(|| Config::key(key).map(|_| Unserved::WithoutEffect))
}

fn by_name(name: &str, value: &str) -> Option<Unserved> {
    let (_, missing, harmless) = *row(KEYS, name).or_else(|| row(FOREIGN, name))?;
    let value = value.trim();
    let is_harmless = value.is_empty() || value.eq_ignore_ascii_case(harmless);
    let missing = missing.filter(|_| !is_harmless);
    Some(missing.map_or(Unserved::WithoutEffect, Unserved::Refused))
}

fn row(rows: &'static [Row], name: &str) -> Option<&'static Row> {
    let at = rows.binary_search_by(|(key, ..)| (*key).cmp(name)).ok()?;
    rows.get(at)
}

fn by_prefix(name: &str) -> Option<Unserved> {
    let (_, missing) = PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix))?;
    Some(missing.map_or(Unserved::WithoutEffect, Unserved::Refused))
}

/// All names, to suggest similar ones.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().chain(FOREIGN).map(|(name, ..)| *name)
}

/// Whether the key is in `FOREIGN`: a known key, but an unknown name to Kafka 4.4.
pub(super) fn is_foreign(name: &str) -> bool {
    row(FOREIGN, name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_are_in_order_and_none_is_one_that_muster_has() {
        assert!([KEYS, FOREIGN].iter().all(|rows| rows.is_sorted_by(|a, b| a.0 < b.0)));
        assert!(KEYS.iter().all(|(name, ..)| !is_foreign(name)));
        assert!(names().all(|name| Config::key(name).is_none()));
    }

    #[test]
    fn what_is_off_is_harmless_and_what_would_be_counted_on_is_refused() {
        let harmless = [
            ("security.inter.broker.protocol", "SASL_SSL"),
            ("sasl.mechanism.inter.broker.protocol", "PLAIN"),
            ("remote.log.storage.system.enable", "False"),
            ("remote.log.storage.manager.class.name", "com.example.S3"),
            ("metric.reporters", "com.example.Reporter"),
            ("zookeeper.connect", "zk:2181"),
            ("confluent.license", "x"),
            ("ssl.protocol", "TLSv1.3"),
            ("inter.broker.protocol.version", "3.5"),
            ("listener.name.internal.num.network.threads", "5"),
        ];
        for (name, value) in harmless {
            assert_eq!(unserved(name, value), Some(Unserved::WithoutEffect), "{name}");
        }
        let refused = [
            ("remote.log.storage.system.enable", "true", TIERED),
            ("ssl.engine.factory.class", "org.example.Factory", TLS),
            ("listener.name.internal.ssl.provider", "x", TLS),
            ("listener.name.internal.gssapi.sasl.jaas.config", "x", SASL),
            ("quota.producer.default", "1000", OLD_QUOTAS),
            ("port", "9092", OLD_ADDRESS),
        ];
        for (name, value, missing) in refused {
            assert_eq!(unserved(name, value), Some(Unserved::Refused(missing)), "{name}");
        }
        for name in ["listener.name.internal", "listener.name.internal.what", "num.partitons"] {
            assert_eq!(unserved(name, "1"), None, "{name}");
        }
    }
}
