//! The view of one group for operators. It loads and changes nothing.

use super::Coordinator;
use crate::committed::Committed;
use crate::group::{Entry, Group, Kind};
use crate::groups::Listed;
use crate::limits::SURVEYED_OFFSETS_MAX;
use crate::modern;
use crate::modern::kind::Kind as ModernKind;
use crate::modern::members::Slot;
use crate::modern::owned::{Key, KeyPartitions, Owned};
use crate::offsets::Offsets;
use crate::snapshot::UnloadedGroup;
use crate::streams::TaskKey;
use crate::text::Text;
use crate::timers::Timers;
use crate::view::{
    Assigned, AssignedTo, CommitView, GroupAsked, GroupView, MemberView, MembersPage, first_topics,
};
use alloc::vec::Vec;
use muster_codec::Uuid;

/// The most commits in an answer, and the bytes of texts after which no more commits are added.
const COMMITS_MAX: usize = 1_000;
const COMMITS_BYTES_MAX: usize = 128 << 10;

/// The most bytes of an unloaded group's records that are decoded for the view.
const RECORDS_BYTES_MAX: usize = 64 << 10;

impl Coordinator {
    /// The part of a group for which an operator asked. `now` is the current time. None if the
    /// group does not exist.
    pub fn view(&self, asked: &GroupAsked, now: i64) -> Option<GroupView> {
        match self.groups.listed(&asked.group_id)? {
            Listed::Live(entry) => {
                let mut view = view_of_live(entry, asked, now);
                self.add_commits(&mut view, entry, asked);
                Some(view)
            }
            Listed::Unloaded(group) => Some(self.view_of_unloaded(&group, asked, now)),
        }
    }

    fn view_of_unloaded(
        &self,
        group: &UnloadedGroup<'_>,
        asked: &GroupAsked,
        now: i64,
    ) -> GroupView {
        let entry = &group.entry;
        let is_short = entry.group.len as usize <= RECORDS_BYTES_MAX && entry.kind != Kind::None;
        let decode = || self.groups.unloaded.read_group(group, &mut Timers::default()).ok();
        let decoded = is_short.then(decode).flatten();
        let mut view = decoded.map_or_else(
            || GroupView { kind: entry.kind.type_name(), state: "Empty", ..GroupView::default() },
            |decoded| view_of_live(&decoded, asked, now),
        );
        self.add_unloaded_commits(&mut view, group, asked);
        view
    }

    fn add_commits(&self, view: &mut GroupView, entry: &Entry, asked: &GroupAsked) {
        if !entry.offsets.is_unloaded() {
            return add_commits(view, &entry.offsets, asked);
        }
        if let Some(group) = self.groups.unloaded.with_offsets(&entry.id) {
            self.add_unloaded_commits(view, &group, asked);
        }
    }

    fn add_unloaded_commits(
        &self,
        view: &mut GroupView,
        group: &UnloadedGroup<'_>,
        asked: &GroupAsked,
    ) {
        view.offsets = group.entry.offsets_len as usize;
        view.hides_commits = view.offsets > SURVEYED_OFFSETS_MAX;
        if view.hides_commits {
            return;
        }
        match self.groups.unloaded.read_offsets(group) {
            Ok(offsets) => add_commits(view, &offsets, asked),
            Err(_) => view.hides_commits = true,
        }
    }
}

fn add_commits(view: &mut GroupView, offsets: &Offsets, asked: &GroupAsked) {
    view.offsets = offsets.len();
    view.hides_commits = view.offsets > SURVEYED_OFFSETS_MAX;
    if view.hides_commits {
        return;
    }
    let mut bytes = 0;
    for next in offsets.after(asked.commits_after.as_ref()).map(commit) {
        view.has_more_commits = view.commits.len() >= COMMITS_MAX || bytes >= COMMITS_BYTES_MAX;
        if view.has_more_commits {
            return;
        }
        bytes += next.topic.len() + next.metadata.len();
        view.commits.push(next);
    }
}

fn commit((topic, partition, committed): (&Text, i32, &Committed)) -> CommitView {
    CommitView {
        topic: topic.clone(),
        partition,
        offset: committed.offset,
        at: committed.commit_timestamp,
        metadata: Text::from(&*committed.metadata),
    }
}

