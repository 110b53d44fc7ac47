//! A shard's part in a backup.

use super::{Io, Reactor};
use crate::backup::{BackupOrder, Links};
use crate::shard::{Shard, Taken};

impl<I: Io> Reactor<I> {
    /// Waits until all shards have met, then requests hard links to the files as they are at this
    /// moment. Between the meeting and the request, the shard does nothing that another shard could
    /// notice.
    pub(super) fn back_up(&mut self, io: &mut I, shard: &mut Shard, order: BackupOrder) {
        // A failed shard takes no part: it is about to be loaded again from the files that would be
        // linked.
        if shard.inspect().is_failed() || !order.meeting.attend() {
            return;
        }
        let Taken { directories, files, former_points_from, extents } = shard.begin_backup();
        let BackupOrder { into, to, .. } = order;
        let links = Links { directories, files, former_points_from, into, extents, to };
        self.files.link(io.files(), links);
    }
}
