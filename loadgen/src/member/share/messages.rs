//! The requests of a share session.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_codec::Uuid;
use muster_codec::messages::{
    AcknowledgementBatch, ShareAcknowledgePartition, ShareAcknowledgeRequest,
    ShareAcknowledgeTopic, ShareFetchPartition, ShareFetchRequest, ShareFetchTopic,
    ShareForgottenTopic,
};

use crate::event::AcknowledgedBatch;
use crate::member::core::millis;
use crate::member::owned::by_topic;
use crate::member::text::text;
use crate::plan::{Partition, SharePlan, TopicIndex};
use crate::topics::Topics;

/// `fetch.max.wait.ms`, `fetch.min.bytes` and `fetch.max.bytes`.
const WAIT: Duration = Duration::from_millis(500);
const LEAST_BYTES: i32 = 1;
const BYTES: i32 = 50 << 20;

/// The sender: group id and member id.
#[derive(Clone, Copy)]
pub(super) struct By<'a> {
    pub(super) group: &'a str,
    pub(super) member: &'a str,
}

pub(super) struct Fetch<'a> {
    pub(super) epoch: i32,
    pub(super) added: Vec<Partition>,
    pub(super) forgotten: Vec<Partition>,
    pub(super) batches: &'a [AcknowledgedBatch],
    pub(super) plan: &'a SharePlan,
}

impl Fetch<'_> {
    pub(super) fn request(&self, by: By<'_>, topics: &Topics) -> ShareFetchRequest<'static> {
        let forgotten = by_topic(&self.forgotten).filter_map(|(topic, some)| {
            let partitions = some.iter().map(|one| one.number as i32).collect();
            Some(ShareForgottenTopic { topic_id: id(topic, topics)?, partitions })
        });
        let records = self.plan.max_records as i32;
        ShareFetchRequest {
            group_id: Some(text(by.group)),
            member_id: Some(text(by.member)),
            share_session_epoch: self.epoch,
            max_wait_ms: millis(WAIT),
            min_bytes: LEAST_BYTES,
            max_bytes: BYTES,
            max_records: records,
            batch_size: records,
            share_acquire_mode: self.plan.acquire as i8,
            is_renew_ack: false,
            topics: self.topics(topics),
            forgotten_topics_data: forgotten.collect(),
        }
    }

    /// The partitions that are new in the session, and those with acknowledgements.
    fn topics(&self, topics: &Topics) -> Vec<ShareFetchTopic> {
        let mut all = grouped(self.batches);
        self.added.iter().for_each(|one| {
            all.entry(*one).or_default();
        });
        let each = all.into_iter().map(|(one, acknowledgement_batches)| {
            let partition_index = one.number as i32;
            (one.topic, ShareFetchPartition { partition_index, acknowledgement_batches })
        });
        let topic = |(topic, partitions)| {
            Some(ShareFetchTopic { topic_id: id(topic, topics)?, partitions })
        };
        gathered(each).into_iter().filter_map(topic).collect()
    }
}

pub(super) fn acknowledge(
    by: By<'_>,
    epoch: i32,
    batches: &[AcknowledgedBatch],
    topics: &Topics,
) -> ShareAcknowledgeRequest<'static> {
    let each = grouped(batches).into_iter().map(|(one, acknowledgement_batches)| {
        let partition_index = one.number as i32;
        (one.topic, ShareAcknowledgePartition { partition_index, acknowledgement_batches })
    });
    let topic = |(topic, partitions)| {
        Some(ShareAcknowledgeTopic { topic_id: id(topic, topics)?, partitions })
    };
    ShareAcknowledgeRequest {
        group_id: Some(text(by.group)),
        member_id: Some(text(by.member)),
        share_session_epoch: epoch,
        is_renew_ack: false,
        topics: gathered(each).into_iter().filter_map(topic).collect(),
    }
}

fn id(topic: TopicIndex, topics: &Topics) -> Option<Uuid> {
    topics.get(topic).map(|topic| topic.id)
}

fn grouped(batches: &[AcknowledgedBatch]) -> BTreeMap<Partition, Vec<AcknowledgementBatch>> {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for batch in batches {
        all.entry(batch.partition).or_default().push(AcknowledgementBatch {
            first_offset: batch.first,
            last_offset: batch.last,
            acknowledge_types: vec![batch.how as i8],
        });
    }
    all
}

fn gathered<T>(each: impl Iterator<Item = (TopicIndex, T)>) -> BTreeMap<TopicIndex, Vec<T>> {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    each.for_each(|(topic, one)| all.entry(topic).or_default().push(one));
    all
}
