//! Reads from files. A read from the page cache is made immediately; all others are made by
//! io_uring's workers. If the ring's thread made them, it would have to wait when the kernel looks
//! up blocks on disk, or when the disk's queue is full.

use io_uring::{opcode, squeue};

use crate::aligned::AlignedBuf;
use crate::disk::{DiskOp, outcome};
use crate::event::Event;
use crate::file::File;
use crate::ring::Ring;
use crate::tag::{Kind, Tag};

impl Ring {
    /// Reads `len` bytes at `offset` into `buf`, and overwrites its content. The event `Read`
    /// returns `token` and the buffer, which is shorter than `len` if the file ends before.
    ///
    /// Offset and length must be multiples of [`File::block_bytes`]; otherwise the result is
    /// InvalidInput.
    pub fn read(&mut self, file: &File, offset: u64, len: usize, mut buf: AlignedBuf, token: u64) {
        buf.expose(len);
        let is_buffered = file.block_bytes().is_none();
        let is_cached =
            is_buffered && u32::try_from(len).is_ok_and(|len| file.is_cached(offset, len));
        let op = DiskOp { file: file.clone(), buf, token };
        self.start_disk(Kind::Read, op, |fd, buf| {
            let len = buf.len().min(u32::MAX as usize) as u32;
            let read = opcode::Read::new(fd, buf.as_mut_ptr(), len).offset(offset).build();
            if is_cached { read } else { read.flags(squeue::Flags::ASYNC) }
        });
    }

    pub(crate) fn read_done(&mut self, tag: Tag, result: i32) -> Option<Event> {
        let DiskOp { mut buf, token, .. } = self.disk.take(tag.index)?;
        let result = outcome(result);
        buf.truncate(result.as_ref().map_or(0, |&read| read));
        Some(Event::Read { token, result: result.map(drop), buf })
    }
}
