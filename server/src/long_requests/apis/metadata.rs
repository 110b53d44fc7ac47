//! Metadata. If the request names topics, each of them is an item. Otherwise all topics are listed,
//! in the order of their names.

use super::{LongApi, TOO_LARGE};
use crate::admin;
use crate::cluster::{ClusterImage, Topic};
use crate::long_requests::answer::LongAnswer;
use crate::long_requests::owned::{all, text};
use crate::long_requests::rest::{ItemList, Items, Rest, Single, Whole};
use crate::long_requests::slice::Slice;
use crate::long_requests::weight::{self, SLICE_WEIGHT, Sizes, exceed_a_slice};
use muster_codec::messages::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic,
};
use muster_codec::{Field, Str};
use std::collections::HashSet;

impl LongApi for MetadataRequest<'_> {
    fn is_long(&self, version: i16, sizes: &mut Sizes<'_>) -> bool {
        match named(self) {
            None => sizes.all_topics() > SLICE_WEIGHT,
            Some(topics) if is_refused(version, self) => topics.len() > SLICE_WEIGHT,
            Some(topics) => exceed_a_slice(topics.iter().map(|it| Self::weight(it, sizes))),
        }
    }

    fn take_apart(mut self, version: i16) -> Box<dyn Rest> {
        let (is_for_all, is_refused) =
            (admin::asks_for_all(version, &self), is_refused(version, &self));
        let topics = all(self.topics.take().unwrap_or_default(), owned_topic);
        let request = MetadataRequest { topics: None, ..self };
        if is_for_all {
            Box::new(AllTopics { request, next: Some(String::new()) })
        } else if is_refused || topics.is_empty() {
            Box::new(Whole(Some(MetadataRequest { topics: Some(topics), ..request })))
        } else {
            Box::new(Items::new(request, each_once(topics)))
        }
    }
}

/// The topics that a request names; None if it names none.
fn named<'r, 't>(request: &'r MetadataRequest<'t>) -> Option<&'r [MetadataRequestTopic<'t>]> {
    request.topics.as_deref().filter(|topics| !topics.is_empty())
}

fn is_refused(version: i16, request: &MetadataRequest<'_>) -> bool {
    admin::refusal_of_metadata(version, request).is_some()
}

impl<'r> ItemList for MetadataRequest<'r> {
    type Item = MetadataRequestTopic<'r>;

    fn weight(topic: &MetadataRequestTopic<'r>, sizes: &mut Sizes<'_>) -> usize {
        asked_topic(topic, sizes.image).map_or(1, weight::topic)
    }

    fn held(topic: &MetadataRequestTopic<'r>) -> usize {
        topic.held()
    }

    fn answer(&self, topics: Vec<MetadataRequestTopic<'r>>, slice: &mut Slice<'_>) {
        Single::answer(MetadataRequest { topics: Some(topics), ..*self }, slice);
    }
}

fn asked_topic<'i>(asked: &MetadataRequestTopic<'_>, image: &'i ClusterImage) -> Option<&'i Topic> {
    match &asked.name {
        Some(name) if asked.topic_id.is_zero() => image.topic(name),
        _ => image.topic_by_id(asked.topic_id),
    }
}

/// Removes repeated topics. If at least one topic has an id, also removes those with only a name,
/// as [`admin::metadata`] ignores them.
fn each_once(mut topics: Vec<MetadataRequestTopic<'static>>) -> Vec<MetadataRequestTopic<'static>> {
    if topics.iter().any(|topic| !topic.topic_id.is_zero()) {
        topics.retain(|topic| !topic.topic_id.is_zero());
    }
    let mut seen = HashSet::with_capacity(topics.len());
    topics.retain(|topic| {
        let name = topic.name.as_ref().filter(|_| topic.topic_id.is_zero());
        seen.insert((topic.topic_id, name.cloned()))
    });
    topics
}

/// Answers a request that names no topic, or that is refused as a whole.
impl Single for MetadataRequest<'_> {
    fn answer(self, slice: &mut Slice<'_>) {
        let view = slice.view();
        let (response, to_create) = admin::metadata(&view, slice.version(), &self);
        slice.add(response.into());
        slice.create(to_create);
    }

    fn held(&self) -> usize {
        Field::held(self)
    }
}

/// The rest of a request for all topics, which continues at the name `next`.
#[derive(Debug)]
struct AllTopics {
    request: MetadataRequest<'static>,
    next: Option<String>,
}

impl Rest for AllTopics {
    /// Answers the next topics in the same way as a request that names them.
    fn answer_slice(&mut self, slice: &mut Slice<'_>) {
        let image = slice.view().image;
        let (mut weight, mut topics) = (0, Vec::new());
        let from = self.next.take().unwrap_or_default();
        for topic in image.all_topics_from(&from) {
            if weight >= SLICE_WEIGHT {
                self.next = Some(topic.name.to_string());
                break;
            }
            weight += weight::topic(topic);
            let name = Some(Str::Borrowed(&*topic.name));
            topics.push(MetadataRequestTopic { name, ..Default::default() });
        }
        slice.count(0, self.next.is_none());
        let allow_auto_topic_creation = false;
        let request =
            MetadataRequest { topics: Some(topics), allow_auto_topic_creation, ..self.request };
        Single::answer(request, slice);
    }

    fn is_empty(&self) -> bool {
        self.next.is_none()
    }

    fn items(&self) -> usize {
        0
    }

    fn held(&self) -> usize {
        0
    }
}

impl<'r> LongAnswer<'r> for MetadataResponse<'r> {
    type Element = MetadataResponseTopic<'r>;

    fn list(&mut self) -> &mut Vec<MetadataResponseTopic<'r>> {
        &mut self.topics
    }

    fn too_large(topic: MetadataResponseTopic<'r>) -> MetadataResponseTopic<'r> {
        MetadataResponseTopic { error_code: TOO_LARGE, partitions: Vec::new(), ..topic }
    }

    /// The size of the field that follows the list of topics. This is the operations allowed on the
    /// cluster, or from version 13 on an error code.
    fn bytes_after_list(version: i16) -> usize {
        match version {
            8..=10 => size_of::<i32>(),
            13.. => size_of::<i16>(),
            _ => 0,
        }
    }
}

fn owned_topic(topic: MetadataRequestTopic<'_>) -> MetadataRequestTopic<'static> {
    MetadataRequestTopic { topic_id: topic.topic_id, name: topic.name.map(text) }
}
