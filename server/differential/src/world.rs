//! The state of a history according to Kafka's answers: existing topics, groups, members and
//! producers. Requests are generated from it, so that they refer to existing state.

use crate::sessions::{Partition, ShareSession};
use crate::transactional::TransactionalId;
use crate::wire::Ask;
use fastrand::Rng;
use muster_codec::messages::{StreamsGroupAssignment, StreamsGroupTopology};
use muster_codec::{Str, Uuid};
use std::collections::VecDeque;

/// A topic that was seen.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Topic {
    pub name: String,
    pub id: Uuid,
    pub partitions: i32,
}

/// A member of a group, according to the last answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Member {
    pub id: String,
    pub instance: Option<String>,
    /// The generation or member epoch.
    pub epoch: i32,
    /// Whether the member joined with ConsumerGroupHeartbeat.
    pub is_consumer: bool,
    pub assigned: Vec<(Uuid, Vec<i32>)>,
    /// The tasks, if it is a member of a streams group.
    pub tasks: StreamsGroupAssignment<'static>,
}

#[derive(Debug, Clone, Default)]
pub struct Group {
    pub id: String,
    pub members: Vec<Member>,
    /// Whether a consumer has ever joined the group.
    pub had_consumers: bool,
    /// The topology, if it is a streams group.
    pub topology: Option<StreamsGroupTopology<'static>>,
    pub sessions: Vec<ShareSession>,
    /// The share partitions that Kafka has loaded.
    pub loaded: Vec<Partition>,
}

impl Group {
    /// Whether the group has no members. Clients that have only got a member id are not members
    /// yet.
    pub fn is_empty(&self) -> bool {
        self.members.iter().all(|member| member.epoch <= 0)
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Producer {
    pub id: i64,
    pub epoch: i16,
    pub next: i32,
}

pub struct World {
    pub random: Rng,
    /// The prefix of all names of this history.
    pub prefix: String,
    pub topics: Vec<Topic>,
    pub groups: Vec<Group>,
    /// Producers that use no transactions.
    pub producers: Vec<Producer>,
    pub transactional_ids: Vec<TransactionalId>,
    /// The highest coordinator epoch that an answer has shown; -1 before the first.
    pub coordinator_epoch: i32,
    /// The last transactional requests, which may be sent again.
    pub recent: VecDeque<Ask>,
    /// Requests that must be sent next, for example to show the effects of the last one.
    pub due: VecDeque<Ask>,
    /// The fetch session: its id, and the epoch for the next request.
    pub session: (i32, i32),
    /// The id of the cluster, once it was seen.
    pub cluster: Option<String>,
}

/// The number of groups that may become a group of any kind.
const GROUPS: usize = 3;
/// Indexes of groups that mostly become one kind of group. They follow the groups of any kind.
pub const SHARE_GROUP: usize = GROUPS;
pub const STREAMS_GROUP: usize = GROUPS + 1;
/// The index of a share group without members, whose offsets are changed. With such a change,
/// muster (unlike Kafka) also changes the group epoch, which members would see.
pub const ALTERED_GROUP: usize = GROUPS + 2;
const TOPICS: usize = 6;
const TRANSACTIONAL_IDS: usize = 3;

impl World {
    pub fn new(run: u64, seed: u64) -> Self {
        let prefix = format!("{PREFIX}{run}x{seed}-");
        let group = |i| Group { id: format!("{prefix}g{i}"), ..Group::default() };
        let groups = (0..=ALTERED_GROUP).map(group).collect();
        let transactional_id = |i| TransactionalId::new(format!("{prefix}x{i}"));
        let transactional_ids = (0..TRANSACTIONAL_IDS).map(transactional_id).collect();
        Self {
            random: Rng::with_seed(seed),
            prefix,
            topics: Vec::new(),
            groups,
            producers: Vec::new(),
            transactional_ids,
            coordinator_epoch: -1,
            recent: VecDeque::new(),
            due: VecDeque::new(),
            session: (0, 0),
            cluster: None,
        }
    }

    pub fn chance(&mut self, percent: u32) -> bool {
        self.random.u32(..100) < percent
    }

    pub fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.random.usize(..of.len())].clone()
    }

    /// A list that is sometimes empty, and sometimes has two elements with the same `key`.
    pub fn some<T: Clone, K: PartialEq>(
        &mut self,
        at_most: usize,
        key: impl Fn(&T) -> K,
        mut one: impl FnMut(&mut Self) -> T,
    ) -> Vec<T> {
        let count = if self.chance(5) { 0 } else { self.random.usize(1..=at_most) };
        let repeats = self.chance(5);
        let mut list: Vec<T> = Vec::new();
        for _ in 0..count {
            let element = one(self);
            if repeats || list.iter().all(|other| key(other) != key(&element)) {
                list.push(element);
            }
        }
        if repeats && !list.is_empty() {
            list.push(list[0].clone());
        }
        list
    }

    /// A list that is not empty, and has no two elements with the same key.
    pub fn distinct<T, K: PartialEq>(
        &mut self,
        at_most: usize,
        key: impl Fn(&T) -> K,
        mut one: impl FnMut(&mut Self) -> T,
    ) -> Vec<T> {
        let mut list = vec![one(self)];
        for _ in 1..self.random.usize(1..=at_most) {
            let element = one(self);
            if list.iter().all(|other| key(other) != key(&element)) {
                list.push(element);
            }
        }
        list
    }

    /// An existing topic, one that does not exist, or one that cannot exist.
    pub fn topic(&mut self) -> Topic {
        if !self.topics.is_empty() && self.chance(80) {
            let topics = self.topics.clone();
            let mut topic = self.one(&topics);
            if self.chance(3) {
                topic.id = self.random_id();
            }
            return topic;
        }
        Topic { name: self.topic_name(), id: self.random_id(), partitions: 2 }
    }

