//! A group as operators see it, in parts: its members with their assignments, and its commits.

use crate::text::Text;
use alloc::vec::Vec;
use muster_codec::Uuid;

/// Limits of one answer: the members, and the partitions that are listed for one member. No more
/// members are added when `PARTITIONS_MAX` partitions are listed.
const MEMBERS_MAX: usize = 100;
const PARTITIONS_OF_MEMBER_MAX: usize = 500;
const PARTITIONS_MAX: usize = 4_000;

/// Limits of text, whose length clients choose. At the first, no more members are added. At the
/// second, no more topics are added to a member's subscription, or to one of its assignments.
const TEXT_BYTES_MAX: usize = 128 << 10;
const TEXT_BYTES_OF_LIST_MAX: usize = 16 << 10;

/// The most topics of a member's subscription that are listed.
const TOPICS_MAX: usize = 100;

/// Which part of a group is requested.
#[derive(Debug, Clone)]
pub struct GroupAsked {
    pub group_id: Text,
    /// The index of the first member to show.
    pub members_from: usize,
    /// Commits after this partition are shown; None for all.
    pub commits_after: Option<(Text, i32)>,
}

/// A part of a group, as an operator sees it.
#[derive(Debug, Clone, Default)]
pub struct GroupView {
    /// The group's protocol; None if there are offsets without a group.
    pub kind: Option<&'static str>,
    pub state: &'static str,
    pub protocol_type: Option<Text>,
    /// The protocol that the members of a classic group elected.
    pub protocol: Option<Text>,
    /// The generation or the group epoch. None if the group is unloaded, and its records are too
    /// long to be decoded for a view.
    pub epoch: Option<i32>,
    /// The epoch of the target assignment; None in a classic group.
    pub target_epoch: Option<i32>,
    pub members: usize,
    pub shown: Vec<MemberView>,
    /// The index of the next member, if there are more.
    pub next_member: Option<usize>,
    pub offsets: usize,
    pub commits: Vec<CommitView>,
    pub has_more_commits: bool,
    /// Whether the commits are left out because they are too many, or damaged.
    pub hides_commits: bool,
}

/// A member of a group.
#[derive(Debug, Clone)]
pub struct MemberView {
    pub id: Text,
    pub instance_id: Option<Text>,
    pub client_id: Text,
    pub client_host: Text,
    /// The member epoch; None in a classic group, whose members share the generation.
    pub epoch: Option<i32>,
    pub state: &'static str,
    /// The time in milliseconds since the member's session last began, usually at a heartbeat.
    pub silent_ms: i64,
    /// The first topics of the member's subscription.
    pub topics: Vec<Text>,
    pub expression: Option<Text>,
    /// The member's current partitions, and its target partitions; None if they are not known.
    pub assigned: Option<Assigned>,
    pub target: Option<Assigned>,
}

/// Partitions that are assigned to a member.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assigned {
    /// The number of all assigned partitions.
    pub partitions: usize,
    /// The first assigned partitions, up to a limit.
    pub first: Vec<(AssignedTo, Vec<i32>)>,
    /// The bytes of the texts in `first`.
    text_bytes: usize,
}

/// The topic of assigned partitions, or the subtopology and role of assigned tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AssignedTo {
    Topic(Text),
    TopicId(Uuid),
    /// The role of the tasks, and their subtopology.
    Tasks(&'static str, Text),
}

/// A committed offset, as an operator sees it.
#[derive(Debug, Clone)]
pub struct CommitView {
    pub topic: Text,
    pub partition: i32,
    pub offset: i64,
    /// The time of the commit, in milliseconds since 1970.
    pub at: i64,
    pub metadata: Text,
}

/// Collects members up to the limits of an answer.
#[derive(Debug, Default)]
pub(crate) struct MembersPage {
    members: Vec<MemberView>,
    partitions: usize,
    text_bytes: usize,
    /// The index of the first member that did not fit.
    next: Option<usize>,
}

impl MembersPage {
    /// Whether the page is full. If so, the next answer continues with the member at this index.
    pub(crate) fn is_full(&mut self, place: usize) -> bool {
        let is_full = self.members.len() >= MEMBERS_MAX
            || self.partitions >= PARTITIONS_MAX
            || self.text_bytes >= TEXT_BYTES_MAX;
        self.next = is_full.then_some(place);
        is_full
    }

    /// The members, and the index of the next member if there are more.
    pub(crate) fn into_parts(self) -> (Vec<MemberView>, Option<usize>) {
        (self.members, self.next)
    }

    pub(crate) fn add(&mut self, member: MemberView) {
        let listed = |it: &Assigned| it.first.iter().map(|(_, list)| list.len()).sum::<usize>();
        let both = member.assigned.iter().chain(&member.target);
        self.partitions += both.map(listed).sum::<usize>();
        self.text_bytes += member.text_bytes();
        self.members.push(member);
    }
}

