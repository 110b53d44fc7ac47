//! The shard's part in a backup.

use super::{Io, Reactor};
use crate::backup::{BackupOrder, Links};
use crate::shard::{Shard, Taken};

impl<I: Io> Reactor<I> {
    /// Meets the other shards and has the files linked as they are then. The shard has done nothing
    /// since they met that they could know of.
    pub(super) fn back_up(&mut self, io: &mut I, shard: &mut Shard, order: BackupOrder) {
        // A shard without its state is loaded again from what would be taken.
        if shard.inspect().is_failed() || !order.meeting.attend() {
            return;
        }
        let Taken { directories, files, former_points_from, extents } = shard.begin_backup();
        let BackupOrder { into, to, .. } = order;
        let links = Links { directories, files, former_points_from, into, extents, to };
        self.files.link(io.files(), links);
    }
}
