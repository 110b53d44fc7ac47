//! The oracle at rest: once nothing is on its way any more, the server has what it promised. Of
//! crash images the same is asked at any moment.

use super::RecordBytes;
use crate::client::{Committer, Raw};
use crate::process::StartedShard;
use crate::world::World;
use loadgen::plan::GroupIndex;
use muster_codec::records::{GroupRecord, OffsetCommitKey};
use std::collections::BTreeMap;

/// Committed offsets, by group, topic and partition.
struct Offsets(BTreeMap<(String, String, i32), i64>);

impl Offsets {
    fn of(records: &[RecordBytes]) -> Self {
        let offset = |(key, value): &RecordBytes| match GroupRecord::read(key, value.as_deref()) {
            Ok(Some(GroupRecord::OffsetCommit(key, Some(value)))) => {
                let place = (key.group.into_owned(), key.topic.into_owned(), key.partition);
                Some((place, value.offset))
            }
            _ => None,
        };
        Self(records.iter().filter_map(offset).collect())
    }

    /// Lays a book against them.
    fn check(&self, committer: &Committer) -> Result<(), String> {
        let group = committer.group().to_owned();
        let of = |(topic, partition): (&str, i32)| {
            self.0.get(&(group.clone(), topic.to_owned(), partition)).copied()
        };
        committer.check(&committer.places().map(of).collect::<Vec<_>>())
    }
}

impl World {
    /// Whether all that run have settled; what is wrong if not.
    pub(crate) fn unrest(&self) -> Option<String> {
        let unsettled = self.unsettled();
        if !unsettled.is_empty() {
            return Some(format!("members {unsettled:?}"));
        }
        self.judge.owners.wrong()
    }

    /// The groups that have not settled only because nobody began the second half of a cooperative
    /// rebalance, if that is all that is wrong. As in Kafka, a static member that dies between the
    /// halves comes back to its old generation, and so does not know that it gave partitions up.
    pub(crate) fn half_rebalanced(&self) -> Vec<GroupIndex> {
        let groups = self.judge.owners.lacking();
        let explained = |group| self.may_stay_half_rebalanced(group);
        match self.unsettled().is_empty() && groups.iter().all(|group| explained(*group)) {
            true => groups,
            false => Vec::new(),
        }
    }

    /// Lays the books of all raw clients against what the shards hold.
    pub(crate) fn judge_rest(&mut self) {
        let offsets = Offsets::of(&self.process.found);
        let wrong = self.clients.iter().find_map(|seat| match &seat.raw {
            Raw::Committer(committer) => offsets.check(committer).err(),
            Raw::Admin(admin) => {
                let images = self.process.seats.iter().map(|seat| seat.shard.inspect().image());
                images.map(|image| admin.check(image)).find_map(Result::err)
            }
            Raw::Founder(_) | Raw::Reader(_) | Raw::Producer(_) | Raw::Hostile(_) => None,
        });
        if let Some(wrong) = wrong.or_else(|| self.left_of_deleted_topics()) {
            self.violate(format_args!("at rest: {wrong}"));
        }
    }

    /// What nobody has forgotten that should be.
    fn left_of_deleted_topics(&self) -> Option<String> {
        let seat = self.process.seats.first()?;
        let image = seat.shard.inspect().image();
        if let Some((id, topic)) = image.deleted().next() {
            return Some(format!("topic {} of id {id} is still noted as deleted", topic.name));
        }
        self.process.found.iter().find_map(|(key, value)| {
            match GroupRecord::read(key, value.as_deref()) {
                Ok(Some(GroupRecord::OffsetCommit(key, Some(value))))
                    if !value.topic_id.is_zero() && image.topic_by_id(value.topic_id).is_none() =>
                {
                    let OffsetCommitKey { group, topic, partition } = key;
                    Some(format!("{group} has an offset of {topic}-{partition}, which was deleted"))
                }
                _ => None,
            }
        })
    }

    /// Lays the books, as they are at this moment, against what a start of a shard finds.
    pub(super) fn judge_books(&self, number: u32, started: &StartedShard) -> Result<(), String> {
        let offsets = Offsets::of(&started.records);
        let placement = self.placement(self.process_shards);
        self.clients.iter().try_for_each(|seat| match &seat.raw {
            Raw::Committer(committer) if placement.group_shard(committer.group()) == number => {
                offsets.check(&committer.interrupted())
            }
            Raw::Admin(admin) if number == 0 => {
                admin.interrupted().check(started.shard.inspect().image())
            }
            Raw::Committer(_)
            | Raw::Admin(_)
            | Raw::Founder(_)
            | Raw::Reader(_)
            | Raw::Producer(_)
            | Raw::Hostile(_) => Ok(()),
        })
    }
}
