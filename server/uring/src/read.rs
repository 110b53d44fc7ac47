//! Reading from files.

use io_uring::opcode;

use crate::aligned::AlignedBuf;
use crate::disk::{DiskOp, outcome};
use crate::event::Event;
use crate::file::File;
use crate::ring::Ring;
use crate::tag::{Kind, Tag};

impl Ring {
    /// Reads `len` bytes at `offset` into `buf`, whose old bytes are lost. `Read` returns `token`
    /// and the buffer, shorter than `len` if the file ends before.
    ///
    /// Offset and length must be multiples of [`File::block_bytes`], or the result is
    /// InvalidInput.
    pub fn read(&mut self, file: &File, offset: u64, len: usize, mut buf: AlignedBuf, token: u64) {
        buf.expose(len);
        let op = DiskOp { file: file.clone(), buf, token };
        self.start_disk(Kind::Read, op, |fd, buf| {
            let len = buf.len().min(u32::MAX as usize) as u32;
            opcode::Read::new(fd, buf.as_mut_ptr(), len).offset(offset).build()
        });
    }

    pub(crate) fn read_done(&mut self, tag: Tag, result: i32) -> Option<Event> {
        let DiskOp { mut buf, token, .. } = self.disk.take(tag.index)?;
        let result = outcome(result);
        buf.truncate(result.as_ref().map_or(0, |&read| read));
        Some(Event::Read { token, result: result.map(drop), buf })
    }
}
