//! The lag of all groups. The ends of partitions are read before the commits, so the lag is never
//! overstated. It is at least 0. For share groups the leaders of partitions report the lag, because
//! they have the state. A survey has a row for each group. It has a row for a partition only if the
//! partition is among those with the most lag, or if the config names the group. The commits are
//! kept for the next survey ([`Kept`]), which then asks only for groups that have changed.

mod kept;
mod top;

use super::shards::Shards;
use crate::cluster::ClusterImage;
use crate::config::Config;
use crate::inquiry::{About, Finding, ShareStart};
use crate::partitions::{Bounds, PartitionId};
pub(super) use kept::Kept;
use muster_codec::Uuid;
use muster_coordinator::{GroupsPage, SurveyedGroup};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use top::Top;

/// The maximum number of rows for single partitions of groups that the config names.
const CHOSEN_ROWS_MAX: usize = 10_000;

/// The kind of share groups.
pub(super) const SHARE: &str = "share";

/// Which rows for single partitions a survey keeps.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    /// How many partitions get a row, and how many groups the metrics show: those with the most
    /// lag.
    top: usize,
    /// The ids of groups that get a row for each of their partitions. `*` at the end matches any
    /// rest.
    chosen: Vec<String>,
}

/// The lag of all groups at one time.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) began: Instant,
    pub(crate) took: Duration,
    pub(crate) image: Arc<ClusterImage>,
    /// All groups, by id.
    pub(crate) groups: Vec<GroupLag>,
    /// Indexes of the groups in the list, ordered by lag, the most first.
    pub(crate) by_lag: Vec<u32>,
    /// First the partitions with the most lag, ordered by lag, of groups that the config does not
    /// name. Then the partitions of groups that the config names.
    pub(crate) partitions: Vec<PartitionLag>,
    /// The number of groups by kind and state.
    pub(crate) counts: BTreeMap<(&'static str, &'static str), usize>,
    /// The number of groups whose offsets were not read, because they are too many, or damaged.
    pub(crate) left_out: usize,
    /// How many groups with the most lag the metrics show.
    pub(crate) top: usize,
    ends: Ends,
}

/// A group and its lag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupLag {
    pub(crate) id: Arc<str>,
    pub(crate) shard: u32,
    pub(crate) kind: &'static str,
    pub(crate) state: &'static str,
    pub(crate) members: u32,
    /// The number of partitions that have a commit of the group and whose ends are known.
    pub(crate) partitions: u32,
    /// The number of partitions without a commit, in topics where the group has some commit. Their
    /// records do not count as lag.
    pub(crate) uncommitted: u32,
    /// The total lag. None if no partition counts, or if the offsets were not read.
    pub(crate) lag: Option<u64>,
    /// Whether the config names the group.
    pub(crate) is_chosen: bool,
}

/// The lag of a group in a partition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartitionLag {
    pub(crate) lag: u64,
    pub(crate) group: Arc<str>,
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
}

/// The first offset and the end of each partition, by topic and index.
#[derive(Debug, Default)]
struct Ends(HashMap<Uuid, Vec<Option<(i64, i64)>>>);

impl Limits {
    pub(super) fn of(config: &Config) -> Self {
        let top = config.admin_lag_top.max(0).unsigned_abs() as usize;
        Self { top, chosen: config.admin_lag_groups.clone() }
    }

    fn has_chosen(&self, group_id: &str) -> bool {
        let is_this = |chosen: &String| match chosen.strip_suffix('*') {
            Some(beginning) => group_id.starts_with(beginning),
            None => chosen == group_id,
        };
        self.chosen.iter().any(is_this)
    }
}

