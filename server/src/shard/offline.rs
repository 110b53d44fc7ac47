//! Shards report their offline partitions to each other, so that all of them answer Metadata alike.

use super::{Command, Message, Shard};
use crate::cluster::OfflineList;

impl Shard {
    /// Reports the partitions that could not be opened to all shards, this one included.
    pub(super) fn report_offline(&mut self) {
        let partitions: OfflineList = self.partitions.offline_list();
        if !partitions.is_empty() {
            self.commands.extend(self.to_all(&partitions));
        }
    }

    /// The reports for a shard that is loaded again: an empty one to all shards, and those of the
    /// other shards to the new one.
    pub(super) fn leave_offline(&self) -> Vec<Command> {
        let of = |(from, partitions): (u32, &OfflineList)| {
            if from == self.number {
                return self.to_all(&OfflineList::default()).collect();
            }
            let message = Message::Offline { from, partitions: partitions.clone() };
            vec![Command::Mail { to: self.number, message }]
        };
        self.offline.iter().flat_map(of).collect()
    }

    fn to_all(&self, partitions: &OfflineList) -> impl Iterator<Item = Command> + use<> {
        let (from, partitions) = (self.number, partitions.clone());
        (0..self.common.placement.shards).map(move |to| {
            let message = Message::Offline { from, partitions: partitions.clone() };
            Command::Mail { to, message }
        })
    }
}
