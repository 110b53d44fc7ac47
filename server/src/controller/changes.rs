//! Log lines about changes of topics and configs: what was changed, and by which client. Values of
//! configs are left out, as some are secret.

use crate::cluster::{
    BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, ClusterImage, GROUP_RESOURCE, TOPIC_RESOURCE,
};
use crate::logging::{Name, Throttle};
use crate::mailbox::AdminRequest;
use muster_codec::Uuid;
use muster_codec::records::{ClusterRecord, TopicValue};
use std::collections::BTreeMap;
use std::sync::Arc;
use tracing::field::display;
use tracing::info;

/// The client of a change; of a topic that a client created by naming it only the host is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct By<'b> {
    pub(super) admin: Option<&'b AdminRequest>,
    pub(super) host: &'b Arc<str>,
}

/// A change that is logged.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Created { topic: String, partitions: i32 },
    Extended { topic: String, before: i32, partitions: i32 },
    Deleted { topic: String },
    Altered { kind: &'static str, of: String, keys: String },
}

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct ChangeLines {
    by_host: Throttle<Arc<str>>,
}

impl ChangeLines {
    /// Logs the records of a change of an image.
    pub(super) fn log(
        &mut self,
        now: i64,
        image: &ClusterImage,
        by: By<'_>,
        records: &[ClusterRecord<'_>],
    ) {
        if let Some(lines) = self.by_host.left_out(now) {
            info!(target: "change", "{lines} more lines about changes were left out");
        }
        for line in lines(image, records) {
            if self.by_host.admits(now, Arc::clone(by.host)) {
                log(by, &line);
            }
        }
    }
}

fn lines(image: &ClusterImage, records: &[ClusterRecord<'_>]) -> Vec<Line> {
    let (mut lines, mut altered) = (Vec::new(), BTreeMap::<(i8, &str), Vec<&str>>::new());
    for record in records {
        match record {
            ClusterRecord::Topic(key, value) => {
                lines.extend(topic_line(image, key.topic_id, value.as_ref()));
            }
            ClusterRecord::Config(key, _) => {
                let keys = altered.entry((key.resource_type, &key.resource_name)).or_default();
                keys.push(&key.name);
            }
            ClusterRecord::ProducerIds(..)
            | ClusterRecord::DeletedTopic(..)
            | ClusterRecord::ScramCredential(..)
            | ClusterRecord::Acl(..)
            | ClusterRecord::ClientQuota(..) => {}
        }
    }
    for ((resource_type, of), keys) in altered {
        let gone = Line::Deleted { topic: of.to_owned() };
        // The configs of a topic go with it.
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::records::{ConfigKey, TopicKey};

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
}
