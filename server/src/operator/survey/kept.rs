//! The groups of the last survey. So the next survey has to ask shards only for groups that have
//! changed since. The groups are kept in the pages in which they came. If a group is in several
//! pages, its entry in the last one counts. If there are too many groups, nothing is kept, and each
//! survey asks for all groups.

use super::Shards;
use crate::inquiry::{About, Finding};
use muster_coordinator::{GroupsPage, SurveyedGroup};
use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

/// The maximum number of groups and offsets to keep, in all pages: about 32 MiB.
const KEPT_MAX: usize = 1 << 20;

/// Entries that were replaced by later ones are removed when they outnumber the others by this
/// much.
const REPLACED_MAX: usize = 1_024;

/// The pages of the last survey.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pages: Vec<(u32, Box<GroupsPage>)>,
    /// The number of groups and offsets in all pages.
    size: usize,
    is_too_large: bool,
}

impl Kept {
    /// Asks all shards for changes since the last survey. None if a shard is late or has no record
    /// of that survey, or if there are too many groups.
    pub(super) fn renew(mut self, shards: &Shards, until: Instant) -> Option<Self> {
        let mut are_known = true;
        let take = |shard, found| match found {
            Finding::Changes(Some((page, next))) => {
                self.add(shard, page);
                next.map(|slot| About::Changes(Some(slot)))
            }
            Finding::Changes(None) => {
                are_known = false;
                None
            }
            Finding::Cluster(_)
            | Finding::Groups(..)
            | Finding::Partitions(..)
            | Finding::Bounds(_)
            | Finding::Records(_)
            | Finding::Group(_)
            | Finding::Reset(_)
            | Finding::Shares(..) => None,
        };
        let have_answered = shards.ask_all(|| About::Changes(None), take, until);
        let is_of_use = have_answered && are_known && !self.is_too_large;
        is_of_use.then(|| self.without_replaced())
    }

    /// The pages, unless they are too large to keep.
    pub(super) fn unless_too_large(self) -> Option<Self> {
        (!self.is_too_large).then_some(self)
    }

    pub(super) fn add(&mut self, shard: u32, page: Box<GroupsPage>) {
        self.size += page.len() + page.offsets();
        self.is_too_large |= self.size > KEPT_MAX;
        if self.is_too_large {
            self.pages.clear();
        } else if !page.is_empty() {
            self.pages.push((shard, page));
        }
    }

    /// Calls `act` with the newest entry of each group that exists.
    pub(super) fn each(&self, mut act: impl FnMut(u32, &SurveyedGroup<'_>)) {
        let mut seen = HashSet::new();
        for (shard, page) in self.pages.iter().rev() {
            let newest = page.iter().filter(|group| seen.insert(group.id));
            newest.filter(|group| group.exists).for_each(|group| act(*shard, &group));
        }
    }

    fn without_replaced(self) -> Self {
        let mut left = 0;
        self.each(|_, _| left += 1);
        let all: usize = self.pages.iter().map(|(_, page)| page.len()).sum();
        if all < 2 * left + REPLACED_MAX {
            return self;
        }
        let mut pages: BTreeMap<u32, Box<GroupsPage>> = BTreeMap::new();
        self.each(|shard, group| pages.entry(shard).or_default().add_copy(group));
        let mut rest = Self::default();
        pages.into_iter().for_each(|(shard, page)| rest.add(shard, page));
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::commit;
    use muster_codec::records::{GroupMetadataKey, GroupRecord};
    use muster_coordinator::Coordinator;

    /// A coordinator that is asked for all groups once, and then for changes.
    struct Asked {
        coordinator: Coordinator,
        kept: Kept,
    }

    impl Asked {
        fn commit(&mut self, group: u64, offset: Option<i64>) {
            self.coordinator.replay(&commit(group, 0, offset), 1);
            if offset.is_none() {
                let key = GroupMetadataKey { group: format!("g{group}").into() };
                self.coordinator.replay(&GroupRecord::GroupMetadata(key, None), 1);
            }
        }

        fn ask(&mut self) {
            assert!(self.coordinator.make_changes_due());
            let mut page = GroupsPage::default();
            while self.coordinator.survey_changes(&mut 3, &mut page) {
                self.kept.add(0, Box::new(std::mem::take(&mut page)));
            }
            self.kept.add(0, Box::new(page));
            self.kept = std::mem::take(&mut self.kept).without_replaced();
        }

        fn found(&self) -> BTreeMap<String, i64> {
            let mut found = BTreeMap::new();
            self.kept.each(|shard, group| {
                let (_, offsets) = group.topics().next().unwrap();
                assert_eq!(found.insert(group.id.to_owned(), offsets[0].1), None);
                assert_eq!(shard, 0);
            });
            found
        }
    }

    fn asked() -> Asked {
        let mut coordinator = Coordinator::new(Default::default());
        assert!(!coordinator.make_changes_due(), "before all were asked for");
        coordinator.begin_changes();
        Asked { coordinator, kept: Kept::default() }
    }

    #[test]
    fn later_pages_replace_groups_and_remove_those_that_are_gone() {
        let mut asked = asked();
        let mut model = BTreeMap::new();
        for round in 0..2_000 {
            let (group, offset) = (round * 7 % 20, (round % 9 != 0).then_some(round as i64));
            asked.commit(group, offset);
            match offset {
                Some(offset) => model.insert(format!("g{group}"), offset),
                None => model.remove(&format!("g{group}")),
            };
            if round % 3 == 0 {
                asked.ask();
                assert_eq!(asked.found(), model);
            }
        }
        let rows: usize = asked.kept.pages.iter().map(|(_, page)| page.len()).sum();
        assert!(rows < REPLACED_MAX + 60, "{rows} groups are kept");
    }

    #[test]
    fn too_many_are_not_kept() {
        let mut asked = asked();
        asked.commit(1, Some(1));
        asked.ask();
        asked.kept.size = KEPT_MAX - 1;
        asked.commit(1, Some(2));
        asked.ask();
        assert!(asked.kept.pages.is_empty() && asked.kept.unless_too_large().is_none());
    }
}