impl MemberView {
    fn text_bytes(&self) -> usize {
        let Self { id, instance_id, client_id, client_host, topics, expression, .. } = self;
        let always = [id, client_id, client_host].into_iter();
        let texts = always.chain(instance_id).chain(expression).chain(topics);
        let assigned = self.assigned.iter().chain(&self.target).map(|it| it.text_bytes);
        texts.map(|text| text.len()).chain(assigned).sum()
    }
}

/// The first topics of a member's subscription, up to the limits.
pub(crate) fn first_topics<'t>(topics: impl Iterator<Item = &'t Text>) -> Vec<Text> {
    let mut room = TEXT_BYTES_OF_LIST_MAX;
    let fits = |topic: &&Text| match room.checked_sub(topic.len()) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    };
    topics.take(TOPICS_MAX).take_while(fits).cloned().collect()
}

impl Assigned {
    /// Adds partitions. Only the first ones are listed.
    pub(crate) fn add(&mut self, to: AssignedTo, partitions: impl ExactSizeIterator<Item = i32>) {
        // The list is filled in order, up to its limit.
        let room = PARTITIONS_OF_MEMBER_MAX.saturating_sub(self.partitions);
        self.partitions += partitions.len();
        if room > 0 && partitions.len() > 0 && self.text_bytes < TEXT_BYTES_OF_LIST_MAX {
            self.text_bytes += to.text_bytes();
            self.first.push((to, partitions.take(room).collect()));
        }
    }
}

impl AssignedTo {
    fn text_bytes(&self) -> usize {
        match self {
            Self::Topic(name) | Self::Tasks(_, name) => name.len(),
            Self::TopicId(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use alloc::vec;
    use std::time::Instant;

    fn member(id: &str) -> MemberView {
        MemberView {
            id: Text::from(id),
            instance_id: None,
            client_id: Text::from(""),
            client_host: Text::from(""),
            epoch: None,
            state: "Stable",
            silent_ms: 0,
            topics: Vec::new(),
            expression: None,
            assigned: None,
            target: None,
        }
    }

    #[test]
    fn a_page_of_members_ends_after_the_bytes_of_their_texts() {
        let (short, long) = (member("m"), member(&"m".repeat(32 << 10)));
        let shown = |member: &MemberView| {
            let mut page = MembersPage::default();
            while !page.is_full(page.members.len()) {
                page.add(member.clone());
            }
            page.into_parts().0.len()
        };
        assert_eq!((shown(&short), shown(&long)), (MEMBERS_MAX, 4));
        let mut topics = Assigned::default();
        let name = Text::from("t".repeat(32 << 10));
        topics.add(AssignedTo::Topic(name.clone()), [1, 2].into_iter());
        topics.add(AssignedTo::Topic(name.clone()), [3].into_iter());
        let of_assignment = MemberView { assigned: Some(topics.clone()), ..short.clone() };
        let first = vec![(AssignedTo::Topic(name.clone()), vec![1, 2])];
        assert_eq!((topics.partitions, topics.first), (3, first), "the first one, however long");
        assert_eq!(shown(&of_assignment), 4);
        let half = Text::from("t".repeat(TEXT_BYTES_OF_LIST_MAX / 2));
        assert_eq!(first_topics([&half, &half, &half].into_iter()).len(), 2);
        assert_eq!(first_topics([&name].into_iter()).len(), 0);
    }

    #[test]
    fn the_first_partitions_are_listed_and_all_are_counted() {
        let mut assigned = Assigned::default();
        let to = || AssignedTo::TopicId(Uuid::ZERO);
        assigned.add(to(), 0..PARTITIONS_OF_MEMBER_MAX as i32 - 1);
        assigned.add(to(), 0..5);
        assigned.add(to(), 0..5);
        let listed: Vec<usize> = assigned.first.iter().map(|(_, list)| list.len()).collect();
        assert_eq!(listed, [PARTITIONS_OF_MEMBER_MAX - 1, 1]);
        assert_eq!(assigned.partitions, PARTITIONS_OF_MEMBER_MAX + 9);
    }

    /// `add` must not sum the list. If it did, calls with a full list would take a hundred times as
    /// long.
    #[test]
    fn a_key_costs_the_same_however_many_are_listed() {
        let (mut none, mut full) = (Assigned::default(), Assigned::default());
        let add = |to: &mut Assigned, partitions: i32| {
            (0..1_000).for_each(|_| to.add(AssignedTo::TopicId(Uuid::ZERO), 0..partitions));
        };
        add(&mut full, 1);
        // Other work on the machine interrupts some of the runs. The shortest run is one that it
        // did not interrupt.
        let least = |assigned: &mut Assigned, partitions| {
            let took = (0..100).map(|_| {
                let began = Instant::now();
                add(assigned, partitions);
                began.elapsed()
            });
            took.min().unwrap()
        };
        let (unlisted, beside_many) = (least(&mut none, 0), least(&mut full, 1));
        assert_eq!((none.first.len(), full.first.len()), (0, PARTITIONS_OF_MEMBER_MAX));
        assert!(beside_many < 10 * unlisted, "{unlisted:?}, {beside_many:?}");
    }
}
