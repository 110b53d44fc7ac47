//! The target assignment of one group, and the input of its computation, in one compact structure.

use super::order::VisitOrder;
use super::owners::Owners;
use super::{MemberIndex, NO_MEMBER, TopicIndex, TopicPartition};
use crate::java_order::hash_code;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::mem;
use hashbrown::HashMap;
use muster_codec::Uuid;

/// Partitions of a topic from this number on are ignored. This bounds the memory that a partition
/// number in a record can reserve.
pub const PARTITIONS_MAX: u32 = 1 << 20;

/// The subscriptions of a group's members, and their targets.
#[derive(Debug, Default)]
pub struct TargetAssignment {
    topics: Vec<Topic>,
    topics_by_id: HashMap<Uuid, TopicIndex>,
    topics_unused: Vec<TopicIndex>,
    /// Topics that became unused since the last computation began. A computation under way may
    /// still name them, so their indexes are not reused yet.
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
    /// The Java hash code of the topic's name.
    pub(super) name_hash: u32,
    /// The number of its partitions.
    pub(super) count: u32,
    pub(super) owners: Owners,
    /// The number of subscriptions that include the topic.
    subscriptions: u32,
    /// The number of partitions of the topic in all targets together.
    assigned: usize,
}

#[derive(Debug)]
pub(super) struct Member {
    hash: u32,
    /// The sequence number of the join with the current id.
    joined: u64,
    /// The sequence number of the join with the first id. It distinguishes the member from an
    /// earlier member with the same index.
    pub(super) since: u64,
    name: Name,
    pub(super) subscription: usize,
    /// The target, ascending. None before the first record of it.
    pub(super) target: Option<Vec<TopicPartition>>,
}

/// A set of topics to which at least one member subscribes.
#[derive(Debug)]
pub(super) struct Subscription {
    /// The topics, ascending.
    pub(super) topics: Arc<[TopicIndex]>,
    pub(super) members: u32,
}

/// The sort key of members in `range`: static members by instance id, then the others by member id
/// (Kafka: `RangeAssignor.sortMemberIds`).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Name {
    is_dynamic: bool,
    text: Arc<str>,
    member: MemberIndex,
}

impl TargetAssignment {
    /// The index of a topic, which gets a new index if it has none. A new index is valid even
    /// before a subscription or a target uses the topic. After the first use, it is valid as long
    /// as any subscription or target uses the topic.
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

    /// Sets the name of a topic. Names order the topics in one bucket of Kafka's hash tables.
    ///
    /// # Panics
    /// The index holds no topic.
    pub fn set_name(&mut self, topic: TopicIndex, name: &str) {
        self.topics[topic as usize].name_hash = hash_code(name);
    }

    /// The index of a topic, if it has one.
    pub fn find_topic(&self, id: Uuid) -> Option<TopicIndex> {
        self.topics_by_id.get(&id).copied()
    }

    /// The id of a topic.
    ///
    /// # Panics
    /// [`Self::topic`] never returned the index.
    pub fn topic_id(&self, topic: TopicIndex) -> Uuid {
        self.topics[topic as usize].id
    }

    /// Sets the number of a topic's partitions; 0 if the topic was deleted.
    ///
    /// # Panics
    /// The index holds no topic.
    pub fn set_partitions(&mut self, topic: TopicIndex, count: u32) {
        self.topics[topic as usize].count = count.min(PARTITIONS_MAX);
    }

    /// Adds a member without a subscription. A member that exists keeps its state; so a static
    /// member that returns with a new id takes the place of the old member.
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

    /// Replaces a member's subscription by `topics`: the existing topics that its names and its
    /// regular expression select. Does nothing if there is no such member.
    ///
    /// # Panics
    /// An index holds no topic.
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

    /// Removes a member. The partitions of its target become free.
    pub fn leave(&mut self, member: MemberIndex) {
        let Some(gone) = self.take(member) else { return };
        self.release(member, &gone.target.unwrap_or_default(), &[]);
        self.leave_subscription(gone.subscription);
    }