fn view_of_live(entry: &Entry, asked: &GroupAsked, now: i64) -> GroupView {
    let Some(group) = &entry.group else {
        return GroupView { state: "Empty", ..GroupView::default() };
    };
    let mut view = GroupView {
        kind: group.kind().type_name(),
        state: group.state_name(),
        protocol_type: Some(Text::from(group.protocol_type())),
        epoch: Some(group.epoch()),
        members: group.members(),
        ..GroupView::default()
    };
    let mut page = MembersPage::default();
    let from = asked.members_from;
    match group {
        Group::Classic(group) => {
            view.protocol = group.protocol().cloned();
            group.view_members(from, now, &mut page);
        }
        Group::Consumer(group) => {
            view.target_epoch = Some(group.target_epoch());
            view_members(group, from, now, &mut page, |member, it| {
                member.instance_id = it.instance_id.clone();
                (member.client_id, member.client_host) =
                    (it.client_id.clone(), it.client_host.clone());
                member.topics = first_topics(it.topics.iter());
                member.expression = it.regex().cloned();
            });
        }
        Group::Share(group) => {
            view.target_epoch = Some(group.target_epoch());
            view_members(group, from, now, &mut page, |member, it| {
                (member.client_id, member.client_host) =
                    (it.client_id.clone(), it.client_host.clone());
                member.topics = first_topics(it.topics.iter());
            });
        }
        Group::Streams(group) => {
            view.target_epoch = Some(group.target_epoch());
            view_members(group, from, now, &mut page, |member, it| {
                member.instance_id = it.instance_id.clone();
                (member.client_id, member.client_host) =
                    (it.client_id.clone(), it.client_host.clone());
            });
        }
    }
    (view.shown, view.next_member) = page.into_parts();
    view
}

/// A topic, or a subtopology and role, as it is shown.
trait ShownKey: Key {
    fn shown(&self) -> AssignedTo;
}

impl ShownKey for Uuid {
    fn shown(&self) -> AssignedTo {
        AssignedTo::TopicId(*self)
    }
}

impl ShownKey for TaskKey {
    fn shown(&self) -> AssignedTo {
        AssignedTo::Tasks(self.role_name(), self.subtopology.clone())
    }
}

/// Adds members of a consumer, share or streams group to the page. `profile` sets the fields that
/// only this kind of group has.
fn view_members<K: ModernKind<Key: ShownKey>>(
    group: &modern::Group<K>,
    from: usize,
    now: i64,
    page: &mut MembersPage,
    profile: impl Fn(&mut MemberView, &K::Profile),
) {
    for (place, slot) in group.members.slots_from(from) {
        if page.is_full(place) {
            return;
        }
        let Some(mut member) = view_member(group, place, slot, now) else { continue };
        slot.member.iter().for_each(|it| profile(&mut member, &it.profile));
        page.add(member);
    }
}

fn view_member<K: ModernKind<Key: ShownKey>>(
    group: &modern::Group<K>,
    place: usize,
    slot: &Slot<K>,
    now: i64,
) -> Option<MemberView> {
    let current = &slot.member.as_ref()?.current;
    let mut assigned = owned(&current.assigned);
    for part in current.revoking.by_key() {
        assigned.add(part.key.shown(), part.partitions.iter().map(|it| it.partition));
    }
    let mut target = Assigned::default();
    for KeyPartitions { key, partitions } in group.target_of(place as u32) {
        target.add(key.shown(), partitions.into_iter());
    }
    Some(MemberView {
        id: slot.id.clone(),
        instance_id: None,
        client_id: Text::from(""),
        client_host: Text::from(""),
        epoch: Some(current.epoch),
        state: current.state.name(),
        silent_ms: now.saturating_sub(slot.timers.heard_at).max(0),
        topics: Vec::new(),
        expression: None,
        assigned: Some(assigned),
        target: Some(target),
    })
}

fn owned<K: ShownKey>(partitions: &Owned<K>) -> Assigned {
    let mut assigned = Assigned::default();
    for part in partitions.by_key() {
        assigned.add(part.key.shown(), part.partitions.iter().map(|it| it.partition));
    }
    assigned
}
