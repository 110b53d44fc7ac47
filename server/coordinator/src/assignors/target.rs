//! The target assignment of one group, and what it is computed from: compact, and changed in place.

use super::order::VisitOrder;
use super::owners::Owners;
use super::{MemberIndex, NOBODY, TopicIndex, TopicPartition};
use crate::java_order::hash_code;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::mem;
use hashbrown::HashMap;
use muster_codec::Uuid;

/// Of a topic with more partitions than this, only the first are assigned. Bounds what a number in
/// a record can make us reserve.
pub const PARTITIONS_MAX: u32 = 1 << 20;

/// Who may get what, and who has been promised what.
#[derive(Debug, Default)]
pub struct TargetAssignment {
    topics: Vec<Topic>,
    topics_by_id: HashMap<Uuid, TopicIndex>,
    topics_unused: Vec<TopicIndex>,
    /// Became unused since the last computation began. One under way may still name them, so they
    /// are not given to other topics.
    topics_forgotten: Vec<TopicIndex>,
    members: Vec<Option<Member>>,
    subscriptions: Vec<Subscription>,
    subscriptions_by_topics: HashMap<Arc<[TopicIndex]>, usize>,
    subscriptions_unused: Vec<usize>,
    visits: VisitOrder,
    by_name: BTreeMap<Name, MemberIndex>,
    joins: u64,
}

#[derive(Debug, Default)]
pub(super) struct Topic {
    pub(super) id: Uuid,
    /// The Java hash code of its name.
    pub(super) name_hash: u32,
    /// How many partitions there are.
    pub(super) count: u32,
    pub(super) owners: Owners,
    /// How many subscriptions name it.
    subscriptions: u32,
    /// How often it stands in a target.
    promised: usize,
}

#[derive(Debug)]
pub(super) struct Member {
    hash: u32,
    /// The how-manieth that ever joined, under this id.
    joined: u64,
    /// The same under the first id that it had: tells it from an earlier member with its index.
    pub(super) since: u64,
    name: Name,
    pub(super) subscription: usize,
    /// Ascending. None until the first record of its target assignment.
    pub(super) target: Option<Vec<TopicPartition>>,
}

/// A set of topics that at least one member subscribes to.
#[derive(Debug)]
pub(super) struct Subscription {
    /// Ascending.
    pub(super) topics: Arc<[TopicIndex]>,
    pub(super) members: u32,
}

/// By what `range` orders members: static ones by their instance id, then the others by member id
/// (Kafka: `RangeAssignor.sortMemberIds`).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Name {
    is_dynamic: bool,
    text: Arc<str>,
    member: MemberIndex,
}

impl TargetAssignment {
    /// The index for a topic, a new one if it has none. It holds as long as a member subscribes to
    /// the topic or owns a part of it; one that was never used holds too.
    pub fn topic(&mut self, id: Uuid) -> TopicIndex {
        if let Some(topic) = self.topics_by_id.get(&id) {
            return *topic;
        }
        let topic = self.topics_unused.pop().unwrap_or_else(|| {
            self.topics.push(Topic::default());
            self.topics.len() as TopicIndex - 1
        });
        self.topics[topic as usize] = Topic { id, ..Topic::default() };
        self.topics_by_id.insert(id, topic);
        topic
    }

    /// Says what a topic is called: where Kafka finds two topics in one bucket of a hash table,
    /// their names decide which comes first.
    ///
    /// # Panics
    /// If the index holds no topic.
    pub fn set_name(&mut self, topic: TopicIndex, name: &str) {
        self.topics[topic as usize].name_hash = hash_code(name);
    }

    /// The index of a topic that has one.
    pub fn find_topic(&self, id: Uuid) -> Option<TopicIndex> {
        self.topics_by_id.get(&id).copied()
    }

    /// The id behind an index.
    ///
    /// # Panics
    /// If [`Self::topic`] never gave it.
    pub fn topic_id(&self, topic: TopicIndex) -> Uuid {
        self.topics[topic as usize].id
    }

    /// A topic has so many partitions now; none, if it was deleted.
    ///
    /// # Panics
    /// If the index holds no topic.
    pub fn set_partitions(&mut self, topic: TopicIndex, count: u32) {
        self.topics[topic as usize].count = count.min(PARTITIONS_MAX);
    }