    /// Replaces a member by another member, or by itself under the same or a new id. The new member
    /// takes over the target. Does nothing if `former` does not exist.
    pub fn replace(
        &mut self,
        former: MemberIndex,
        member: MemberIndex,
        id: &str,
        instance_id: Option<&str>,
    ) {
        let Some(gone) = self.take(former) else { return };
        let target = gone.target.unwrap_or_default();
        self.join(member, id, instance_id);
        // The new target is set before the old target is released: a topic that no subscription or
        // target uses, even for a moment, is forgotten.
        self.set(member, target.clone());
        let kept = if member == former { &target[..] } else { &[] };
        self.release(former, &target, kept);
        self.leave_subscription(gone.subscription);
    }

    /// Applies the record of a member's target. Does nothing if there is no such member.
    ///
    /// # Panics
    /// An index holds no topic.
    pub fn set(&mut self, member: MemberIndex, mut partitions: Vec<TopicPartition>) {
        let Some(Some(found)) = self.members.get_mut(member as usize) else { return };
        partitions.retain(|at| at.partition < PARTITIONS_MAX);
        partitions.sort_unstable();
        partitions.dedup();
        let before = found.target.take().unwrap_or_default();
        for at in &partitions {
            let topic = &mut self.topics[at.topic as usize];
            topic.assigned += 1;
            topic.owners.give(at.partition, member, topic.assigned);
        }
        self.release(member, &before, &partitions);
        if let Some(Some(found)) = self.members.get_mut(member as usize) {
            found.target = Some(partitions);
        }
    }

    /// The target of a member, ascending; empty if there is no such member.
    pub fn of(&self, member: MemberIndex) -> &[TopicPartition] {
        self.member(member).and_then(|member| member.target.as_deref()).unwrap_or_default()
    }

    /// The number of partitions in the targets of all members.
    pub fn assigned(&self) -> usize {
        self.topics.iter().map(|topic| topic.assigned).sum()
    }

    /// The member whose target contains a partition.
    pub fn owner(&self, at: TopicPartition) -> Option<MemberIndex> {
        let owner = self.topics.get(at.topic as usize)?.owners.get(at.partition);
        (owner != NO_MEMBER).then_some(owner)
    }

    /// The number of members.
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

    /// The index of a member's subscription. Members with the same topics share it.
    pub(super) fn subscription_of(&self, member: MemberIndex) -> Option<usize> {
        Some(self.member(member)?.subscription)
    }

    pub(super) fn subscriptions(&self) -> &[Subscription] {
        &self.subscriptions
    }

    /// Called when a computation starts. Frees the indexes of forgotten topics: only the previous
    /// computation could still refer to them.
    pub(super) fn begin(&mut self) {
        self.topics_unused.append(&mut self.topics_forgotten);
    }

    /// The members in the visiting order of `uniform`.
    pub(super) fn by_visit(&mut self, joining: Option<MemberIndex>) -> Vec<MemberIndex> {
        self.visits.members(joining)
    }

    /// Whether an existing member has no target yet, or a target other than these partitions.
    pub(super) fn differs(&self, member: MemberIndex, partitions: &[TopicPartition]) -> bool {
        self.member(member)
            .is_some_and(|member| member.target.as_deref().is_none_or(|had| had != partitions))
    }

    /// The number of joins so far. It is less than the number of any later join.
    pub(super) fn joins(&self) -> u64 {
        self.joins
    }

    /// The members in the order of `range`.
    pub(super) fn by_name(&self) -> impl Iterator<Item = MemberIndex> {
        self.by_name.values().copied()
    }

    fn take(&mut self, member: MemberIndex) -> Option<Member> {
        let gone = self.members.get_mut(member as usize)?.take()?;
        self.visits.remove(member, gone.hash, gone.joined);
        self.by_name.remove(&gone.name);
        Some(gone)
    }

    /// Takes the partitions in `had` from a member, except the partitions in `has`.
    fn release(&mut self, member: MemberIndex, had: &[TopicPartition], has: &[TopicPartition]) {
        for at in had {
            let topic = &mut self.topics[at.topic as usize];
            topic.assigned -= 1;
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
            && unused.assigned == 0
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
    /// Compares like Java: strings by UTF-16 code unit.
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
