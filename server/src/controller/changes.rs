//! Log lines about changes of the cluster: the change, and the client that made it. The values of
//! configs are left out because some are secret. The proof of a user's password is left out, too.

use crate::cluster::{
    BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, ClusterImage, GROUP_RESOURCE, TOPIC_RESOURCE, acl_of,
};
use crate::logging::{Name, Throttle};
use crate::mailbox::AdminRequest;
use crate::security::ScramMechanism;
use crate::security::acls::Acl;
use muster_codec::Uuid;
use muster_codec::records::{
    ClientQuotaEntity, ClientQuotaKey, ClientQuotaValue, ClusterRecord, ScramCredentialKey,
    TopicValue,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use tracing::field::display;
use tracing::info;

/// The maximum size of a list of ACLs in a line, in bytes; further ACLs are only counted.
const ACLS_BYTES_MAX: usize = 2_048;

/// The client that made a change. `admin` is None if a topic was created because the client named
/// it: then only the client's host is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct By<'b> {
    pub(super) admin: Option<&'b AdminRequest>,
    pub(super) host: &'b Arc<str>,
}

/// A change that is logged.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Created { topic: String, partitions: i32 },
    Extended { topic: String, before: i32, partitions: i32 },
    Deleted { topic: String },
    Altered { kind: &'static str, of: String, keys: String },
    Credential { user: String, mechanism: &'static str, is_set: bool },
    Acls { acls: String, count: usize, are_added: bool },
    Quotas { of: String, quotas: String },
}

/// Logs changes, but only a limited number of lines for the clients of each host.
#[derive(Debug, Default)]
pub(super) struct ChangeLines {
    by_host: Throttle<Arc<str>>,
}

impl ChangeLines {
    /// Logs the lines of a change.
    pub(super) fn log(&mut self, now: i64, by: By<'_>, lines: Vec<Line>) {
        if let Some(lines) = self.by_host.left_out(now) {
            info!(target: "change", "{lines} more lines about changes were left out");
        }
        for line in lines {
            if self.by_host.admits(now, Arc::clone(by.host)) {
                log(by, &line);
            }
        }
    }
}

/// The lines about the records of a change. `image` is the image before the change.
pub(super) fn lines(image: &ClusterImage, records: &[ClusterRecord<'_>]) -> Vec<Line> {
    let (mut lines, mut altered) = (Vec::new(), BTreeMap::<(i8, &str), Vec<&str>>::new());
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    let mut quotas = BTreeMap::<String, Vec<String>>::new();
    for record in records {
        match record {
            ClusterRecord::Topic(key, value) => {
                lines.extend(topic_line(image, key.topic_id, value.as_ref()));
            }
            ClusterRecord::Config(key, _) => {
                let keys = altered.entry((key.resource_type, &key.resource_name)).or_default();
                keys.push(&key.name);
            }
            ClusterRecord::ScramCredential(key, value) => {
                lines.push(credential_line(key, value.is_some()));
            }
            ClusterRecord::Acl(key, Some(_)) => added.extend(acl_of(key)),
            ClusterRecord::Acl(key, None) => removed.extend(acl_of(key)),
            ClusterRecord::ClientQuota(key, value) => {
                let of_entity = quotas.entry(entity(&key.entity)).or_default();
                of_entity.push(quota(key, value.as_ref()));
            }
            ClusterRecord::ProducerIds(..)
            | ClusterRecord::DeletedTopic(..)
            | ClusterRecord::ClusterId(..) => {}
        }
    }
    lines.extend(acls_line(&added, true));
    lines.extend(acls_line(&removed, false));
    let quotas = quotas.into_iter();
    lines.extend(quotas.map(|(of, quotas)| Line::Quotas { of, quotas: quotas.join(",") }));
    for ((resource_type, of), keys) in altered {
        let gone = Line::Deleted { topic: of.to_owned() };
        // The configs of a deleted topic are deleted with it, so they get no line.
        if resource_type != TOPIC_RESOURCE || !lines.contains(&gone) {
            let (kind, of, keys) = (kind(resource_type), of.to_owned(), keys.join(","));
            lines.push(Line::Altered { kind, of, keys });
        }
    }
    lines
}

fn topic_line(image: &ClusterImage, id: Uuid, value: Option<&TopicValue<'_>>) -> Option<Line> {
    let before = image.topic_by_id(id);
    Some(match (before, value) {
        (None, Some(value)) => {
            Line::Created { topic: value.name.to_string(), partitions: value.partitions }
        }
        (Some(before), Some(value)) => Line::Extended {
            topic: value.name.to_string(),
            before: before.partitions,
            partitions: value.partitions,
        },
        (Some(before), None) => Line::Deleted { topic: before.name.to_string() },
        (None, None) => return None,
    })
}

fn credential_line(key: &ScramCredentialKey<'_>, is_set: bool) -> Line {
    let mechanism = ScramMechanism::by_number(key.mechanism).map_or("unknown", |it| it.name());
    Line::Credential { user: key.name.to_string(), mechanism, is_set }
}

/// One line for all ACLs of a request, because there may be hundreds.
fn acls_line(all: &[Acl], are_added: bool) -> Option<Line> {
    let mut acls = String::new();
    for (place, acl) in all.iter().enumerate() {
        let next = in_words(acl);
        if place > 0 && acls.len() + next.len() > ACLS_BYTES_MAX {
            acls += &format!("; {} more", all.len() - place);
            break;
        }
        acls += if place > 0 { "; " } else { "" };
        acls += &next;
    }
    (!all.is_empty()).then_some(Line::Acls { acls, count: all.len(), are_added })
}

/// An ACL in words, such as `Allow User:alice from * Read Literal Topic:orders`.
fn in_words(Acl { pattern, entry }: &Acl) -> String {
    format!(
        "{:?} {} from {} {:?} {:?} {:?}:{}",
        entry.permission,
        Name(&entry.principal),
        Name(&entry.host),
        entry.operation,
        pattern.pattern_type,
        pattern.resource_type,
        Name(&pattern.name)
    )
}

/// Describes the clients that a quota is for, such as `user=alice,client-id=<default>`. `<default>`
/// is Kafka's word for the default.
fn entity(parts: &[ClientQuotaEntity<'_>]) -> String {
    let part = |it: &ClientQuotaEntity<'_>| {
        let name = it.entity_name.as_deref();
        let name = name.map_or_else(|| "<default>".to_owned(), |name| Name(name).to_string());
        format!("{}={name}", it.entity_type)
    };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

fn quota(key: &ClientQuotaKey<'_>, value: Option<&ClientQuotaValue>) -> String {
    let value = value.map_or_else(|| "removed".to_owned(), |it| it.value.to_string());
    format!("{}={value}", key.quota)
}

fn kind(resource_type: i8) -> &'static str {
    match resource_type {
        TOPIC_RESOURCE => "topic",
        BROKER_RESOURCE => "broker",
        GROUP_RESOURCE => "group",
        CLIENT_METRICS_RESOURCE => "client-metrics",
        _ => "resource",
    }
}

fn log(by: By<'_>, line: &Line) {
    let principal = by.admin.map(|admin| admin.principal.to_string());
    let principal = principal.as_deref().map(Name).map(display);
    let client = by.admin.map(|admin| display(Name(&admin.client_id)));
    let host = display(Name(by.host));
    match line {
        Line::Created { topic, partitions } => info!(
            target: "change", topic = %Name(topic), partitions, principal, client, host,
            "created a topic",
        ),
        Line::Extended { topic, before, partitions } => info!(
            target: "change", topic = %Name(topic), before, partitions, principal, client, host,
            "added partitions to a topic",
        ),
        Line::Deleted { topic } => info!(
            target: "change", topic = %Name(topic), principal, client, host, "deleted a topic",
        ),
        Line::Altered { kind, of, keys } => info!(
            target: "change", kind, of = %Name(of), keys = %Name(keys), principal, client, host,
            "altered configs",
        ),
        Line::Credential { user, mechanism, is_set } => {
            let words = if *is_set { "set a credential" } else { "removed a credential" };
            info!(
                target: "change", user = %Name(user), mechanism, principal, client, host,
                "{words}",
            );
        }
        Line::Acls { acls, count, are_added } => {
            let words = if *are_added { "added ACLs" } else { "removed ACLs" };
            info!(
                target: "change", acls = %Name(acls), count, principal, client, host, "{words}",
            );
        }
        Line::Quotas { of, quotas } => info!(
            target: "change", of = %Name(of), quotas = %Name(quotas), principal, client, host,
            "altered quotas",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::records::{AclKey, AclValue, ConfigKey, ScramCredentialValue, TopicKey};

    const ID: Uuid = Uuid([7; 16]);

    fn topic(partitions: Option<i32>) -> ClusterRecord<'static> {
        let value = |partitions| TopicValue { name: "t".into(), partitions, ..Default::default() };
        ClusterRecord::Topic(TopicKey { topic_id: ID }, partitions.map(value))
    }

    fn config(resource_type: i8, of: &'static str, name: &'static str) -> ClusterRecord<'static> {
        let (resource_name, name) = (of.into(), name.into());
        ClusterRecord::Config(ConfigKey { resource_type, resource_name, name }, None)
    }

    #[test]
    fn a_change_has_a_line_for_each_topic_and_resource() {
        let mut image = ClusterImage::default();
        let t = || "t".to_owned();
        let created = [topic(Some(2))];
        assert_eq!(lines(&image, &created), [Line::Created { topic: t(), partitions: 2 }]);
        image.apply(&created[0]);
        let extended = Line::Extended { topic: t(), before: 2, partitions: 3 };
        assert_eq!(lines(&image, &[topic(Some(3))]), [extended]);
        let deleted = [topic(None), config(TOPIC_RESOURCE, "t", "retention.ms")];
        assert_eq!(lines(&image, &deleted), [Line::Deleted { topic: t() }]);
        let altered = [config(GROUP_RESOURCE, "g", "a"), config(GROUP_RESOURCE, "g", "b")];
        let (of, keys) = ("g".to_owned(), "a,b".to_owned());
        assert_eq!(lines(&image, &altered), [Line::Altered { kind: "group", of, keys }]);
    }

    #[test]
    fn a_change_of_a_user_has_no_secret() {
        let key = || ScramCredentialKey { name: "alice".into(), mechanism: 1 };
        let value = ScramCredentialValue {
            salt: b"salt".to_vec().into(),
            stored_key: b"secret".to_vec().into(),
            server_key: b"secret".to_vec().into(),
            iterations: 4_096,
        };
        let changes = [
            ClusterRecord::ScramCredential(key(), Some(value)),
            ClusterRecord::ScramCredential(key(), None),
        ];
        let line = |is_set| {
            let (user, mechanism) = ("alice".to_owned(), "SCRAM-SHA-256");
            Line::Credential { user, mechanism, is_set }
        };
        assert_eq!(lines(&ClusterImage::default(), &changes), [line(true), line(false)]);
    }

    fn acl(name: String, is_there: bool) -> ClusterRecord<'static> {
        let key = AclKey {
            resource_type: 2,
            pattern_type: 3,
            resource_name: name.into(),
            principal: "User:alice".into(),
            host: "*".into(),
            operation: 3,
            permission_type: 3,
        };
        ClusterRecord::Acl(key, is_there.then_some(AclValue {}))
    }

    #[test]
    fn all_acls_of_a_change_have_a_line_whose_length_is_bounded() {
        let image = ClusterImage::default();
        let words = |name: &str| format!("Allow User:alice from * Read Literal Topic:{name}");
        let changes = [acl("a".into(), true), acl("b c".into(), true), acl("d".into(), false)];
        let added = format!("{}; {}", words("a"), words("\"b c\""));
        let expected = [
            Line::Acls { acls: added, count: 2, are_added: true },
            Line::Acls { acls: words("d"), count: 1, are_added: false },
        ];
        assert_eq!(lines(&image, &changes), expected);
        let many: Vec<_> = (0..1_000).map(|it| acl(format!("{it:04}"), true)).collect();
        let found = lines(&image, &many);
        let [Line::Acls { acls, count: 1_000, .. }] = &found[..] else { panic!("{found:?}") };
        assert!(acls.ends_with(" more") && acls.len() < ACLS_BYTES_MAX + 20, "{acls}");
    }

    #[test]
    fn a_change_of_quotas_has_a_line_for_each_entity() {
        let part = |kind: &'static str, name: Option<&'static str>| ClientQuotaEntity {
            entity_type: kind.into(),
            entity_name: name.map(Into::into),
        };
        let record = |entity, quota: &'static str, value: Option<f64>| {
            let value = value.map(|value| ClientQuotaValue { value });
            ClusterRecord::ClientQuota(ClientQuotaKey { entity, quota: quota.into() }, value)
        };
        let both = || vec![part("user", Some("a b")), part("client-id", None)];
        let changes = [
            record(both(), "producer_byte_rate", Some(1_024.5)),
            record(vec![part("ip", Some("::1"))], "connection_creation_rate", Some(2.0)),
            record(both(), "consumer_byte_rate", None),
        ];
        let line =
            |of: &str, quotas: &str| Line::Quotas { of: of.to_owned(), quotas: quotas.to_owned() };
        let expected = [
            line("ip=::1", "connection_creation_rate=2"),
            line(
                "user=\"a b\",client-id=<default>",
                "producer_byte_rate=1024.5,consumer_byte_rate=removed",
            ),
        ];
        assert_eq!(lines(&ClusterImage::default(), &changes), expected);
    }
}
