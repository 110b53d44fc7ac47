//! Members of consumer groups that join, send heartbeats, commit, change subscriptions and leave.
//! Their answers are checked: epochs never decrease, and no partition has two owners.

use super::{Client, Random, Server};
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Response, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

pub const TOPICS: [&str; 2] = ["left", "right"];
pub const PARTITIONS: i32 = 6;

/// Sessions are long, so that no member expires only because the disk stalls.
pub const LONG_SESSIONS: [&str; 2] =
    ["group.consumer.max.session.timeout.ms=600000", "group.consumer.session.timeout.ms=600000"];

/// The number of heartbeats of each member within which a group must become stable.
const SETTLING_ROUNDS: usize = 12;

/// The index of a topic in `TOPICS`, and a partition number.
type Partition = (usize, i32);

/// Members send heartbeats in turn until every group is stable.
pub fn settle(server: &Server, groups: &[Arc<Group>], members: &mut [Member]) {
    let mut clients: Vec<_> =
        members.iter().map(|member| server.coordinator(&member.group.id)).collect();
    for _ in 0..SETTLING_ROUNDS {
        for (member, client) in members.iter_mut().zip(&mut clients) {
            member.heartbeat_or_leave(client).expect("an answer");
        }
        if groups.iter().all(|group| group.is_settled(server, members)) {
            return;
        }
    }
    let states: Vec<_> = groups.iter().map(|group| group.describe(server)).collect();
    panic!("not settled: {states:#?}");
}

/// The state of a group according to the answers to all its members.
#[derive(Default)]
pub struct Reported {
    owners: BTreeMap<Partition, String>,
    /// For each partition, the last acknowledged offset, and the last offset that was sent.
    offsets: BTreeMap<Partition, (i64, i64)>,
    /// The highest epoch of any member.
    pub epoch: i32,
}

pub struct Group {
    id: String,
    topics: Arc<[Uuid; TOPICS.len()]>,
    reported: Mutex<Reported>,
}

impl Group {
    pub fn new(index: usize, topics: Arc<[Uuid; TOPICS.len()]>) -> Self {
        Self { id: format!("group-{index}"), topics, reported: Mutex::default() }
    }

    pub fn reported(&self) -> MutexGuard<'_, Reported> {
        self.reported.lock().unwrap()
    }

    /// The number of acknowledged commits.
    pub fn commits(&self) -> i64 {
        self.reported().offsets.values().map(|(acknowledged, _)| acknowledged).sum()
    }

    /// Checks that all acknowledged commits are there, and that no partition has two owners. In
    /// each partition one more commit may be there, whose answer was lost.
    pub fn check(&self, server: &Server, members: &[Member]) {
        self.check_offsets(server);
        let described = self.describe(server);
        let reported = self.reported();
        if described.error_code == ErrorCode::GroupIdNotFound as i16 {
            assert_eq!(reported.epoch, 0, "{} is gone", self.id);
            return;
        }
        assert_eq!(described.error_code, 0, "{described:?}");
        assert!(
            described.group_epoch >= reported.epoch,
            "{} reported: {described:?}",
            reported.epoch
        );
        let mut owners = BTreeMap::new();
        for member in &described.members {
            for (topic_id, partition) in partitions(&member.assignment) {
                let other = owners.insert((topic_id, partition), &member.member_id);
                assert_eq!(other, None, "{partition} of {topic_id:?} is {}'s", member.member_id);
            }
        }
        let stays = |it: &&Member| it.group.id == self.id && it.epoch > 0 && !it.is_leaving;
        for member in members.iter().filter(stays) {
            let own = described.members.iter().find(|it| it.member_id == member.id);
            let epoch = own.map(|it| it.member_epoch);
            assert!(epoch >= Some(member.epoch), "{}, {}: {epoch:?}", member.id, member.epoch);
        }
    }

    fn check_offsets(&self, server: &Server) {
        let of_topic = |topic: &&'static str| OffsetFetchRequestTopics {
            name: (*topic).into(),
            partition_indexes: (0..PARTITIONS).collect(),
            ..Default::default()
        };
        let group = OffsetFetchRequestGroup {
            group_id: self.id.clone().into(),
            topics: Some(TOPICS.iter().map(of_topic).collect()),
            ..Default::default()
        };
        let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
        let response = server.coordinator(&self.id).call(9, request.into());
        let Response::OffsetFetch(body) = response else { panic!("{response:?}") };
        assert_eq!(body.groups[0].error_code, 0);
        let mut reported = self.reported();
        for (topic, fetched) in body.groups[0].topics.iter().enumerate() {
            for partition in &fetched.partitions {
                let offset = partition.committed_offset.max(0);
                let key = (topic, partition.partition_index);
                let (acknowledged, sent) = reported.offsets.entry(key).or_default();
                assert!((*acknowledged..=*sent).contains(&offset), "{acknowledged} {partition:?}");
                (*acknowledged, *sent) = (offset, offset);
            }
        }
    }

    pub fn describe(&self, server: &Server) -> DescribedConsumerGroup<'static> {
        let group_ids = vec![self.id.clone().into()];
        let request = ConsumerGroupDescribeRequest { group_ids, ..Default::default() };
        let response = server.coordinator(&self.id).call(1, request.into());
        let Response::ConsumerGroupDescribe(mut body) = response else { panic!("{response:?}") };
        body.groups.remove(0)
    }

    /// Whether the members of the group own all partitions that they want, in the same epoch.
    fn is_settled(&self, server: &Server, members: &[Member]) -> bool {
        let own = members.iter().filter(|it| it.group.id == self.id);
        let wanted: BTreeSet<usize> = own.clone().flat_map(|it| it.wanted()).collect();
        let epochs: BTreeSet<i32> = own.map(|it| it.epoch).collect();
        let described = self.describe(server);
        described.group_state == "Stable"
            && epochs == BTreeSet::from([described.group_epoch])
            && self.reported().owners.len() == wanted.len() * PARTITIONS as usize
    }
}

