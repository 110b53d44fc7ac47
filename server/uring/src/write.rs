//! Writing to files, durably or not.

use std::io;

use io_uring::opcode;

use crate::aligned::AlignedBuf;
use crate::disk::{DiskOp, outcome};
use crate::event::Event;
use crate::file::File;
use crate::ring::Ring;
use crate::tag::{Kind, Tag};

/// What a write promises when it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The bytes, and what it takes to find them again, are on stable storage.
    Durable,
    /// The bytes are seen by reads; a power failure may lose them until a `sync`.
    Cached,
}

impl Ring {
    /// Writes all of `buf` at `offset`. `Written` brings `token` and the buffer back, with an
    /// error if not every byte was written. Writes in flight together are in no order.
    ///
    /// Offset and length must be multiples of [`File::block_bytes`], or the result is
    /// InvalidInput.
    pub fn write(
        &mut self,
        file: &File,
        offset: u64,
        buf: AlignedBuf,
        durability: Durability,
        token: u64,
    ) {
        let flags = match durability {
            Durability::Durable => libc::RWF_DSYNC,
            Durability::Cached => 0,
        };
        let op = DiskOp { file: file.clone(), buf, token };
        self.start_disk(Kind::Write, op, |fd, buf| {
            let len = buf.len().min(u32::MAX as usize) as u32;
            opcode::Write::new(fd, buf.as_ptr(), len).offset(offset).rw_flags(flags).build()
        });
    }

    pub(crate) fn written(&mut self, tag: Tag, result: i32) -> Option<Event> {
        let DiskOp { buf, token, .. } = self.disk.take(tag.index)?;
        let result = outcome(result).and_then(|written| whole(written, buf.len()));
        Some(Event::Written { token, result, buf })
    }
}

/// The kernel itself goes on after a short write to a file; one that stays short has no room.
fn whole(written: usize, len: usize) -> io::Result<()> {
    if written == len {
        return Ok(());
    }
    let text = format!("only {written} of {len} bytes were written");
    Err(io::Error::new(io::ErrorKind::WriteZero, text))
}
