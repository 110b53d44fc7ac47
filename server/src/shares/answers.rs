//! The answers to ShareFetch and ShareAcknowledge.

use super::table::{Part, Request};
use super::{Inputs, Shares};
use crate::net::{ConnectionId, Reply, VisibleAt};
use muster_codec::messages::{
    AcquiredRecords, LeaderIdAndEpoch, NodeEndpoint, ShareAcknowledgePartitionResponse,
    ShareAcknowledgeResponse, ShareAcknowledgeTopicResponse, ShareFetchPartitionResponse,
    ShareFetchResponse, ShareFetchTopicResponse,
};
use muster_codec::{ErrorCode, Response, Uuid};
use muster_faults::Fault;
use muster_shares::sessions::FetchContext;
use std::collections::HashMap;

impl Shares {
    /// Answers a request, at once or when the records of its acknowledgements are in the log.
    pub(super) fn complete(&mut self, inputs: &Inputs<'_>, mut request: Request) {
        request.lock_ms =
            self.config(inputs, &request.member.group_id).settings.record_lock_duration_ms;
        request.is_complete = true;
        if request.unwritten.is_empty() {
            return self.answer(request);
        }
        self.requests.insert(request);
    }

    /// Answers a request. The answer leaves when the positions that it waits for are durable.
    pub(super) fn answer(&mut self, mut request: Request) {
        self.closing_answered(&request);
        let mut response: Response<'static> = match request.fetch {
            Some(_) => self.fetch_response(&mut request).into(),
            None => self.acknowledge_response(&request).into(),
        };
        if Fault::EarlyAcknowledgement.is_injected() {
            request.visible_at = VisibleAt::Now;
        }
        if request.throttle_ms > 0
            && let Some(throttle_time_ms) = response.throttle_time_ms()
        {
            *throttle_time_ms = i32::try_from(request.throttle_ms).unwrap_or(i32::MAX);
            let id = ConnectionId(request.asked.request.connection);
            self.throttled.push((id, request.throttle_ms));
        }
        let (request, visible_at) = (request.asked.request, request.visible_at);
        self.answers.push(Reply { request, response, visible_at });
    }

    fn fetch_response(&mut self, request: &mut Request) -> ShareFetchResponse<'static> {
        if request.error != ErrorCode::None {
            return ShareFetchResponse { error_code: request.error.code(), ..Default::default() };
        }
        let is_whole = request.fetch.is_some_and(|it| it.context != FetchContext::Subsequent);
        let mut responses: Vec<ShareFetchTopicResponse<'static>> = Vec::new();
        let node_endpoints = self.leaders(request);
        for part in std::mem::take(&mut request.parts) {
            let has_records = !part.acquired.is_empty();
            let has_news = part.error != ErrorCode::None || part.acknowledged.is_some();
            let is_answered = part.is_fetched
                && self.sessions.is_answered(&request.member, part.at, has_records, has_news);
            if !is_whole && !is_answered && !has_news {
                continue;
            }
            let topic_id = part.at.topic_id;
            if responses.last().is_none_or(|last| last.topic_id != topic_id) {
                responses.push(ShareFetchTopicResponse { topic_id, partitions: Vec::new() });
            }
            if let Some(last) = responses.last_mut() {
                last.partitions.push(fetched(part));
            }
        }
        ShareFetchResponse {
            acquisition_lock_timeout_ms: lock_ms(request),
            responses: by_topic(
                responses,
                |it| it.topic_id,
                |it, more| it.partitions.extend(more.partitions),
            ),
            node_endpoints,
            ..Default::default()
        }
    }

    fn acknowledge_response(&self, request: &Request) -> ShareAcknowledgeResponse<'static> {
        if request.error != ErrorCode::None {
            let error_code = request.error.code();
            return ShareAcknowledgeResponse { error_code, ..Default::default() };
        }
        let responses = request.parts.iter().map(|part| ShareAcknowledgeTopicResponse {
            topic_id: part.at.topic_id,
            partitions: vec![ShareAcknowledgePartitionResponse {
                partition_index: part.at.partition,
                error_code: part.acknowledged.unwrap_or(ErrorCode::None).code(),
                current_leader: leader(None),
                ..Default::default()
            }],
        });
        ShareAcknowledgeResponse {
            acquisition_lock_timeout_ms: lock_ms(request),
            responses: by_topic(
                responses.collect(),
                |it| it.topic_id,
                |it, more| it.partitions.extend(more.partitions),
            ),
            ..Default::default()
        }
    }

    /// The addresses of the other shards that lead partitions of a request.
    fn leaders(&self, request: &Request) -> Vec<NodeEndpoint<'static>> {
        let mut shards: Vec<u32> = request.parts.iter().filter_map(|part| part.leader).collect();
        shards.sort_unstable();
        shards.dedup();
        let endpoints = self.endpoints.of(request.asked.listener);
        let known =
            shards.into_iter().filter_map(|shard| Some((shard, endpoints.get(shard as usize)?)));
        let node = |(shard, it): (u32, &crate::cluster::Endpoint)| NodeEndpoint {
            node_id: shard as i32,
            host: it.host.clone().into(),
            port: it.port.into(),
            rack: None,
        };
        known.map(node).collect()
    }
}

fn fetched(part: Part) -> ShareFetchPartitionResponse<'static> {
    let acquired = part.acquired.iter().map(|it| AcquiredRecords {
        first_offset: it.first,
        last_offset: it.last,
        delivery_count: it.delivery_count,
    });
    ShareFetchPartitionResponse {
        partition_index: part.at.partition,
        error_code: part.error.code(),
        acknowledge_error_code: part.acknowledged.unwrap_or(ErrorCode::None).code(),
        current_leader: leader(part.leader),
        records: Some(part.records.into()),
        acquired_records: acquired.collect(),
        ..Default::default()
    }
}

/// The leader of a partition. Without another leader to name, it is broker 0, as in Kafka.
fn leader(shard: Option<u32>) -> LeaderIdAndEpoch {
    LeaderIdAndEpoch { leader_id: shard.unwrap_or(0) as i32, leader_epoch: 0 }
}

/// The duration of a lock in ms, which Kafka gives in each answer.
fn lock_ms(request: &Request) -> i32 {
    i32::try_from(request.lock_ms).unwrap_or(i32::MAX)
}

/// Merges the entries of each topic, so that the topic is named once.
fn by_topic<T>(topics: Vec<T>, id: impl Fn(&T) -> Uuid, merge: impl Fn(&mut T, T)) -> Vec<T> {
    let mut once: Vec<T> = Vec::with_capacity(topics.len());
    let mut places = HashMap::new();
    for topic in topics {
        let place = *places.entry(id(&topic)).or_insert(once.len());
        match once.get_mut(place) {
            Some(before) => merge(before, topic),
            None => once.push(topic),
        }
    }
    once
}
