//! A client of the classic protocol, in a classic or consumer group.

use crate::action::TOPICS;
use crate::client::{Fate, Identity, REBALANCE_TIMEOUT_MS};
use crate::common::topics::World;
use crate::shard::Shard;
use muster_codec::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions,
};
use muster_codec::messages::{
    HeartbeatRequest, JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse,
    JoinGroupResponseMember, LeaveGroupRequest, MemberIdentity, SyncGroupRequest,
    SyncGroupRequestAssignment, SyncGroupResponse,
};
use muster_codec::{Bytes, ErrorCode, Response, Uuid};
use muster_coordinator::Topics;
use std::collections::{BTreeMap, BTreeSet};

const SESSION_TIMEOUT_MS: i32 = 10_000;

#[derive(Default)]
pub struct Classic {
    /// The member id; empty until the coordinator has assigned one.
    pub member_id: String,
    pub generation: i32,
    pub owned: BTreeSet<(Uuid, i32)>,
    stage: Stage,
    /// The request whose answer the client waits for.
    asked: Option<u64>,
    /// If the client is the leader: the members of the group, with their subscriptions.
    followers: Vec<JoinGroupResponseMember<'static>>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    #[default]
    MustJoin,
    MustSync,
    Stable,
}

impl Classic {
    pub fn step(&mut self, shard: &mut Shard, identity: &Identity, is_lost: bool) -> Fate {
        if self.asked.is_some_and(|asked| shard.waiting.contains(&asked)) {
            return Fate::In;
        }
        if self.asked.is_some() && self.poll(shard, false) == Fate::Out {
            return Fate::Out;
        }
        self.asked = Some(match self.stage {
            Stage::MustJoin => self.join(shard, identity),
            Stage::MustSync => self.sync(shard, identity, self.generation),
            Stage::Stable => self.beat(shard, identity, self.generation),
        });
        self.poll(shard, is_lost)
    }

    /// Drops the pending request; the next step joins.
    pub fn must_join(&mut self) {
        (self.stage, self.asked) = (Stage::MustJoin, None);
    }

    pub fn is_stable(&self) -> bool {
        self.stage == Stage::Stable
    }

    /// Sends a delayed request of the previous generation.
    pub fn stale(&self, shard: &mut Shard, identity: &Identity, syncs: bool) {
        if syncs {
            self.sync(shard, identity, self.generation - 1)
        } else {
            self.beat(shard, identity, self.generation - 1)
        };
    }

    pub fn leave(&self, shard: &mut Shard, identity: &Identity) {
        let member_id = self.member_id.clone().into();
        let members = vec![MemberIdentity { member_id, ..Default::default() }];
        let group_id = identity.group.into();
        shard.ask(5, LeaveGroupRequest { group_id, members, ..Default::default() });
    }

    /// Takes the answer if it has arrived. If it was lost with the previous coordinator, the client
    /// joins again.
    fn poll(&mut self, shard: &mut Shard, is_lost: bool) -> Fate {
        let Some(asked) = self.asked.filter(|asked| !shard.waiting.contains(asked)) else {
            return Fate::In;
        };
        self.asked = None;
        match shard.answer_to(asked) {
            None => self.stage = Stage::MustJoin,
            Some(_) if is_lost => {}
            Some(Response::JoinGroup(response)) => return self.joined(response),
            Some(Response::SyncGroup(response)) => return self.synced(&response, &shard.topics),
            Some(Response::Heartbeat(response)) => return self.handle_error(response.error_code),
            other => panic!("{other:?}"),
        }
        Fate::In
    }

    fn join(&mut self, shard: &mut Shard, identity: &Identity) -> u64 {
        if identity.options.is_eager {
            self.owned.clear();
        }
        let metadata = self.subscription(identity, &shard.topics);
        let names =
            ["cooperative-sticky", "range"].into_iter().skip(identity.options.is_eager.into());
        let protocols = names.map(|name| JoinGroupRequestProtocol {
            name: name.into(),
            metadata: Bytes::from(metadata.clone()),
        });
        let request = JoinGroupRequest {
            group_id: identity.group.into(),
            session_timeout_ms: SESSION_TIMEOUT_MS,
            rebalance_timeout_ms: REBALANCE_TIMEOUT_MS,
            member_id: self.member_id.clone().into(),
            group_instance_id: identity.instance(),
            protocol_type: "consumer".into(),
            protocols: protocols.collect(),
            reason: None,
        };
        shard.ask(identity.options.version, request)
    }

