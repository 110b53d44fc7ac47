//! A shard's part in a backup.

use super::{Io, Reactor};
use crate::backup::{BackupOrder, Links};
use crate::shard::{Shard, Taken};

impl<I: Io> Reactor<I> {
    /// Waits for the other shards, then has the files linked as they are at this moment. Since the
    /// meeting the shard has done nothing that another shard could know of.
    pub(super) fn back_up(&mut self, io: &mut I, shard: &mut Shard, order: BackupOrder) {
        // A failed shard is about to be loaded again from the very files that the backup would
        // take.
        if shard.inspect().is_failed() || !order.meeting.attend() {
            return;
        }
        let Taken { directories, files, former_points_from, extents } = shard.begin_backup();
        let BackupOrder { into, to, .. } = order;
        let links = Links { directories, files, former_points_from, into, extents, to };
        self.files.link(io.files(), links);
    }
}