impl Survey {
    /// Makes a survey. None if a shard does not answer in time. `kept` has the groups of the last
    /// survey, which are replaced by those of this survey.
    pub(super) fn make(
        shards: &Shards,
        limits: &Limits,
        kept: &mut Option<Kept>,
        until: Instant,
    ) -> Option<Self> {
        let began = Instant::now();
        let ends = ends(shards, until)?;
        // Read the image after the ends, so that the image has the topics of all ends.
        let image = shards.image()?;
        let mut gathered = Gathered::new(limits, &image, &ends);
        let asked = match kept.take().and_then(|kept| kept.renew(shards, until)) {
            Some(renewed) => {
                renewed.each(|shard, group| gathered.add_group(shard, group));
                renewed
            }
            None => gathered.ask_groups(shards, until)?,
        };
        *kept = asked.unless_too_large();
        let have_answered = gathered.ask_shares(shards, until);
        let Gathered { groups, counts, left_out, top, chosen, .. } = gathered;
        let mut survey = Self {
            began,
            took: began.elapsed(),
            image: Arc::clone(&image),
            groups,
            by_lag: Vec::new(),
            partitions: top.into_rows().into_iter().chain(chosen).collect(),
            counts,
            left_out,
            top: limits.top,
            ends,
        };
        survey.order();
        have_answered.then_some(survey)
    }

    /// The number of records in a topic: from the first offset to the end of each partition. None
    /// if these are unknown for a partition, as in internal topics.
    pub(crate) fn records(&self, topic: Uuid) -> Option<u64> {
        let ends = self.ends.0.get(&topic)?;
        let records = |(start, end): (i64, i64)| end.saturating_sub(start).max(0).unsigned_abs();
        let of_each = ends.iter().map(|bounds| bounds.map(records));
        of_each.sum()
    }

    fn order(&mut self) {
        self.groups.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        let groups = &self.groups;
        let mut by_lag: Vec<u32> = (0..groups.len() as u32).collect();
        // The sort is stable, so groups with equal lag stay ordered by id.
        by_lag.sort_by_key(|place| std::cmp::Reverse(groups[*place as usize].lag));
        self.by_lag = by_lag;
    }
}

fn ends(shards: &Shards, until: Instant) -> Option<Ends> {
    let mut ends = Ends::default();
    let take = |_, found| match found {
        Finding::Partitions(page, last) => {
            page.into_iter().for_each(|(id, bounds)| ends.set(id, bounds));
            last.map(|last| About::Partitions(Some(last)))
        }
        Finding::Cluster(_)
        | Finding::Groups(..)
        | Finding::Changes(_)
        | Finding::Bounds(_)
        | Finding::Records(_)
        | Finding::Group(_)
        | Finding::Reset(_)
        | Finding::Shares(..) => None,
    };
    shards.ask_all(|| About::Partitions(None), take, until).then_some(ends)
}

impl Ends {
    fn set(&mut self, id: PartitionId, bounds: Bounds) {
        let Ok(index) = usize::try_from(id.index) else { return };
        let of_topic = self.0.entry(id.topic).or_default();
        if of_topic.len() <= index {
            of_topic.resize(index + 1, None);
        }
        of_topic[index] = Some((bounds.log_start, bounds.high_watermark));
    }
}

/// The rows gathered so far.
struct Gathered<'s> {
    limits: &'s Limits,
    image: &'s ClusterImage,
    ends: &'s Ends,
    groups: Vec<GroupLag>,
    /// Indexes of share groups in the list.
    share_groups: HashMap<Arc<str>, usize>,
    counts: BTreeMap<(&'static str, &'static str), usize>,
    left_out: usize,
    top: Top,
    chosen: Vec<PartitionLag>,
}

impl<'s> Gathered<'s> {
    fn new(limits: &'s Limits, image: &'s ClusterImage, ends: &'s Ends) -> Self {
        Self {
            limits,
            image,
            ends,
            groups: Vec::new(),
            share_groups: HashMap::new(),
            counts: BTreeMap::new(),
            left_out: 0,
            top: Top::new(limits.top),
            chosen: Vec::new(),
        }
    }

    /// Adds the groups of all shards, and returns them for the next survey. None if a shard is
    /// late.
    fn ask_groups(&mut self, shards: &Shards, until: Instant) -> Option<Kept> {
        let mut kept = Kept::default();
        let take = |shard, found| match found {
            Finding::Groups(page, next) => {
                self.add(shard, &page);
                kept.add(shard, page);
                next.map(|place| About::Groups(Some(place)))
            }
            Finding::Cluster(_)
            | Finding::Changes(_)
            | Finding::Partitions(..)
            | Finding::Bounds(_)
            | Finding::Records(_)
            | Finding::Group(_)
            | Finding::Reset(_)
            | Finding::Shares(..) => None,
        };
        let have_answered = shards.ask_all(|| About::Groups(None), take, until);
        have_answered.then_some(kept)
    }

