//! The requests of a share session.

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_protocol::messages::share_acknowledge_request::{
    AcknowledgePartition, AcknowledgeTopic, AcknowledgementBatch as Acknowledged,
};
use kafka_protocol::messages::share_fetch_request::{
    AcknowledgementBatch, FetchPartition, FetchTopic, ForgottenTopic,
};
use kafka_protocol::messages::{GroupId, ShareAcknowledgeRequest, ShareFetchRequest};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use crate::event::AcknowledgedBatch;
use crate::member::core::millis;
use crate::member::io::ShareFetch;
use crate::member::owned::by_topic;
use crate::plan::{Partition, SharePlan, TopicIndex};
use crate::topics::Topics;

/// `fetch.max.wait.ms`, `fetch.min.bytes` and `fetch.max.bytes`.
const WAIT: Duration = Duration::from_millis(500);
const LEAST_BYTES: i32 = 1;
const BYTES: i32 = 50 << 20;

/// Group id and member id.
pub(super) type By = (StrBytes, StrBytes);

pub(super) struct Fetch<'a> {
    pub(super) epoch: i32,
    pub(super) added: Vec<Partition>,
    pub(super) forgotten: Vec<Partition>,
    pub(super) batches: &'a [AcknowledgedBatch],
    pub(super) plan: &'a SharePlan,
}

impl Fetch<'_> {
    pub(super) fn request(&self, (group, member): By, topics: &Topics) -> ShareFetch {
        let forgotten = by_topic(&self.forgotten).filter_map(|(topic, some)| {
            let numbers = some.iter().map(|one| one.number as i32).collect();
            let forgotten = ForgottenTopic::default().with_partitions(numbers);
            Some(forgotten.with_topic_id(id(topic, topics)?))
        });
        let records = self.plan.max_records as i32;
        let request = ShareFetchRequest::default()
            .with_group_id(Some(GroupId(group)))
            .with_member_id(Some(member))
            .with_share_session_epoch(self.epoch)
            .with_max_wait_ms(millis(WAIT))
            .with_min_bytes(LEAST_BYTES)
            .with_max_bytes(BYTES)
            .with_max_records(records)
            .with_batch_size(records)
            .with_topics(self.topics(topics))
            .with_forgotten_topics_data(forgotten.collect());
        ShareFetch { request, acquire: self.plan.acquire }
    }

    /// Partitions that are new in the session, and those with acknowledgements.
    fn topics(&self, topics: &Topics) -> Vec<FetchTopic> {
        let mut all = grouped(self.batches);
        self.added.iter().for_each(|one| {
            all.entry(*one).or_default();
        });
        let partition = |(one, batches): (&Partition, &Vec<AcknowledgedBatch>)| {
            let batches = batches.iter().map(|batch| {
                AcknowledgementBatch::default()
                    .with_first_offset(batch.first)
                    .with_last_offset(batch.last)
                    .with_acknowledge_types(vec![batch.how as i8])
            });
            FetchPartition::default()
                .with_partition_index(one.number as i32)
                .with_acknowledgement_batches(batches.collect())
        };
        let each = all.iter().map(|(one, batches)| (one.topic, partition((one, batches))));
        let topic = |(topic, partitions)| {
            let of_topic = FetchTopic::default().with_partitions(partitions);
            Some(of_topic.with_topic_id(id(topic, topics)?))
        };
        gathered(each).into_iter().filter_map(topic).collect()
    }
}

pub(super) fn acknowledge(
    (group, member): By,
    epoch: i32,
    batches: &[AcknowledgedBatch],
    topics: &Topics,
) -> ShareAcknowledgeRequest {
    let all = grouped(batches);
    let each = all.iter().map(|(one, batches)| {
        let batches = batches.iter().map(|batch| {
            Acknowledged::default()
                .with_first_offset(batch.first)
                .with_last_offset(batch.last)
                .with_acknowledge_types(vec![batch.how as i8])
        });
        let partition = AcknowledgePartition::default()
            .with_partition_index(one.number as i32)
            .with_acknowledgement_batches(batches.collect());
        (one.topic, partition)
    });
    let topic = |(topic, partitions)| {
        let of_topic = AcknowledgeTopic::default().with_partitions(partitions);
        Some(of_topic.with_topic_id(id(topic, topics)?))
    };
    ShareAcknowledgeRequest::default()
        .with_group_id(Some(GroupId(group)))
        .with_member_id(Some(member))
        .with_share_session_epoch(epoch)
        .with_topics(gathered(each).into_iter().filter_map(topic).collect())
}

fn id(topic: TopicIndex, topics: &Topics) -> Option<Uuid> {
    topics.get(topic).map(|topic| topic.id)
}

fn grouped(batches: &[AcknowledgedBatch]) -> BTreeMap<Partition, Vec<AcknowledgedBatch>> {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    batches.iter().for_each(|batch| all.entry(batch.partition).or_default().push(*batch));
    all
}

fn gathered<T>(each: impl Iterator<Item = (TopicIndex, T)>) -> BTreeMap<TopicIndex, Vec<T>> {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    each.for_each(|(topic, one)| all.entry(topic).or_default().push(one));
    all
}
