//! A client of the consumer protocol.

use crate::client::{Fate, Identity, REBALANCE_TIMEOUT_MS};
use crate::shard::Shard;
use muster_codec::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions as Owned,
};
use muster_codec::{ErrorCode, Response, Uuid};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct Consumer {
    /// The member epoch; 0 if the client must join.
    pub epoch: i32,
    pub owned: BTreeSet<(Uuid, i32)>,
    sends_subscription: bool,
    /// Whether an answer was lost. The client then sends all fields, and gets its whole assignment.
    is_unsure: bool,
}

impl Consumer {
    pub fn step(
        &mut self,
        shard: &mut Shard,
        identity: &Identity,
        reports: bool,
        is_lost: bool,
    ) -> Fate {
        let request = self.request(identity, reports);
        let asked = shard.ask(1, request);
        let answer = shard.answer_to(asked);
        let Some(Response::ConsumerGroupHeartbeat(response)) = answer else { panic!("{answer:?}") };
        self.is_unsure = is_lost;
        if is_lost {
            return Fate::In;
        }
        self.sends_subscription = false;
        self.learn(response)
    }

    /// Makes the next heartbeat include the subscription.
    pub fn sends_subscription(&mut self) {
        self.sends_subscription = true;
    }

    /// Sends a delayed heartbeat, with the previous epoch. Its answer is lost.
    pub fn stale(&mut self, shard: &mut Shard, identity: &Identity) {
        if self.epoch > 1 {
            let request = self.request(identity, true);
            let member_epoch = self.epoch - 1;
            shard.ask(1, ConsumerGroupHeartbeatRequest { member_epoch, ..request });
            self.is_unsure = true;
        }
    }

    pub fn leave(&self, shard: &mut Shard, identity: &Identity, for_a_while: bool) {
        let member_epoch = if for_a_while { -2 } else { -1 };
        let request =
            ConsumerGroupHeartbeatRequest { member_epoch, ..self.request(identity, false) };
        shard.ask(1, request);
    }

    fn request(
        &self,
        identity: &Identity,
        reports: bool,
    ) -> ConsumerGroupHeartbeatRequest<'static> {
        let sends_all = self.epoch == 0 || self.is_unsure;
        let subscribes = sends_all || self.sends_subscription;
        let regex = if identity.options.has_regex { "a.*" } else { "" };
        let names = identity.topics().filter(|_| !identity.options.has_regex).map(Into::into);
        ConsumerGroupHeartbeatRequest {
            group_id: identity.group.into(),
            member_id: identity.consumer_id().to_owned().into(),
            member_epoch: self.epoch,
            instance_id: identity.instance(),
            rebalance_timeout_ms: if sends_all { REBALANCE_TIMEOUT_MS } else { -1 },
            subscribed_topic_names: subscribes.then(|| names.collect()),
            subscribed_topic_regex: subscribes.then(|| regex.into()),
            topic_partitions: (sends_all || reports).then(|| by_topic(&self.owned)),
            ..Default::default()
        }
    }

    fn learn(&mut self, response: ConsumerGroupHeartbeatResponse<'_>) -> Fate {
        match ErrorCode::from_code(response.error_code) {
            Some(ErrorCode::None) => {}
            Some(ErrorCode::UnknownMemberId | ErrorCode::FencedMemberEpoch) => {
                *self = Self::default();
                return Fate::In;
            }
            _ => return Fate::Out,
        }
        assert!(response.member_epoch >= self.epoch, "a member epoch decreases: {response:?}");
        self.epoch = response.member_epoch;
        if let Some(assignment) = response.assignment {
            let topics = assignment.topic_partitions.into_iter();
            let all = topics.flat_map(|topic| {
                topic.partitions.into_iter().map(move |partition| (topic.topic_id, partition))
            });
            self.owned = all.collect();
        }
        Fate::In
    }
}

fn by_topic(owned: &BTreeSet<(Uuid, i32)>) -> Vec<Owned> {
    let mut topics: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
    for (topic_id, partition) in owned {
        topics.entry(*topic_id).or_default().push(*partition);
    }
    topics.into_iter().map(|(topic_id, partitions)| Owned { topic_id, partitions }).collect()
}