    fn subscription(&self, identity: &Identity, topics: &World) -> Vec<u8> {
        let mut owned: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for (topic_id, partition) in &self.owned {
            if let Some(name) = topics.name(*topic_id) {
                owned.entry(name).or_default().push(*partition);
            }
        }
        let owned = owned.into_iter();
        let owned =
            owned.map(|(name, partitions)| TopicPartitions { topic: name.into(), partitions });
        let mut out = Vec::new();
        ConsumerProtocolSubscription {
            topics: identity.topics().map(Into::into).collect(),
            owned_partitions: owned.collect(),
            ..Default::default()
        }
        .write(1, &mut out);
        out
    }

    fn sync(&self, shard: &mut Shard, identity: &Identity, generation_id: i32) -> u64 {
        let request = SyncGroupRequest {
            group_id: identity.group.into(),
            generation_id,
            member_id: self.member_id.clone().into(),
            group_instance_id: identity.instance(),
            assignments: assignments(&self.followers, &shard.topics),
            ..Default::default()
        };
        shard.ask(3, request)
    }

    fn beat(&self, shard: &mut Shard, identity: &Identity, generation_id: i32) -> u64 {
        let request = HeartbeatRequest {
            group_id: identity.group.into(),
            generation_id,
            member_id: self.member_id.clone().into(),
            group_instance_id: identity.instance(),
        };
        shard.ask(3, request)
    }

    fn joined(&mut self, response: JoinGroupResponse<'static>) -> Fate {
        let error = ErrorCode::from_code(response.error_code);
        if matches!(error, Some(ErrorCode::None | ErrorCode::MemberIdRequired)) {
            self.member_id = response.member_id.to_string();
        }
        if error != Some(ErrorCode::None) {
            return self.handle_error(response.error_code);
        }
        self.generation = response.generation_id;
        self.followers = if response.skip_assignment { Vec::new() } else { response.members };
        self.stage = Stage::MustSync;
        Fate::In
    }

    fn synced(&mut self, response: &SyncGroupResponse<'_>, topics: &World) -> Fate {
        if response.error_code != ErrorCode::None as i16 {
            return self.handle_error(response.error_code);
        }
        self.stage = Stage::Stable;
        self.owned.clear();
        if !response.assignment.is_empty() {
            let assignment = ConsumerProtocolAssignment::read(&response.assignment).unwrap();
            for topic in assignment.assigned_partitions {
                let id = topics.id(&topic.topic);
                let all = topic.partitions.into_iter();
                self.owned.extend(all.filter_map(|partition| Some((id?, partition))));
            }
        }
        Fate::In
    }

    /// Reacts to an error like a real client.
    fn handle_error(&mut self, error_code: i16) -> Fate {
        match ErrorCode::from_code(error_code) {
            Some(ErrorCode::None) => {}
            Some(ErrorCode::MemberIdRequired | ErrorCode::RebalanceInProgress) => self.must_join(),
            Some(ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration) => {
                *self = Self::default();
            }
            _ => return Fate::Out,
        }
        Fate::In
    }
}

/// The assignment that the leader makes: all partitions, to the members in turn.
fn assignments(
    followers: &[JoinGroupResponseMember<'_>],
    topics: &World,
) -> Vec<SyncGroupRequestAssignment<'static>> {
    let subscriptions: Vec<_> = followers
        .iter()
        .map(|it| ConsumerProtocolSubscription::read(&it.metadata).unwrap())
        .collect();
    let mut given = vec![Vec::new(); followers.len()];
    for name in TOPICS {
        let wants = |i: &usize| subscriptions[*i].topics.iter().any(|it| it == name);
        let takers: Vec<usize> = (0..followers.len()).filter(wants).collect();
        for (i, taker) in takers.iter().enumerate() {
            let all = 0..topics.partitions(name).unwrap_or(0);
            let partitions = all.skip(i).step_by(takers.len()).collect();
            given[*taker].push(TopicPartitions { topic: name.into(), partitions });
        }
    }
    let assignments = followers.iter().zip(given).map(|(member, assigned_partitions)| {
        let mut out = Vec::new();
        ConsumerProtocolAssignment { assigned_partitions, user_data: None }.write(0, &mut out);
        SyncGroupRequestAssignment {
            member_id: member.member_id.to_string().into(),
            assignment: Bytes::from(out),
        }
    });
    assignments.collect()
}
