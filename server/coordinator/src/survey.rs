//! A survey of all groups of a slot for operators, a page at a time: kind, state, members and
//! committed offsets. Nothing is loaded: unloaded offsets are read in place.

use crate::Coordinator;
use crate::group::{Entry, Group};
use crate::groups::Listed;
use crate::limits::SURVEYED_OFFSETS_MAX;
use crate::offsets::Offsets;
use crate::snapshot::UnloadedGroup;
use alloc::string::String;
use alloc::vec::Vec;

/// A page has a limited number of units. A group costs one unit. A loaded group costs one more for
/// each `OFFSETS_PER_WEIGHT` offsets, which are copied. An unloaded group, whose offsets are read
/// in place, costs `UNLOADED_WEIGHT` units instead of one, and one more for each offset.
const OFFSETS_PER_WEIGHT: usize = 4;
const UNLOADED_WEIGHT: usize = 4;

/// The state of a group without members.
const EMPTY: &str = "Empty";

/// Some groups with their offsets. Names and offsets are in flat lists, so that building a page
/// costs the shard little more than copying them.
#[derive(Debug, Default)]
pub struct GroupsPage {
    /// The id of each group, followed by the names of its topics.
    text: String,
    groups: Vec<GroupRow>,
    topics: Vec<TopicRow>,
    offsets: Vec<(i32, i64)>,
}

#[derive(Debug)]
struct GroupRow {
    id_bytes: usize,
    text_bytes: usize,
    kind: Option<&'static str>,
    state: &'static str,
    members: u32,
    topics: usize,
    offsets: usize,
    has_all: bool,
    exists: bool,
}

#[derive(Debug)]
struct TopicRow {
    name_bytes: usize,
    offsets: usize,
}

/// A group of a page.
#[derive(Debug, Clone, Copy)]
pub struct SurveyedGroup<'p> {
    pub id: &'p str,
    /// The group's protocol; None if there are offsets without a group.
    pub kind: Option<&'static str>,
    pub state: &'static str,
    pub members: u32,
    /// Whether all of the group's offsets are in the page: they are left out if too many or
    /// damaged.
    pub has_offsets: bool,
    /// Whether the group exists. A page of changes also lists groups that were removed.
    pub exists: bool,
    names: &'p str,
    topics: &'p [TopicRow],
    offsets: &'p [(i32, i64)],
}

impl Coordinator {
    /// Adds the groups that follow the id `after` to the page, until the `room` units of the page
    /// are used up. Returns the last id if groups may be left.
    pub fn survey(
        &self,
        after: Option<&str>,
        room: &mut usize,
        page: &mut GroupsPage,
    ) -> Option<String> {
        let mut last = after;
        for group in self.groups.iter_after(after) {
            if *room == 0 {
                return Some(last.unwrap_or_default().into());
            }
            last = Some(group.id());
            let weight = match group {
                Listed::Live(entry) if has_row(entry) => self.survey_live(entry, page),
                Listed::Live(_) => 1,
                Listed::Unloaded(group) => self.survey_unloaded(&group, page),
            };
            *room = room.saturating_sub(weight);
        }
        None
    }

    /// Starts the list of changed groups that [`Self::survey_changes`] reads. Call it before a
    /// survey of all groups.
    pub fn begin_changes(&mut self) {
        self.changes.begin();
    }

    /// Queues groups for [`Self::survey_changes`]: those that have changed since the last call.
    /// Returns false if some changes are not known. Then all groups have to be surveyed.
    pub fn make_changes_due(&mut self) -> bool {
        self.changes.make_due()
    }

    /// Adds queued groups to the page, until its `room` units are used up. A group that no longer
    /// exists is listed as removed. Returns whether further groups are queued.
    pub fn survey_changes(&mut self, room: &mut usize, page: &mut GroupsPage) -> bool {
        while *room > 0 {
            let Some(id) = self.changes.take_due() else { return false };
            let weight = match self.groups.listed(&id) {
                Some(Listed::Live(entry)) if has_row(entry) => self.survey_live(entry, page),
                Some(Listed::Unloaded(group)) => self.survey_unloaded(&group, page),
                Some(Listed::Live(_)) | None => {
                    page.add_gone(&id);
                    1
                }
            };
            *room = room.saturating_sub(weight);
        }
        self.changes.has_due()
    }

    fn survey_live(&self, entry: &Entry, page: &mut GroupsPage) -> usize {
        let group = entry.group.as_ref();
        let kind = group.and_then(|group| group.kind().type_name());
        page.begin(&entry.id, kind, group.map_or(EMPTY, Group::state_name), entry.counted.members);
        if entry.offsets.is_unloaded() {
            let group = self.groups.unloaded.with_offsets(&entry.id);
            return group.map_or(1, |group| self.add_in_place(&group, page));
        }
        page.add_loaded(&entry.offsets);
        1 + entry.offsets.len().min(SURVEYED_OFFSETS_MAX) / OFFSETS_PER_WEIGHT
    }

    fn survey_unloaded(&self, group: &UnloadedGroup<'_>, page: &mut GroupsPage) -> usize {
        page.begin(group.id, group.entry.kind.type_name(), EMPTY, group.entry.members);
        self.add_in_place(group, page)
    }