    fn add(&mut self, shard: u32, page: &GroupsPage) {
        page.iter().for_each(|group| self.add_group(shard, &group));
    }

    fn add_group(&mut self, shard: u32, group: &SurveyedGroup<'_>) {
        let kind = group.kind.unwrap_or("none");
        let is_chosen = self.limits.has_chosen(group.id);
        let group_id: Arc<str> = group.id.into();
        let (mut partitions, mut uncommitted) = (0, 0);
        let mut lag = 0_u64;
        for (topic, offsets) in group.topics() {
            let Some(topic) = self.image.topic(topic) else { continue };
            uncommitted += (topic.partitions.max(0) as u32).saturating_sub(offsets.len() as u32);
            let Some(ends) = self.ends.0.get(&topic.id) else { continue };
            for (partition, offset) in offsets {
                let end = usize::try_from(*partition).ok().and_then(|at| *ends.get(at)?);
                let Some((_, end)) = end else { continue };
                let of_partition = end.saturating_sub(*offset).max(0).unsigned_abs();
                partitions += 1;
                lag = lag.saturating_add(of_partition);
                self.keep(of_partition, &group_id, &topic.name, *partition, is_chosen);
            }
        }
        if kind == SHARE {
            self.share_groups.insert(Arc::clone(&group_id), self.groups.len());
        }
        *self.counts.entry((kind, group.state)).or_default() += 1;
        self.left_out += usize::from(!group.has_offsets);
        self.groups.push(GroupLag {
            id: group_id,
            shard,
            kind,
            state: group.state,
            members: group.members,
            partitions,
            uncommitted,
            lag: (group.has_offsets && partitions > 0).then_some(lag),
            is_chosen,
        });
    }

    /// Adds the lag of share groups, if there are any. Returns whether all shards answered in time.
    fn ask_shares(&mut self, shards: &Shards, until: Instant) -> bool {
        if self.share_groups.is_empty() {
            return true;
        }
        let take = |_, found| match found {
            Finding::Shares(rows, next) => {
                rows.iter().for_each(|row| self.add_share(row));
                next.map(|place| About::Shares(Some(place)))
            }
            Finding::Cluster(_)
            | Finding::Groups(..)
            | Finding::Changes(_)
            | Finding::Partitions(..)
            | Finding::Bounds(_)
            | Finding::Records(_)
            | Finding::Group(_)
            | Finding::Reset(_) => None,
        };
        shards.ask_all(|| About::Shares(None), take, until)
    }

    /// Adds a share partition, unless its lag is not known, its topic or group was deleted, or the
    /// group is of another kind.
    fn add_share(&mut self, row: &ShareStart) {
        let Some(place) = self.share_groups.get(&row.group).copied() else { return };
        let topic = self.image.topic_by_id(row.partition.topic);
        let Some((topic, of_partition)) = topic.zip(row.lag) else { return };
        let group = &mut self.groups[place];
        group.partitions += 1;
        group.lag = Some(group.lag.unwrap_or(0).saturating_add(of_partition));
        let is_chosen = group.is_chosen;
        self.keep(of_partition, &row.group, &topic.name, row.partition.index, is_chosen);
    }

    /// Keeps the row of a partition if the config names its group, or its lag is among the highest.
    fn keep(
        &mut self,
        lag: u64,
        group: &Arc<str>,
        topic: &Arc<str>,
        partition: i32,
        is_chosen: bool,
    ) {
        if !is_chosen {
            self.top.offer(lag, group, topic, partition);
        } else if self.chosen.len() < CHOSEN_ROWS_MAX {
            let (group, topic) = (Arc::clone(group), Arc::clone(topic));
            self.chosen.push(PartitionLag { lag, group, topic, partition });
        }
    }
}

#[cfg(test)]
mod tests;