fn partitions(assignment: &ConsumerGroupAssignment<'_>) -> Vec<(Uuid, i32)> {
    let topics = assignment.topic_partitions.iter();
    topics.flat_map(|topic| topic.partitions.iter().map(|it| (topic.topic_id, *it))).collect()
}

/// A member of a group. The member with index 1 is static. The member with index 2 subscribes by a
/// regular expression.
pub struct Member {
    group: Arc<Group>,
    index: usize,
    random: Random,
    /// How often it has joined.
    joins: u32,
    id: String,
    /// 0 until the server assigns one.
    epoch: i32,
    owned: BTreeSet<Partition>,
    /// Whether it wants both topics.
    wants_both: bool,
    /// Whether it still has to report its subscription.
    subscribes: bool,
    /// Whether the last heartbeat, or its answer, may be lost. The next heartbeat then contains all
    /// fields, so its answer contains the whole assignment.
    is_unsure: bool,
    /// Whether the member has to leave before its next heartbeat: an earlier leave, or the answer
    /// to a static join, may be lost.
    is_leaving: bool,
}

impl Member {
    pub fn new(group: &Arc<Group>, index: usize, seed: u64) -> Self {
        Self {
            group: group.clone(),
            index,
            random: Random(seed),
            joins: 0,
            id: format!("member-{index}-0"),
            epoch: 0,
            owned: BTreeSet::new(),
            wants_both: true,
            subscribes: true,
            is_unsure: false,
            is_leaving: false,
        }
    }

