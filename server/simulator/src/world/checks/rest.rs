//! The checks after the last power loss: the server must have everything that it acknowledged. The
//! same checks run on crash images, at any time.

use crate::client::Raw;
use crate::judge::Offsets;
use crate::node::StartedShard;
use crate::profile::SECOND;
use crate::records::RecordBytes;
use crate::world::{Machine, Phase, World};
use loadgen::plan::GroupIndex;
use muster_codec::records::{GroupRecord, OffsetCommitKey};
use muster_server::cluster::ClusterImage;
use muster_server::placement::CONTROLLER;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Slots report their open transactions when a shard is loaded. This time after the last load of a
/// shard, the coordinators must have answered all reports.
const SETTLED_AFTER: u64 = 5 * SECOND;

impl<M: Machine> World<M> {
    /// The reason why the groups have not settled; None if they have.
    pub(crate) fn unrest(&self) -> Option<String> {
        let unsettled = self.unsettled();
        if !unsettled.is_empty() {
            return Some(format!("members {unsettled:?}"));
        }
        if let Some(group) = self.lacks_internal_topics() {
            return Some(format!("group {} lacks internal topics", group.0));
        }
        self.judge.wrong_owners()
    }

    /// The groups with partitions that stay without an owner, if this has only one reason: no
    /// member began the second half of a cooperative rebalance. A static member gave partitions up
    /// in the first half and died. As in Kafka it returns to its old generation, and does not know
    /// that it gave them up.
    pub(crate) fn half_rebalanced(&self) -> Vec<GroupIndex> {
        let groups = self.judge.groups_without_owners();
        let explained = |group| self.may_stay_half_rebalanced(group);
        match self.unsettled().is_empty() && groups.iter().all(|group| explained(*group)) {
            true => groups,
            false => Vec::new(),
        }
    }

    /// Whether the server runs and no raw client waits.
    pub(in crate::world) fn is_answered(&self) -> bool {
        self.clients.are_answered() && self.node.is_up()
    }

    /// Whether the server runs, no raw client waits, and no damage is left to find or repair.
    pub(in crate::world) fn is_at_rest(&self) -> bool {
        self.is_answered() && M::has_recovered(self)
    }

    /// Causes the last power loss, after which everything is compared.
    pub(in crate::world) fn crash_last(&mut self) {
        M::judge_calm(self);
        self.phase = Phase::Last;
        self.calm_since = None;
        M::crash(self);
    }

    /// Compares the state that a startup has found (the records of groups, and the images of the
    /// shards) with the books of all raw clients.
    pub(in crate::world) fn judge_rest(
        &mut self,
        records: &[RecordBytes],
        images: &[Arc<ClusterImage>],
    ) {
        let offsets = Offsets::of(records);
        let mut books = self.clients.raws().flat_map(Raw::books);
        let wrong = books.find_map(|book| offsets.check(book).err());
        let of_admin = || {
            self.clients.raws().find_map(|raw| match raw {
                Raw::Admin(admin) => images.iter().find_map(|image| admin.check(image).err()),
                Raw::Granter(granter) => images.iter().find_map(|image| granter.check(image).err()),
                Raw::Limiter(limiter) => images.iter().find_map(|image| limiter.check(image).err()),
                Raw::TopicCreator(_)
                | Raw::User(_)
                | Raw::Committer(_)
                | Raw::Several(_)
                | Raw::Converter(_)
                | Raw::Reader(_)
                | Raw::Producer(_)
                | Raw::Transactor(_)
                | Raw::Sharer(_)
                | Raw::Meddler(_)
                | Raw::Hostile(_) => None,
            })
        };
        let wrong =
            wrong.or_else(of_admin).or_else(|| left_of_deleted_topics(records, images.first()?));
        if let Some(wrong) = wrong.or_else(|| self.wrong_deliveries()) {
            self.sim.violate(format_args!("at rest: {wrong}"));
        }
    }