    /// A member is there, and subscribes to nothing yet. One that is there already keeps all that
    /// it has: so a static member that came back under a new id takes the place of the old one.
    pub fn join(&mut self, member: MemberIndex, id: &str, instance_id: Option<&str>) {
        let name = Name::new(member, id, instance_id);
        let hash = hash_code(id);
        let known = self.member(member).map(|known| (known.hash, known.name == name));
        if known == Some((hash, true)) {
            return;
        }
        self.joins += 1;
        let joined = self.joins;
        let (since, subscription, target) = match self.take(member) {
            Some(known) => (known.since, known.subscription, known.target),
            None => (joined, self.enter_subscription(&[]), None),
        };
        self.visits.insert(member, hash, joined);
        self.by_name.insert(name.clone(), member);
        if self.members.len() <= member as usize {
            self.members.resize_with(member as usize + 1, || None);
        }
        self.members[member as usize] =
            Some(Member { hash, joined, since, name, subscription, target });
    }

    /// A member subscribes to these topics and no others: those that exist, of its names and its
    /// regular expression. Nothing happens if there is no such member.
    ///
    /// # Panics
    /// If an index holds no topic.
    pub fn subscribe(&mut self, member: MemberIndex, topics: &[TopicIndex]) {
        let Some(before) = self.subscription_of(member) else { return };
        let mut topics = topics.to_vec();
        topics.sort_unstable();
        topics.dedup();
        let after = self.enter_subscription(&topics);
        if let Some(Some(found)) = self.members.get_mut(member as usize) {
            found.subscription = after;
        }
        self.leave_subscription(before);
    }

    /// A member is gone, and what it was promised is free.
    pub fn leave(&mut self, member: MemberIndex) {
        let Some(gone) = self.take(member) else { return };
        self.release(member, &gone.target.unwrap_or_default(), &[]);
        self.leave_subscription(gone.subscription);
    }

    /// A member takes the place of another, under a new id or once more under the same, and is
    /// promised what that was. The other is gone. Nothing happens if it is not there.
    pub fn replace(
        &mut self,
        former: MemberIndex,
        member: MemberIndex,
        id: &str,
        instance_id: Option<&str>,
    ) {
        let Some(gone) = self.take(former) else { return };
        let promised = gone.target.unwrap_or_default();
        self.join(member, id, instance_id);
        // Before the other's promises end: a topic that nobody names is forgotten.
        self.set(member, promised.clone());
        let kept = if member == former { &promised[..] } else { &[] };
        self.release(former, &promised, kept);
        self.leave_subscription(gone.subscription);
    }

    /// A record says that these partitions are the target of a member. Nothing happens if there is
    /// no such member.
    ///
    /// # Panics
    /// If an index holds no topic.
    pub fn set(&mut self, member: MemberIndex, mut partitions: Vec<TopicPartition>) {
        let Some(Some(found)) = self.members.get_mut(member as usize) else { return };
        partitions.retain(|at| at.partition < PARTITIONS_MAX);
        partitions.sort_unstable();
        partitions.dedup();
        let before = found.target.take().unwrap_or_default();
        for at in &partitions {
            let topic = &mut self.topics[at.topic as usize];
            topic.promised += 1;
            topic.owners.give(at.partition, member, topic.promised);
        }
        self.release(member, &before, &partitions);
        if let Some(Some(found)) = self.members.get_mut(member as usize) {
            found.target = Some(partitions);
        }
    }

    /// The target of a member, ascending; empty also if there is no such member.
    pub fn of(&self, member: MemberIndex) -> &[TopicPartition] {
        self.member(member).and_then(|member| member.target.as_deref()).unwrap_or_default()
    }

    /// How many partitions are promised, all members together.
    pub fn promised(&self) -> usize {
        self.topics.iter().map(|topic| topic.promised).sum()
    }