    /// Runs in a thread until the server ends.
    pub fn start(mut self, server: &Server, stop: &Arc<AtomicBool>) -> JoinHandle<Self> {
        let mut client = server.coordinator(&self.group.id);
        let stop = stop.clone();
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) && self.step(&mut client).is_some() {}
            self
        })
    }

    /// Sends a heartbeat, commits, and sometimes leaves or changes the subscription. `None` once
    /// the server has ended.
    fn step(&mut self, client: &mut Client) -> Option<()> {
        self.heartbeat_or_leave(client)?;
        self.commit(client)?;
        match self.random.next() % 16 {
            0 => self.leave(client)?,
            1 => (self.wants_both, self.subscribes) = (!self.wants_both, true),
            _ => {}
        }
        Some(())
    }

    /// Sends a heartbeat. If an earlier leave may be lost, first leaves again.
    fn heartbeat_or_leave(&mut self, client: &mut Client) -> Option<()> {
        if self.is_leaving {
            self.leave(client)?;
        }
        // If the answer to a static member's join is lost, the member has to leave before it joins
        // again: the server would not see that the second join is from the same member.
        self.is_leaving = self.epoch == 0 && self.is_static();
        let request = self.request();
        self.is_unsure = true;
        let response = self.heartbeat(client, request)?;
        assert_eq!(response.error_code, 0, "{} in {}: {response:?}", self.id, self.epoch);
        (self.subscribes, self.is_unsure, self.is_leaving) = (false, false, false);
        self.learn(&response);
        Some(())
    }

    fn heartbeat(
        &self,
        client: &mut Client,
        request: ConsumerGroupHeartbeatRequest<'_>,
    ) -> Option<ConsumerGroupHeartbeatResponse<'static>> {
        let response = client.try_call(1, request.into())?;
        let Response::ConsumerGroupHeartbeat(body) = response else { panic!("{response:?}") };
        Some(body)
    }

    fn request(&self) -> ConsumerGroupHeartbeatRequest<'static> {
        let says_all = self.epoch == 0 || self.is_unsure;
        let subscribes = says_all || self.subscribes;
        let has_regex = self.index == 2;
        let names = self.wanted().filter(|_| !has_regex).map(|topic| TOPICS[topic].into());
        let regex = TOPICS[..self.wanted().count()].join("|");
        ConsumerGroupHeartbeatRequest {
            group_id: self.group.id.clone().into(),
            member_id: self.id.clone().into(),
            member_epoch: self.epoch,
            instance_id: self.is_static().then(|| "instance".into()),
            rebalance_timeout_ms: if says_all { 600_000 } else { -1 },
            subscribed_topic_names: subscribes.then(|| names.collect()),
            subscribed_topic_regex: (subscribes && has_regex).then(|| regex.into()),
            topic_partitions: Some(self.reported()),
            ..Default::default()
        }
    }

    fn reported(&self) -> Vec<ConsumerGroupHeartbeatTopicPartitions> {
        let of = |topic| self.owned.iter().filter(move |(it, _)| *it == topic).map(|(_, it)| *it);
        let reported = (0..TOPICS.len()).map(|topic| ConsumerGroupHeartbeatTopicPartitions {
            topic_id: self.group.topics[topic],
            partitions: of(topic).collect(),
        });
        reported.filter(|it| !it.partitions.is_empty()).collect()
    }

    /// Takes the epoch and the assignment from an answer. Partitions that were revoked are free
    /// then. New partitions must not have another owner.
    fn learn(&mut self, response: &ConsumerGroupHeartbeatResponse<'_>) {
        assert!(response.member_epoch >= self.epoch, "back to {}", response.member_epoch);
        self.epoch = response.member_epoch;
        let mut reported = self.group.reported();
        reported.epoch = reported.epoch.max(self.epoch);
        let Some(assignment) = &response.assignment else { return };
        let place = |id: Uuid| self.group.topics.iter().position(|it| *it == id).unwrap();
        let topics = assignment.topic_partitions.iter();
        let all = topics
            .flat_map(|topic| topic.partitions.iter().map(move |it| (place(topic.topic_id), *it)));
        let owned: BTreeSet<Partition> = all.collect();
        reported.owners.retain(|partition, owner| *owner != self.id || owned.contains(partition));
        for partition in owned.difference(&self.owned) {
            let other = reported.owners.insert(*partition, self.id.clone());
            assert_eq!(other, None, "{partition:?} is owned by {} too", self.id);
        }
        drop(reported);
        self.owned = owned;
    }

    /// Commits the next offset of all owned partitions.
    fn commit(&mut self, client: &mut Client) -> Option<()> {
        if self.owned.is_empty() {
            return Some(());
        }
        let mut topics: BTreeMap<usize, Vec<OffsetCommitRequestPartition<'_>>> = BTreeMap::new();
        for partition in &self.owned {
            let mut reported = self.group.reported();
            let (_, sent) = reported.offsets.entry(*partition).or_default();
            *sent += 1;
            topics.entry(partition.0).or_default().push(OffsetCommitRequestPartition {
                partition_index: partition.1,
                committed_offset: *sent,
                ..Default::default()
            });
        }
        let topics = topics.into_iter().map(|(topic, partitions)| OffsetCommitRequestTopic {
            name: TOPICS[topic].into(),
            partitions,
            ..Default::default()
        });
        let request = OffsetCommitRequest {
            group_id: self.group.id.clone().into(),
            generation_id_or_member_epoch: self.epoch,
            member_id: self.id.clone().into(),
            topics: topics.collect(),
            ..Default::default()
        };
        let response = client.try_call(9, request.into())?;
        let Response::OffsetCommit(body) = response else { panic!("{response:?}") };
        let mut refused = body.topics.iter().flat_map(|it| &it.partitions);
        assert!(refused.all(|it| it.error_code == 0), "{} in {}: {body:?}", self.id, self.epoch);
        let mut reported = self.group.reported();
        for partition in &self.owned {
            let (acknowledged, sent) = reported.offsets.get_mut(partition).unwrap();
            *acknowledged = *sent;
        }
        Some(())
    }

    /// Leaves, and becomes a new member.
    fn leave(&mut self, client: &mut Client) -> Option<()> {
        self.group.reported().owners.retain(|_, owner| *owner != self.id);
        self.owned.clear();
        let was_leaving = std::mem::replace(&mut self.is_leaving, true);
        let member_epoch = if self.is_static() { -2 } else { -1 };
        let request = ConsumerGroupHeartbeatRequest {
            member_epoch,
            subscribed_topic_names: None,
            topic_partitions: None,
            ..self.request()
        };
        let response = self.heartbeat(client, request)?;
        let is_gone = [ErrorCode::UnknownMemberId, ErrorCode::FencedInstanceId]
            .map(|error| error as i16)
            .contains(&response.error_code);
        assert!(response.error_code == 0 || was_leaving && is_gone, "{}: {response:?}", self.id);
        self.joins += 1;
        self.id = format!("member-{}-{}", self.index, self.joins);
        (self.epoch, self.is_leaving) = (0, false);
        Some(())
    }

    /// Sends a heartbeat, and expects that nothing changes.
    pub fn expect_no_change(&mut self, server: &Server) {
        let mut client = server.coordinator(&self.group.id);
        let response = self.heartbeat(&mut client, self.request()).expect("an answer");
        assert_eq!((response.error_code, response.member_epoch), (0, self.epoch));
        assert_eq!(response.assignment, None);
    }

    fn is_static(&self) -> bool {
        self.index == 1
    }

    fn wanted(&self) -> std::ops::Range<usize> {
        0..if self.wants_both { 2 } else { 1 }
    }
}
