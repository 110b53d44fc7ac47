//! The oracle at rest: once nothing is on its way any more, the server has what it promised.

use crate::client::Raw;
use crate::world::World;
use muster_codec::records::GroupRecord;
use std::collections::BTreeMap;

impl World {
    /// Whether all that run have settled; what is wrong if not.
    pub(crate) fn unrest(&self) -> Option<String> {
        let unsettled = self.unsettled();
        if !unsettled.is_empty() {
            return Some(format!("members {unsettled:?}"));
        }
        self.judge.owners.wrong()
    }

    /// Lays the books of all raw clients against what the shards hold.
    pub(crate) fn judge_rest(&mut self) {
        let mut committed = BTreeMap::new();
        for (key, value) in &self.process.found {
            if let Ok(Some(GroupRecord::OffsetCommit(key, Some(value)))) =
                GroupRecord::read(key, value.as_deref())
            {
                let place = (key.group.into_owned(), key.topic.into_owned(), key.partition);
                committed.insert(place, value.offset);
            }
        }
        let wrong = self.clients.iter().find_map(|seat| match &seat.raw {
            Raw::Committer(committer) => {
                let group = committer.group().to_owned();
                let of = |(topic, partition): (&str, i32)| {
                    committed.get(&(group.clone(), topic.to_owned(), partition)).copied()
                };
                let found: Vec<_> = committer.places().map(of).collect();
                committer.check(&found).err()
            }
            Raw::Admin(admin) => {
                let images = self.process.seats.iter().map(|seat| seat.shard.inspect().image());
                images.map(|image| admin.check(image)).find_map(Result::err)
            }
            Raw::Founder(_) | Raw::Reader(_) | Raw::Hostile(_) => None,
        });
        if let Some(wrong) = wrong {
            self.violate(format_args!("at rest: {wrong}"));
        }
    }
}