    pub fn topic_name(&mut self) -> String {
        let prefix = self.prefix.clone();
        match self.random.u32(..40) {
            0 => String::new(),
            1 => self.one(&[".", ".."]).into(),
            2 => format!("{prefix}{}", "x".repeat(249 - prefix.len() + self.random.usize(0..2))),
            3 => format!("{prefix}a b"),
            4 => format!("{prefix}ü"),
            5 => self.one(&[format!("{prefix}a.b"), format!("{prefix}a_b")]),
            _ => format!("{prefix}t{}", self.random.usize(..TOPICS)),
        }
    }

    /// Returns a topic like [`World::topic`], or sometimes `__consumer_offsets`. All histories
    /// share this one, so requests that change the topic must not use this.
    pub fn topic_or_internal(&mut self) -> Topic {
        if self.chance(2) {
            Topic { name: "__consumer_offsets".into(), id: Uuid::ZERO, partitions: 50 }
        } else {
            self.topic()
        }
    }

    pub fn random_id(&mut self) -> Uuid {
        match self.random.u32(..6) {
            0 => Uuid::ZERO,
            1 => Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
            _ => Uuid(std::array::from_fn(|_| self.random.u8(..))),
        }
    }

    pub fn partition(&mut self, topic: &Topic) -> i32 {
        match self.random.u32(..20) {
            0 => topic.partitions,
            1 => self.one(&[-1, i32::MAX, i32::MIN]),
            _ => self.random.i32(0..topic.partitions.max(1)),
        }
    }

    /// The index of a group in `groups`.
    pub fn group_at(&mut self) -> usize {
        let last = if self.chance(5) { ALTERED_GROUP } else { GROUPS };
        self.random.usize(..last)
    }

    /// The index of a group that is mostly of one kind. Sometimes it is another group.
    pub fn group_of(&mut self, kind: usize) -> usize {
        if self.chance(90) { kind } else { self.group_at() }
    }

    /// The name of a group that is mostly of one kind, or another name.
    pub fn group_name_of(&mut self, kind: usize) -> String {
        if self.chance(75) { self.groups[kind].id.clone() } else { self.group_name() }
    }

    pub fn group_name(&mut self) -> String {
        match self.random.u32(..40) {
            0 => String::new(),
            1 => format!("{}gone", self.prefix),
            2 => format!("{}ü", self.prefix),
            _ => {
                let at = self.random.usize(..ALTERED_GROUP);
                self.groups[at].id.clone()
            }
        }
    }

    /// A member id that a client generates.
    pub fn member_id(&mut self) -> String {
        match self.random.u32(..30) {
            0 => String::new(),
            1 => "x".repeat(36 + self.random.usize(..2)),
            _ => format!("{}m{}", self.prefix, self.random.u32(..4)),
        }
    }

    /// A member of a group, sometimes with a wrong value in one of its fields; or a client that is
    /// no member of the group.
    pub fn member(&mut self, group: usize) -> Member {
        let members = self.groups[group].members.clone();
        if members.is_empty() || self.chance(8) {
            return self.stranger();
        }
        let mut member = self.one(&members);
        match self.random.u32(..24) {
            0 => member.epoch += 1,
            1 => member.epoch -= 1,
            2 => member.epoch = self.one(&[-1, 0, -2, -3, i32::MAX, i32::MIN]),
            3 => member.instance = self.instance(),
            4 => member.id = String::new(),
            _ => {}
        }
        member
    }

    fn stranger(&mut self) -> Member {
        let at = self.group_at();
        let elsewhere = self.groups[at].members.first().map(|member| member.id.clone());
        let id = match self.random.u32(..4) {
            0 => elsewhere.unwrap_or_default(),
            1 => String::new(),
            _ => format!("{}m{}", self.prefix, self.random.u32(..4)),
        };
        let epoch = self.one(&[-1, 0, 1, 2, 5, -2, i32::MAX]);
        Member { id, instance: self.instance(), epoch, ..Member::default() }
    }

    pub fn instance(&mut self) -> Option<String> {
        match self.random.u32(..10) {
            0 => Some(String::new()),
            1..=3 => Some(format!("i{}", self.random.u32(..3))),
            _ => None,
        }
    }

    pub fn timeout(&mut self) -> i32 {
        match self.random.u32(..20) {
            0 => self.one(&[0, -1, i32::MIN]),
            1 => i32::MAX,
            _ => 10_000,
        }
    }

    pub fn offset(&mut self) -> i64 {
        match self.random.u32(..20) {
            0 => self.one(&[-1, -2, -3, i64::MIN]),
            1 => self.one(&[i64::MAX, i64::MAX - 1, 1 << 40]),
            _ => self.random.i64(0..12),
        }
    }

    /// A short text. Sometimes it is missing or long.
    pub fn text(&mut self, longest: usize) -> Option<Str<'static>> {
        match self.random.u32(..12) {
            0 => None,
            1 => Some("".into()),
            2 => Some("x".repeat(longest + self.random.usize(0..2)).into()),
            3 => Some("grüße".into()),
            _ => Some("text".into()),
        }
    }
}

/// The prefix of all names of all histories.
pub const PREFIX: &str = "diff";

/// The prefix of the history to which a name belongs.
pub fn owner(name: &str) -> Option<&str> {
    let rest = name.strip_prefix(PREFIX)?;
    let digits = rest.find(|c: char| !c.is_ascii_digit() && c != 'x')?;
    (digits > 0 && rest[digits..].starts_with('-')).then(|| &name[..PREFIX.len() + digits + 1])
}
