//! The requests of a consumer of a share group.

use super::{Doing, Session, Sharer, TOPIC};
use crate::client::Surroundings;
use crate::random::Random;
use muster_codec::Request;
use muster_codec::messages::*;
use std::collections::{BTreeMap, BTreeSet};

const HEARTBEAT: i16 = 1;
const FETCH: i16 = 2;
const ACKNOWLEDGE: i16 = 2;
const DESCRIBE: i16 = 1;

/// The session epoch that ends a session.
const FINAL: i32 = -1;

/// The acknowledgements of a request, by partition.
type Batches = BTreeMap<i32, Vec<AcknowledgementBatch>>;

impl Sharer {
    /// The shard to send the request to, its version and its body.
    pub(super) fn request(
        &mut self,
        around: &mut Surroundings<'_>,
    ) -> (u32, i16, Request<'static>) {
        let of_group = around.placement.group_shard(&self.group);
        match self.doing {
            Doing::Join | Doing::Heartbeat | Doing::Leave => {
                (of_group, HEARTBEAT, self.heartbeat().into())
            }
            Doing::Describe => (of_group, DESCRIBE, self.describe().into()),
            Doing::Fetch { shard } => (shard, FETCH, self.fetch(shard, around).into()),
            Doing::Acknowledge { shard, ends } => {
                (shard, ACKNOWLEDGE, self.acknowledge(shard, ends, around).into())
            }
            Doing::Renew { shard } => (shard, ACKNOWLEDGE, self.renew(shard, around).into()),
        }
    }

    fn heartbeat(&self) -> ShareGroupHeartbeatRequest<'static> {
        let joins = self.doing == Doing::Join;
        ShareGroupHeartbeatRequest {
            group_id: self.group.clone().into(),
            member_id: self.member_id().into(),
            member_epoch: if self.doing == Doing::Leave { -1 } else { self.member_epoch },
            subscribed_topic_names: (joins || self.is_unsure).then(|| vec![TOPIC.into()]),
            ..Default::default()
        }
    }

    fn describe(&self) -> DescribeShareGroupOffsetsRequest<'static> {
        let group = DescribeShareGroupOffsetsRequestGroup {
            group_id: self.group.clone().into(),
            topics: None,
        };
        DescribeShareGroupOffsetsRequest { groups: vec![group] }
    }

    fn fetch(&mut self, shard: u32, around: &mut Surroundings<'_>) -> ShareFetchRequest<'static> {
        let shards = around.placement.shards;
        let assigned = self.assigned.iter().copied();
        let mut wanted: BTreeSet<i32> =
            assigned.filter(|partition| self.leader(*partition, shards) == shard).collect();
        let session = self.sessions.get(&shard).cloned();
        let known = session.as_ref().map(|it| it.partitions.clone()).unwrap_or_default();
        let holds =
            |it: &&i32| self.forgotten.contains(it) || self.held.keys().any(|(of, _)| of == *it);
        wanted.extend(known.iter().filter(holds));
        let left = self.forgotten.iter().copied();
        wanted.extend(left.filter(|partition| self.leader(*partition, shards) == shard));
        let batches = match session {
            Some(_) if around.random.chance(0.5) => self.batches(shard, false, around),
            _ => Batches::new(),
        };
        let forgotten: Vec<i32> = known.difference(&wanted).copied().collect();
        let added: BTreeSet<i32> = wanted.difference(&known).copied().collect();
        let (number, epoch) =
            session.map_or_else(|| self.next_session(), |it| (it.number, it.epoch));
        self.sessions.insert(shard, Session { number, epoch, partitions: wanted });
        let random = &mut *around.random;
        let named: BTreeSet<i32> = added.into_iter().chain(batches.keys().copied()).collect();
        ShareFetchRequest {
            group_id: Some(self.group.clone().into()),
            member_id: Some(self.member_id().into()),
            share_session_epoch: epoch,
            max_wait_ms: random.pick(&[0, 0, 50, 300]),
            min_bytes: random.pick(&[0, 1, 1, 500]),
            max_bytes: random.pick(&[1, 500, 1 << 20]),
            max_records: random.pick(&[1, 5, 500]),
            batch_size: random.pick(&[1, 3, 500]),
            share_acquire_mode: random.pick(&[0, 0, 1]),
            is_renew_ack: false,
            topics: self.fetch_topics(named, batches),
            forgotten_topics_data: self.forgotten_topics(forgotten),
        }
    }

    fn fetch_topics(&self, named: BTreeSet<i32>, mut batches: Batches) -> Vec<ShareFetchTopic> {
        let partition = |partition_index| ShareFetchPartition {
            partition_index,
            acknowledgement_batches: batches.remove(&partition_index).unwrap_or_default(),
        };
        let partitions: Vec<_> = named.into_iter().map(partition).collect();
        let topic = ShareFetchTopic { topic_id: self.topic_id, partitions };
        if topic.partitions.is_empty() { Vec::new() } else { vec![topic] }
    }

    fn forgotten_topics(&self, partitions: Vec<i32>) -> Vec<ShareForgottenTopic> {
        let topic = ShareForgottenTopic { topic_id: self.topic_id, partitions };
        if topic.partitions.is_empty() { Vec::new() } else { vec![topic] }
    }

    fn acknowledge(
        &mut self,
        shard: u32,
        ends: bool,
        around: &mut Surroundings<'_>,
    ) -> ShareAcknowledgeRequest<'static> {
        let batches = self.batches(shard, false, around);
        let epoch = if ends { FINAL } else { self.epoch(shard) };
        if ends {
            self.end_session(shard, true);
        }
        self.acknowledgements(epoch, false, batches)
    }

    fn renew(
        &mut self,
        shard: u32,
        around: &mut Surroundings<'_>,
    ) -> ShareAcknowledgeRequest<'static> {
        let batches = self.batches(shard, true, around);
        self.acknowledgements(self.epoch(shard), true, batches)
    }

    fn acknowledgements(
        &self,
        share_session_epoch: i32,
        is_renew_ack: bool,
        batches: Batches,
    ) -> ShareAcknowledgeRequest<'static> {
        let partition = |(partition_index, acknowledgement_batches)| ShareAcknowledgePartition {
            partition_index,
            acknowledgement_batches,
        };
        let partitions = batches.into_iter().map(partition).collect();
        let topic = ShareAcknowledgeTopic { topic_id: self.topic_id, partitions };
        ShareAcknowledgeRequest {
            group_id: Some(self.group.clone().into()),
            member_id: Some(self.member_id().into()),
            share_session_epoch,
            is_renew_ack,
            topics: vec![topic],
        }
    }

    /// The number and the epoch of a session that begins.
    fn next_session(&mut self) -> (u32, i32) {
        self.last_session += 1;
        (self.last_session, 0)
    }

    fn epoch(&self, shard: u32) -> i32 {
        self.sessions.get(&shard).map_or(0, |it| it.epoch)
    }

    /// Acknowledges some of the records that the member holds in a session, or renews their locks.
    fn batches(&mut self, shard: u32, renews: bool, around: &mut Surroundings<'_>) -> Batches {
        let is_chaos = around.is_chaos;
        let random: &mut Random = around.random;
        let Some(session) = self.sessions.get(&shard) else { return Batches::new() };
        let (number, partitions) = (session.number, session.partitions.clone());
        let mut batches = Batches::new();
        for partition in partitions {
            let chosen = self.choose_some((number, partition), renews, is_chaos, random);
            if !chosen.is_empty() {
                batches.insert(partition, chosen);
            }
        }
        batches
    }
}