    /// Whose target a partition is in.
    pub fn owner(&self, at: TopicPartition) -> Option<MemberIndex> {
        let owner = self.topics.get(at.topic as usize)?.owners.get(at.partition);
        (owner != NOBODY).then_some(owner)
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(super) fn member(&self, member: MemberIndex) -> Option<&Member> {
        self.members.get(member as usize)?.as_ref()
    }

    /// One more than the highest index of a member.
    pub(super) fn members_end(&self) -> usize {
        self.members.len()
    }

    pub(super) fn topic_at(&self, topic: TopicIndex) -> &Topic {
        &self.topics[topic as usize]
    }

    pub(super) fn topics_end(&self) -> usize {
        self.topics.len()
    }

    /// What a member subscribes to, as an index that members with the same topics share.
    pub(super) fn subscription_of(&self, member: MemberIndex) -> Option<usize> {
        Some(self.member(member)?.subscription)
    }

    pub(super) fn subscriptions(&self) -> &[Subscription] {
        &self.subscriptions
    }

    /// A computation begins: what only the one before could name is free now.
    pub(super) fn begin(&mut self) {
        self.topics_unused.append(&mut self.topics_forgotten);
    }

    /// The members as `uniform` visits them.
    pub(super) fn by_visit(&mut self, joining: Option<MemberIndex>) -> Vec<MemberIndex> {
        self.visits.look(joining)
    }

    /// Whether a member that is there has other partitions than these for its target, or none yet.
    pub(super) fn differs(&self, member: MemberIndex, partitions: &[TopicPartition]) -> bool {
        self.member(member)
            .is_some_and(|member| member.target.as_deref().is_none_or(|had| had != partitions))
    }

    /// How many ever joined. Who joins later has a higher number.
    pub(super) fn joins(&self) -> u64 {
        self.joins
    }

    /// The members as `range` orders them.
    pub(super) fn by_name(&self) -> impl Iterator<Item = MemberIndex> {
        self.by_name.values().copied()
    }

    fn take(&mut self, member: MemberIndex) -> Option<Member> {
        let gone = self.members.get_mut(member as usize)?.take()?;
        self.visits.remove(member, gone.hash, gone.joined);
        self.by_name.remove(&gone.name);
        Some(gone)
    }

    /// Takes from a member what it had, but for what it has again.
    fn release(&mut self, member: MemberIndex, had: &[TopicPartition], has: &[TopicPartition]) {
        for at in had {
            let topic = &mut self.topics[at.topic as usize];
            topic.promised -= 1;
            if has.binary_search(at).is_err() {
                topic.owners.take_from(at.partition, member);
                self.forget_if_unused(at.topic);
            }
        }
    }

    fn enter_subscription(&mut self, topics: &[TopicIndex]) -> usize {
        if let Some(known) = self.subscriptions_by_topics.get(topics) {
            self.subscriptions[*known].members += 1;
            return *known;
        }
        for topic in topics {
            self.topics[*topic as usize].subscriptions += 1;
        }
        let topics: Arc<[TopicIndex]> = topics.into();
        let new = Subscription { topics: topics.clone(), members: 1 };
        let index = self.subscriptions_unused.pop().unwrap_or(self.subscriptions.len());
        if index == self.subscriptions.len() {
            self.subscriptions.push(new);
        } else {
            self.subscriptions[index] = new;
        }
        self.subscriptions_by_topics.insert(topics, index);
        index
    }

    fn leave_subscription(&mut self, index: usize) {
        let subscription = &mut self.subscriptions[index];
        subscription.members -= 1;
        if subscription.members > 0 {
            return;
        }
        let topics = mem::take(&mut subscription.topics);
        self.subscriptions_by_topics.remove(&topics);
        self.subscriptions_unused.push(index);
        for topic in topics.iter() {
            self.topics[*topic as usize].subscriptions -= 1;
            self.forget_if_unused(*topic);
        }
    }

    fn forget_if_unused(&mut self, topic: TopicIndex) {
        let unused = &mut self.topics[topic as usize];
        if unused.subscriptions == 0
            && unused.promised == 0
            && self.topics_by_id.remove(&unused.id).is_some()
        {
            self.topics_forgotten.push(topic);
        }
    }
}

impl Name {
    fn new(member: MemberIndex, id: &str, instance_id: Option<&str>) -> Self {
        let is_dynamic = instance_id.is_none();
        Self { is_dynamic, text: instance_id.unwrap_or(id).into(), member }
    }
}

impl Ord for Name {
    /// Java compares strings by UTF-16 code unit.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_text = || self.text.encode_utf16().cmp(other.text.encode_utf16());
        let by_index = || self.member.cmp(&other.member);
        self.is_dynamic.cmp(&other.is_dynamic).then_with(by_text).then_with(by_index)
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
