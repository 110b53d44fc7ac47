//! A group as an operator sees it: its members with what they are assigned, and its commits, a part
//! at a time.

use crate::text::Text;
use alloc::vec::Vec;
use muster_codec::Uuid;

/// The most members of an answer, the most partitions that are listed of one of them, and those of
/// all after which no further member is added.
const MEMBERS_MAX: usize = 100;
const PARTITIONS_OF_MEMBER_MAX: usize = 500;
const PARTITIONS_MAX: usize = 4_000;

/// Which part of which group is wanted.
#[derive(Debug, Clone)]
pub struct GroupAsked {
    pub group_id: Text,
    /// The place of the first member.
    pub members_from: usize,
    /// Commits after this partition; None for all.
    pub commits_after: Option<(Text, i32)>,
}

/// A group.
#[derive(Debug, Clone, Default)]
pub struct GroupView {
    /// The name of its protocol; None for offsets without a group.
    pub kind: Option<&'static str>,
    pub state: &'static str,
    pub protocol_type: Option<Text>,
    /// The protocol that the members of a classic group elected.
    pub protocol: Option<Text>,
    /// The generation or the group epoch; None if it was not looked at since the start, and its
    /// records are long.
    pub epoch: Option<i32>,
    /// The epoch of the target assignment, for the newer kinds.
    pub target_epoch: Option<i32>,
    pub members: usize,
    pub shown: Vec<MemberView>,
    /// The place of the next member, if there are more.
    pub next_member: Option<usize>,
    pub offsets: usize,
    pub commits: Vec<CommitView>,
    pub has_more_commits: bool,
    /// Whether the commits are too many to be shown, or damaged.
    pub hides_commits: bool,
}

/// A member of a group.
#[derive(Debug, Clone)]
pub struct MemberView {
    pub id: Text,
    pub instance_id: Option<Text>,
    pub client_id: Text,
    pub client_host: Text,
    /// None for a classic group, whose members have the group's generation.
    pub epoch: Option<i32>,
    pub state: &'static str,
    /// The time since its last request.
    pub silent_ms: i64,
    /// The first names of topics in its subscription, and its regular expression.
    pub topics: Vec<Text>,
    pub expression: Option<Text>,
    /// The partitions that it has, and those that it is to have; None where that is not known.
    pub assigned: Option<Assigned>,
    pub target: Option<Assigned>,
}

/// Partitions that are assigned to a member.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assigned {
    /// The number of all.
    pub partitions: usize,
    /// The first of them.
    pub first: Vec<(AssignedTo, Vec<i32>)>,
}

/// That of which partitions are assigned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AssignedTo {
    Topic(Text),
    TopicId(Uuid),
    /// Tasks of a subtopology in a role.
    Tasks(&'static str, Text),
}

/// A committed offset.
#[derive(Debug, Clone)]
pub struct CommitView {
    pub topic: Text,
    pub partition: i32,
    pub offset: i64,
    /// Milliseconds since 1970.
    pub at: i64,
    pub metadata: Text,
}

/// Members of a group up to the limits of an answer.
#[derive(Debug, Default)]
pub(crate) struct MembersPage {
    members: Vec<MemberView>,
    partitions: usize,
    /// The place of the first one that did not fit.
    next: Option<usize>,
}

impl MembersPage {
    /// Whether a member at this place is left for the next answer.
    pub(crate) fn is_full(&mut self, place: usize) -> bool {
        let is_full = self.members.len() >= MEMBERS_MAX || self.partitions >= PARTITIONS_MAX;
        self.next = is_full.then_some(place);
        is_full
    }

    /// The members, and the place of the next one if there are more.
    pub(crate) fn into_parts(self) -> (Vec<MemberView>, Option<usize>) {
        (self.members, self.next)
    }

    pub(crate) fn add(&mut self, member: MemberView) {
        let listed = |it: &Assigned| it.first.iter().map(|(_, list)| list.len()).sum::<usize>();
        let both = member.assigned.iter().chain(&member.target);
        self.partitions += both.map(listed).sum::<usize>();
        self.members.push(member);
    }
}

impl Assigned {
    /// Adds partitions, of which the first are listed.
    pub(crate) fn add(&mut self, to: AssignedTo, partitions: impl ExactSizeIterator<Item = i32>) {
        let listed: usize = self.first.iter().map(|(_, list)| list.len()).sum();
        let room = PARTITIONS_OF_MEMBER_MAX.saturating_sub(listed);
        self.partitions += partitions.len();
        if room > 0 && partitions.len() > 0 {
            self.first.push((to, partitions.take(room).collect()));
        }
    }
}
