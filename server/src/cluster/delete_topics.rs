//! DeleteTopics, as Kafka's `ControllerApis` decides it.

use super::change::{Change, Refused, config_record, is_timed_out, timed_out};
use super::{MutationQuota, TOPIC_RESOURCE, Topic, View, deleted_topic_record};
use muster_codec::messages::{DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse};
use muster_codec::records::{ClusterRecord, TopicKey};
use muster_codec::{ErrorCode, Uuid, Wall};
use std::collections::BTreeMap;

/// How an entry of a request names a topic: by its name or its id, unless the entry is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Named<'a> {
    pub(crate) name: Option<&'a str>,
    /// Zero if there is none.
    pub(crate) id: Uuid,
}

impl<'a> Named<'a> {
    fn by_name(name: &'a str) -> Self {
        Self { name: Some(name), id: Uuid::ZERO }
    }

    fn by_id(id: Uuid) -> Self {
        Self { name: None, id }
    }

    /// Whether the entry has either a name or an id, not both or neither.
    fn is_well_formed(self) -> bool {
        self.name.is_some() == self.id.is_zero()
    }
}

/// How often a request has each name or id.
type Asked<'a> = BTreeMap<Named<'a>, usize>;

/// Deletes topics by name, or from version 6 on also by id, at the time `wall`. A topic that is
/// named twice is answered once. But each entry has an answer of its own if it has both a name and
/// an id, or neither. All entries have answers of their own if deletion is disabled, or if the
/// request has timed out and [`named_once`] returns at least one topic.
pub fn delete_topics(
    view: &View<'_>,
    wall: Wall,
    quota: &mut MutationQuota<'_>,
    version: i16,
    request: &DeleteTopicsRequest<'_>,
) -> Change<DeleteTopicsResponse<'static>> {
    let asked = asked(request);
    let has_work = named_once(request).next().is_some();
    let refused = if view.config.delete_topic_enable {
        (is_timed_out(request.timeout_ms) && has_work).then(timed_out)
    } else {
        Some(deletion_is_disabled(version))
    };
    if let Some(refused) = refused {
        let refuse = |Named { name, id }| result(name, id, Err(refused.clone()));
        let responses = names(request).map(refuse).collect();
        let response = DeleteTopicsResponse { responses, ..Default::default() };
        return Change { records: Vec::new(), response };
    }
    let mut records = Vec::new();
    let mut responses = Vec::with_capacity(asked.len());
    for (named, times) in &asked {
        let Named { name, id } = named;
        if name.is_none() && *times == 1 && is_named_once_too(view, *id, &asked) {
            continue;
        }
        let topic = match times {
            _ if !named.is_well_formed() => Err(neither_or_both(*name)),
            1 => find(view, *name, *id, &asked),
            _ if name.is_some() => Err(invalid("Duplicate topic name.")),
            _ => Err(invalid("Duplicate topic id.")),
        };
        let topic = topic.and_then(|topic| quota.take(i64::from(topic.partitions)).map(|()| topic));
        if let Ok(topic) = &topic {
            delete(view, wall, topic, &mut records);
        }
        let known = name.and_then(|name| view.image.topic(name));
        let is_twice = known.is_some_and(|topic| asked.contains_key(&Named::by_id(topic.id)));
        let known_id = known.filter(|_| is_twice && *times == 1).map_or(*id, |topic| topic.id);
        let answers = if named.is_well_formed() { 1 } else { *times };
        responses.extend(std::iter::repeat_n(result(*name, known_id, topic), answers));
    }
    let throttle_time_ms = quota.throttle_time_ms();
    Change { records, response: DeleteTopicsResponse { responses, throttle_time_ms } }
}

fn names<'a>(request: &'a DeleteTopicsRequest<'_>) -> impl Iterator<Item = Named<'a>> {
    let states = request.topics.iter();
    let states = states.map(|topic| Named { name: topic.name.as_deref(), id: topic.topic_id });
    states.chain(request.topic_names.iter().map(|name| Named::by_name(name)))
}