    /// Adds an unloaded group's offsets without loading them. Returns the units that the group
    /// costs.
    fn add_in_place(&self, group: &UnloadedGroup<'_>, page: &mut GroupsPage) -> usize {
        let count = group.entry.offsets_len as usize;
        if count > SURVEYED_OFFSETS_MAX {
            page.leave_out();
            return UNLOADED_WEIGHT;
        }
        let add = |topic: &str, partition, offset| page.add(topic, partition, offset);
        if self.groups.unloaded.each_offset(group, add).is_err() {
            page.leave_out();
        }
        UNLOADED_WEIGHT + count
    }
}

/// Whether a survey shows the group.
fn has_row(entry: &Entry) -> bool {
    entry.group.is_some() || !entry.offsets.is_empty()
}

impl GroupsPage {
    /// The groups, in the order in which they were added. The topics of a group are not sorted.
    pub fn iter(&self) -> impl Iterator<Item = SurveyedGroup<'_>> {
        let (mut text, mut topics, mut offsets) =
            (&*self.text, &self.topics[..], &self.offsets[..]);
        self.groups.iter().map(move |row| {
            let (own_text, other_text) = text.split_at(row.text_bytes);
            let (own_topics, other_topics) = topics.split_at(row.topics);
            let (own_offsets, other_offsets) = offsets.split_at(row.offsets);
            (text, topics, offsets) = (other_text, other_topics, other_offsets);
            let (id, names) = own_text.split_at(row.id_bytes);
            SurveyedGroup {
                id,
                kind: row.kind,
                state: row.state,
                members: row.members,
                has_offsets: row.has_all,
                exists: row.exists,
                names,
                topics: own_topics,
                offsets: own_offsets,
            }
        })
    }

    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Number of offsets.
    pub fn offsets(&self) -> usize {
        self.offsets.len()
    }

    fn begin(&mut self, id: &str, kind: Option<&'static str>, state: &'static str, members: u32) {
        self.text.push_str(id);
        let (id_bytes, text_bytes, topics, offsets) = (id.len(), id.len(), 0, 0);
        self.groups.push(GroupRow {
            id_bytes,
            text_bytes,
            kind,
            state,
            members,
            topics,
            offsets,
            has_all: true,
            exists: true,
        });
    }

    /// Adds a group that was removed.
    fn add_gone(&mut self, id: &str) {
        self.begin(id, None, EMPTY, 0);
        self.groups.last_mut().into_iter().for_each(|group| group.exists = false);
    }

    /// Copies a group of another page.
    pub fn add_copy(&mut self, group: &SurveyedGroup<'_>) {
        self.begin(group.id, group.kind, group.state, group.members);
        for (topic, offsets) in group.topics() {
            self.begin_topic(topic);
            self.offsets.extend(offsets);
            self.count(offsets.len());
        }
        if let Some(row) = self.groups.last_mut() {
            (row.has_all, row.exists) = (group.has_offsets, group.exists);
        }
    }

    fn add_loaded(&mut self, offsets: &Offsets) {
        if offsets.len() > SURVEYED_OFFSETS_MAX {
            return self.leave_out();
        }
        for (topic, partitions) in offsets.in_any_order() {
            self.begin_topic(topic);
            let before = self.offsets.len();
            self.offsets.extend(partitions.iter().map(|(index, it)| (index, it.offset)));
            self.count(self.offsets.len() - before);
        }
    }

    /// Adds an offset. The offsets of one topic must follow each other.
    fn add(&mut self, topic: &str, partition: i32, offset: i64) {
        if !self.is_of_last_topic(topic) {
            self.begin_topic(topic);
        }
        self.offsets.push((partition, offset));
        self.count(1);
    }

    fn is_of_last_topic(&self, topic: &str) -> bool {
        let has_topics = self.groups.last().is_some_and(|group| group.topics > 0);
        let is_last =
            |last: &TopicRow| last.name_bytes == topic.len() && self.text.ends_with(topic);
        has_topics && self.topics.last().is_some_and(is_last)
    }

    fn begin_topic(&mut self, name: &str) {
        self.text.push_str(name);
        self.topics.push(TopicRow { name_bytes: name.len(), offsets: 0 });
        if let Some(group) = self.groups.last_mut() {
            group.topics += 1;
            group.text_bytes += name.len();
        }
    }

    fn count(&mut self, offsets: usize) {
        self.topics.last_mut().into_iter().for_each(|topic| topic.offsets += offsets);
        self.groups.last_mut().into_iter().for_each(|group| group.offsets += offsets);
    }

    /// Notes that the offsets of the last group are missing or incomplete.
    fn leave_out(&mut self) {
        self.groups.last_mut().into_iter().for_each(|group| group.has_all = false);
    }
}

impl<'p> SurveyedGroup<'p> {
    /// The topics with their partitions and committed offsets.
    pub fn topics(&self) -> impl Iterator<Item = (&'p str, &'p [(i32, i64)])> + use<'p> {
        let (mut names, mut offsets) = (self.names, self.offsets);
        self.topics.iter().map(move |row| {
            let (name, other_names) = names.split_at(row.name_bytes);
            let (own, others) = offsets.split_at(row.offsets);
            (names, offsets) = (other_names, others);
            (name, own)
        })
    }
}
