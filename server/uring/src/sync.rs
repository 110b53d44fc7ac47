//! Makes the bytes of a file durable.

use io_uring::{opcode, types};

use crate::aligned::AlignedBuf;
use crate::disk::{DiskOp, outcome};
use crate::event::Event;
use crate::file::File;
use crate::ring::Ring;
use crate::tag::{Kind, Tag};

impl Ring {
    /// Makes writes durable (fdatasync(2)): all those whose `Written` event the caller has taken
    /// before. The event `Synced` returns `token`. A failed sync must never be retried: the retry
    /// may succeed although the kernel has dropped the bytes.
    pub fn sync(&mut self, file: &File, token: u64) {
        let op = DiskOp { file: file.clone(), buf: AlignedBuf::empty(), token };
        self.start_disk(Kind::Sync, op, |fd, _buf| {
            opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build()
        });
    }

    pub(crate) fn synced(&mut self, tag: Tag, result: i32) -> Option<Event> {
        let DiskOp { token, .. } = self.disk.take(tag.index)?;
        Some(Event::Synced { token, result: outcome(result).map(drop) })
    }
}