/// The names and ids that a request has exactly once: only these topics may be deleted. All other
/// entries are refused, even for topics that do not exist.
pub(crate) fn named_once<'a>(
    request: &'a DeleteTopicsRequest<'_>,
) -> impl Iterator<Item = Named<'a>> {
    let once = asked(request).into_iter().filter(|(_, times)| *times == 1);
    once.map(|(named, _)| named).filter(|named| named.is_well_formed())
}

fn asked<'a>(request: &'a DeleteTopicsRequest<'_>) -> Asked<'a> {
    let mut asked = Asked::new();
    for topic in names(request) {
        *asked.entry(topic).or_default() += 1;
    }
    asked
}

/// Whether a request that has the id of a topic also has its name, exactly once. Then the topic is
/// answered once, with an error. If the request has the name several times, only the name is
/// refused, and the topic is deleted by its id.
fn is_named_once_too(view: &View<'_>, id: Uuid, asked: &Asked<'_>) -> bool {
    let topic = view.image.topic_by_id(id);
    topic.is_some_and(|topic| asked.get(&Named::by_name(&topic.name)) == Some(&1))
}

fn find<'v>(
    view: &View<'v>,
    name: Option<&str>,
    id: Uuid,
    asked: &Asked<'_>,
) -> Result<&'v Topic, Refused> {
    let topic = match name {
        None => view.image.topic_by_id(id).ok_or_else(|| {
            let words = "This server does not host this topic ID.";
            Refused::new(ErrorCode::UnknownTopicId, words)
        })?,
        Some(name) => view.image.topic(name).ok_or_else(|| {
            let words = "This server does not host this topic-partition.";
            Refused::new(ErrorCode::UnknownTopicOrPartition, words)
        })?,
    };
    if topic.is_internal() {
        return Err(invalid(&format!("Deletion of internal topic {} is prohibited.", topic.name)));
    }
    if name.is_some() && asked.contains_key(&Named::by_id(topic.id)) {
        return Err(invalid("The provided topic name maps to an ID that was already supplied."));
    }
    Ok(topic)
}

fn neither_or_both(name: Option<&str>) -> Refused {
    invalid(match name {
        None => "Neither topic name nor id were specified.",
        Some(_) => "You may not specify both topic name and topic id.",
    })
}

fn deletion_is_disabled(version: i16) -> Refused {
    if version < 3 {
        return invalid("Topic deletion is disabled.");
    }
    Refused::new(ErrorCode::TopicDeletionDisabled, "Topic deletion is disabled.")
}

fn invalid(message: &str) -> Refused {
    Refused::new(ErrorCode::InvalidRequest, message)
}

/// Deletes the configs first, so that a later topic of the same name does not inherit them.
fn delete(view: &View<'_>, wall: Wall, topic: &Topic, records: &mut Vec<ClusterRecord<'static>>) {
    let configs = view.image.configs(TOPIC_RESOURCE, &topic.name).into_iter().flatten();
    records.extend(configs.map(|(name, _)| config_record(TOPIC_RESOURCE, &topic.name, name, None)));
    records.push(ClusterRecord::Topic(TopicKey { topic_id: topic.id }, None));
    records.push(deleted_topic_record(topic.id, Some((&topic.name, wall.0))));
}

fn result(
    name: Option<&str>,
    topic_id: Uuid,
    topic: Result<&Topic, Refused>,
) -> DeletableTopicResult<'static> {
    match topic {
        Ok(topic) => DeletableTopicResult {
            name: Some(topic.name.to_string().into()),
            topic_id: topic.id,
            ..Default::default()
        },
        Err(refused) => DeletableTopicResult {
            name: name.map(|name| name.to_owned().into()),
            topic_id,
            error_code: refused.error.code(),
            error_message: refused.error_message(),
        },
    }
}
