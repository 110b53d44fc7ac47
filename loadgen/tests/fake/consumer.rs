//! Consumer groups (KIP-848): each group epoch has a target, and members reconcile one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions as Owned;
use kafka_protocol::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use kafka_protocol::messages::{
    ApiKey, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::broker::Broker;
use super::reply::Reply;
use super::topics::Topics;
use super::{Bug, Config};

const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;
const UNKNOWN_MEMBER_ID: i16 = 25;
const INVALID_REQUEST: i16 = 42;
const GROUP_ID_NOT_FOUND: i16 = 69;
const FENCED_MEMBER_EPOCH: i16 = 110;
const STALE_MEMBER_EPOCH: i16 = 113;
/// An injected bug affects a member once it has sent more than this number of heartbeats in a row
/// that changed nothing.
const HEARTBEATS_BEFORE_MISCHIEF: u32 = 5;

/// The topic id and the partition number.
type Partition = (Uuid, i32);
type Partitions = BTreeSet<Partition>;

pub(super) struct ConsumerGroup {
    config: Config,
    epoch: i32,
    members: BTreeMap<StrBytes, Member>,
    /// The subscriptions from which the target was computed.
    subscribed: Vec<(StrBytes, Vec<(Uuid, i32)>)>,
    /// With [`Bug::AcceptsFencedCommits`], the member whose heartbeats are ignored.
    unheard: Option<StrBytes>,
}

struct Member {
    topics: Vec<StrBytes>,
    epoch: i32,
    /// The previous epoch. It is accepted, too, because the answer with the current epoch may have
    /// been lost.
    previous: i32,
    target: Partitions,
    /// The partitions that the member may own, including those that it has yet to give up.
    assigned: Partitions,
    revoking: Partitions,
    heard: Instant,
    rebalance_timeout: Duration,
    /// When the member must have given up the partitions in `revoking`.
    revokes_until: Option<Instant>,
    idle_heartbeats: u32,
}

impl Broker {
    pub(super) fn consumer_group_heartbeat(
        &mut self,
        (request, reply): (ConsumerGroupHeartbeatRequest, Reply<ConsumerGroupHeartbeatRequest>),
    ) {
        let refusal = self.refusal(ApiKey::ConsumerGroupHeartbeat);
        if refusal != 0 {
            return reply.send(refused(refusal));
        }
        let joins = request.member_epoch == 0;
        let group = match self.groups.get_mut(&request.group_id.0) {
            None if !joins => return reply.send(refused(GROUP_ID_NOT_FOUND)),
            None => self.groups.entry(request.group_id.0.clone()).or_default(),
            Some(group) => group,
        };
        let new = || ConsumerGroup::new(self.config.clone());
        let consumer = group.consumer.get_or_insert_with(new);
        let answer = consumer.heartbeat(request, &self.topics, self.now);
        reply.send(answer.unwrap_or_else(refused));
    }
}

impl ConsumerGroup {
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    fn new(config: Config) -> Self {
        Self { config, epoch: 0, members: BTreeMap::new(), subscribed: Vec::new(), unheard: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn heartbeat(
        &mut self,
        request: ConsumerGroupHeartbeatRequest,
        topics: &Topics,
        now: Instant,
    ) -> Result<ConsumerGroupHeartbeatResponse, i16> {
        let id = if request.member_id.is_empty() {
            StrBytes::from_string(format!("member-{:04}", self.epoch + 1))
        } else {
            request.member_id.clone()
        };
        if self.unheard.as_ref() == Some(&id) {
            return Err(COORDINATOR_LOAD_IN_PROGRESS);
        }
        match request.member_epoch {
            0 => self.join(&id, &request, now)?,
            1.. => self.check(&id, &request)?,
            _ => return self.leave(&id, request.member_epoch, topics),
        }
        self.retarget(topics);
        let Some(member) = self.members.get_mut(&id) else { return Err(UNKNOWN_MEMBER_ID) };
        member.heard = now;
        if let Some(names) = request.subscribed_topic_names {
            member.topics = names.into_iter().map(|name| name.0).collect();
        }
        if let Some(owned) = &request.topic_partitions {
            member.give_up(owned);
        }
        self.retarget(topics);
        let changed = self.reconcile(&id, now);
        let wronged = self.misbehave(&id, changed)?;
        let full = changed || wronged || request.member_epoch == 0;
        Ok(self.response(id, full))
    }

    fn join(
        &mut self,
        id: &StrBytes,
        request: &ConsumerGroupHeartbeatRequest,
        now: Instant,
    ) -> Result<(), i16> {
        let Some(names) = &request.subscribed_topic_names else { return Err(INVALID_REQUEST) };
        let member = Member {
            topics: names.iter().map(|name| name.0.clone()).collect(),
            epoch: 0,
            previous: 0,
            target: Partitions::new(),
            assigned: Partitions::new(),
            revoking: Partitions::new(),
            heard: now,
            rebalance_timeout: Duration::from_millis(request.rebalance_timeout_ms as u64),
            revokes_until: None,
            idle_heartbeats: 0,
        };
        self.members.insert(id.clone(), member);
        // Makes `retarget` raise the epoch, even if the member had joined before.
        self.subscribed.clear();
        Ok(())
    }

    fn check(&self, id: &StrBytes, request: &ConsumerGroupHeartbeatRequest) -> Result<(), i16> {
        let member = self.members.get(id).ok_or(UNKNOWN_MEMBER_ID)?;
        let said = request.member_epoch;
        let owns_its_own = || {
            let owned = request.topic_partitions.iter().flatten();
            owned.flat_map(partitions).all(|one| member.assigned.contains(&one))
        };
        match said {
            _ if said == member.epoch => Ok(()),
            _ if said == member.previous && owns_its_own() => Ok(()),
            _ => Err(FENCED_MEMBER_EPOCH),
        }
    }

    fn leave(
        &mut self,
        id: &StrBytes,
        epoch: i32,
        topics: &Topics,
    ) -> Result<ConsumerGroupHeartbeatResponse, i16> {
        self.members.remove(id).ok_or(UNKNOWN_MEMBER_ID)?;
        self.retarget(topics);
        Ok(ConsumerGroupHeartbeatResponse::default()
            .with_member_id(Some(id.clone()))
            .with_member_epoch(epoch))
    }

    /// Creates a new epoch with a new target, if members or topics changed.
    pub(super) fn retarget(&mut self, topics: &Topics) {
        let described =
            |name: &StrBytes| topics.named(name).map(|topic| (topic.id, topic.partitions));
        let member = |(id, member): (&StrBytes, &Member)| {
            (id.clone(), member.topics.iter().filter_map(described).collect())
        };
        let subscribed: Vec<_> = self.members.iter().map(member).collect();
        if subscribed == self.subscribed {
            return;
        }
        self.epoch += 1;
        for member in self.members.values_mut() {
            member.target.clear();
        }
        for (topic, partitions) in
            subscribed.iter().flat_map(|(_, topics)| topics).collect::<BTreeSet<_>>()
        {
            let of_topic = |(_, topics): &&(StrBytes, Vec<(Uuid, i32)>)| {
                topics.iter().any(|(id, _)| id == topic)
            };
            let takers: Vec<_> = subscribed.iter().filter(of_topic).map(|(id, _)| id).collect();
            for number in 0..*partitions {
                self.aim((*topic, number), takers[number as usize % takers.len()]);
            }
        }
        self.subscribed = subscribed;
    }

    fn aim(&mut self, partition: Partition, taker: &StrBytes) {
        if let Some(member) = self.members.get_mut(taker) {
            member.target.insert(partition);
        }
    }

    /// Brings the member nearer to its target. Returns whether its assignment changed.
    fn reconcile(&mut self, id: &StrBytes, now: Instant) -> bool {
        let others = self.members.iter().filter(|(other, _)| *other != id);
        let of_others: Partitions = others.flat_map(|(_, other)| other.assigned.clone()).collect();
        let epoch = self.epoch;
        let Some(member) = self.members.get_mut(id) else { return false };
        let too_much: Partitions = member.assigned.difference(&member.target).copied().collect();
        if !too_much.is_empty() {
            let known = member.revoking == too_much;
            member.revoking = too_much;
            member.revokes_until.get_or_insert(now + member.rebalance_timeout);
            return !known;
        }
        member.revokes_until = None;
        let rises = member.epoch != epoch;
        if rises {
            (member.previous, member.epoch) = (member.epoch, epoch);
        }
        let news: Partitions = member
            .target
            .difference(&member.assigned)
            .filter(|one| !of_others.contains(one))
            .copied()
            .collect();
        let changed = rises || !news.is_empty();
        member.assigned.extend(news);
        changed
    }

    /// Applies the injected bug. Returns whether the member gets a wrong assignment.
    fn misbehave(&mut self, id: &StrBytes, changed: bool) -> Result<bool, i16> {
        let mut others = self.members.iter().filter(|(other, _)| *other != id);
        let of_another = others.find_map(|(_, other)| other.assigned.first().copied());
        let Some(member) = self.members.get_mut(id) else { return Ok(false) };
        member.idle_heartbeats = if changed { 0 } else { member.idle_heartbeats + 1 };
        if member.idle_heartbeats <= HEARTBEATS_BEFORE_MISCHIEF {
            return Ok(false);
        }
        match self.config.bug {
            Some(Bug::AssignsTwice) => {
                member.target.extend(of_another);
                member.assigned.extend(of_another);
                self.config.bug = None;
                return Ok(true);
            }
            Some(Bug::EpochGoesBack) if member.epoch >= 2 => {
                member.epoch -= 1;
                self.epoch -= 1;
                self.config.bug = None;
            }
            Some(Bug::EvictsEarly) => {
                self.members.remove(id);
                self.config.bug = None;
                return Err(UNKNOWN_MEMBER_ID);
            }
            Some(Bug::AcceptsFencedCommits) if self.unheard.is_none() && self.members.len() > 1 => {
                self.unheard = Some(id.clone());
            }
            _ => {}
        }
        Ok(false)
    }

    fn response(&self, id: StrBytes, full: bool) -> ConsumerGroupHeartbeatResponse {
        let Some(member) = self.members.get(&id) else { return refused(UNKNOWN_MEMBER_ID) };
        let mut by_topic: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
        for (topic, number) in member.assigned.difference(&member.revoking) {
            by_topic.entry(*topic).or_default().push(*number);
        }
        let topics = by_topic.into_iter().map(|(topic, numbers)| {
            TopicPartitions::default().with_topic_id(topic).with_partitions(numbers)
        });
        let assignment = Assignment::default().with_topic_partitions(topics.collect());
        ConsumerGroupHeartbeatResponse::default()
            .with_member_id(Some(id))
            .with_member_epoch(member.epoch)
            .with_heartbeat_interval_ms(self.config.heartbeat_interval.as_millis() as i32)
            .with_assignment(full.then_some(assignment))
    }

    /// The error code of a commit. 0 if it is accepted.
    pub(super) fn check_commit(&self, id: &StrBytes, epoch: i32) -> i16 {
        match self.members.get(id) {
            _ if self.config.bug == Some(Bug::AcceptsFencedCommits) => 0,
            None if self.members.is_empty() && epoch < 0 => 0,
            None => UNKNOWN_MEMBER_ID,
            Some(member) if member.epoch != epoch => STALE_MEMBER_EPOCH,
            Some(_) => 0,
        }
    }

    /// Removes each member whose session has expired, or that did not give up partitions in time.
    pub(super) fn expire(&mut self, now: Instant) {
        let session = self.config.session_timeout;
        self.members.retain(|_, member| {
            now < member.heard + session && member.revokes_until.is_none_or(|until| now < until)
        });
    }
}

impl Member {
    /// Frees partitions that the member had to give up and no longer reports.
    fn give_up(&mut self, owned: &[Owned]) {
        let owned: Partitions = owned.iter().flat_map(partitions).collect();
        if self.revoking.is_disjoint(&owned) {
            let revoked = std::mem::take(&mut self.revoking);
            self.assigned.retain(|one| !revoked.contains(one));
        }
    }
}

fn partitions(owned: &Owned) -> impl Iterator<Item = Partition> {
    owned.partitions.iter().map(|number| (owned.topic_id, *number))
}

fn refused(error: i16) -> ConsumerGroupHeartbeatResponse {
    ConsumerGroupHeartbeatResponse::default().with_error_code(error)
}