    /// Compares the state of a shard with what the raw clients know of the server now. The shard
    /// was started outside the run, from a crash image or from the files of a killed server.
    pub(in crate::world) fn judge_books(
        &self,
        number: u32,
        started: &StartedShard,
    ) -> Result<(), String> {
        let offsets = Offsets::of(&started.records);
        let placement = self.node.placement();
        let books = self.clients.raws().flat_map(Raw::books);
        let mut of_shard = books.filter(|book| placement.group_shard(book.group()) == number);
        of_shard.try_for_each(|book| offsets.check(&book.interrupted()))?;
        self.clients.raws().try_for_each(|raw| match raw {
            Raw::Admin(admin) if number == CONTROLLER => {
                admin.interrupted().check(started.shard.inspect().image())
            }
            Raw::Granter(granter) if number == CONTROLLER => {
                granter.check(started.shard.inspect().image())
            }
            Raw::Limiter(limiter) if number == CONTROLLER => {
                limiter.check(started.shard.inspect().image())
            }
            Raw::Committer(_)
            | Raw::Several(_)
            | Raw::Converter(_)
            | Raw::Granter(_)
            | Raw::Limiter(_)
            | Raw::User(_)
            | Raw::Admin(_)
            | Raw::TopicCreator(_)
            | Raw::Reader(_)
            | Raw::Producer(_)
            | Raw::Transactor(_)
            | Raw::Sharer(_)
            | Raw::Meddler(_)
            | Raw::Hostile(_) => Ok(()),
        })
    }
}

impl World {
    /// Like [`World::judge_rest`], for the state that the last startup has found.
    pub(in crate::world) fn judge_found(&mut self) {
        let images = self.node.shards().iter().map(|it| it.inspect().image().clone());
        let (records, images) = (self.node.found().to_vec(), Vec::from_iter(images));
        self.judge_rest(&records, &images);
    }

    /// Checks that a coordinator knows each open transaction of a partition or of pending offsets,
    /// and so will end it. Runs only some time after the last load of a shard: coordinators may
    /// know a transaction only from the reports that follow a load.
    pub(crate) fn judge_open_transactions(&mut self) {
        let runs_since = self.node.runs_since();
        let is_settled = runs_since.is_some_and(|at| self.sim.now() > at + SETTLED_AFTER);
        let open = if is_settled { self.without_coordinator() } else { None };
        if let Some(open) = open {
            self.sim.violate(format_args!("no coordinator has open what is open in {open}"));
        }
    }

    fn without_coordinator(&self) -> Option<String> {
        let shards = || self.node.shards().iter().map(|shard| shard.inspect());
        let known: BTreeSet<i64> = shards().flat_map(|shard| shard.open_producers()).collect();
        let mut of_groups = shards().flat_map(|shard| shard.open_transactions());
        let of_groups = of_groups.find(|(_, (producer_id, _), _)| !known.contains(producer_id));
        if let Some((slot, producer, first)) = of_groups {
            return Some(format!("{slot:?}: {producer:?} from {first} on"));
        }
        let mut in_partitions = shards().flat_map(|shard| shard.open_in_partitions());
        let found = in_partitions.find(|open| !known.contains(&open.producer.id));
        found.map(|open| format!("{open:?}"))
    }
}

/// The first trace of a deleted topic, in words: the topic is still noted as deleted, or a group
/// has an offset of it.
fn left_of_deleted_topics(records: &[RecordBytes], image: &ClusterImage) -> Option<String> {
    if let Some((id, topic)) = image.deleted().next() {
        return Some(format!("topic {} of id {id} is still noted as deleted", topic.name));
    }
    records.iter().find_map(|(key, value)| match GroupRecord::read(key, value.as_deref()) {
        Ok(Some(GroupRecord::OffsetCommit(key, Some(value))))
            if !value.topic_id.is_zero() && image.topic_by_id(value.topic_id).is_none() =>
        {
            let OffsetCommitKey { group, topic, partition } = key;
            Some(format!("{group} has an offset of {topic}-{partition}, which was deleted"))
        }
        _ => None,
    })
}
