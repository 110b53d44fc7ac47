//! The shard's part in a backup.

use super::{Io, Reactor};
use crate::backup::{BackupOrder, Links};
use crate::shard::Shard;

impl<I: Io> Reactor<I> {
    /// Meets the other shards and has the files linked as they are then. The shard has done nothing
    /// since they met that they could know of.
    pub(super) fn back_up(&mut self, io: &mut I, shard: &mut Shard, order: BackupOrder) {
        // A shard without its state is loaded again from what would be taken.
        if shard.inspect().is_failed() || !order.meeting.attend() {
            return;
        }
        let taken = shard.begin_backup();
        let BackupOrder { into, to, .. } = order;
        let (directories, files, extents) = (taken.directories, taken.files, taken.extents);
        self.files.link(io.files(), Links { directories, files, into, extents, to });
    }
}
