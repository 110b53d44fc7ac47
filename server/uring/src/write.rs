//! Writes to files, durable or not.
//!
//! On a ring, a durable write is one operation: a write with RWF_DSYNC, to a file opened with
//! O_DIRECT if the file system permits it. io_uring's workers carry out all writes (IOSQE_ASYNC);
//! the ring's thread carries out none. Even a direct write to existing blocks updates the file's
//! timestamp, and for that ext4 waits for its journal, for as long as the disk takes. (IOCB_NOWAIT,
//! the flag for operations that must not wait, does not prevent this.) So if a disk hangs, only
//! workers wait, and the ring continues.
//!
//! The alternatives were measured on two cores of a virtual machine (ext4 on virtio without FUA,
//! server on core 0, client on core 1). There an echo without a file takes 43 us and serves 222,000
//! requests per CPU-second. Other programs were running; the figures are the best of many short
//! runs, and differences below a fifth are noise.
//!
//! | durable echo by | p50, 1 connection | per CPU-second at 64 | at 1,000 connections |
//! |---|---|---|---|
//! | O_DIRECT write, RWF_DSYNC | 189 us | 155,000 | 181,000 |
//! | the same with IOSQE_ASYNC (chosen) | 160 us | 135,000 | 198,000 |
//! | O_DIRECT write linked to fdatasync | 171 us | 145,000 | 169,000 |
//! | buffered write, RWF_DSYNC (the fallback) | 160 us | 106,000 | 134,000 |
//! | pwritev2 that blocks the ring's thread | 136 us | 163,000 | 121,000 |
//! | pwritev2 on a thread of its own, same core | 182 us | 152,000 | 155,000 |
//! | pwritev2 on a thread of its own, any core | 171 us | 140,000 | 170,000 |
//!
//! (The p50 of the blocking and of the buffered write were measured at real-time priority. The
//! kernel's worker does not inherit this priority, so the first row had 198 us there.) Only the CPU
//! time of the process is counted, not that of the kernel's workers. Two results exceed the noise.
//! Blocking is the fastest for a single client and the slowest for many, because it delays all
//! clients of the shard for the length of a flush. Apart from blocking, buffered writes cost the
//! most CPU time. Among the other alternatives, the second row is the simplest that never makes the
//! ring's thread wait. (`benches/results/2026-11-28-writes-on-workers.md` measures the first two
//! rows at the same time: the second takes 3 to 16 % less CPU time.)

use std::io;
use std::os::unix::fs::FileExt;

use io_uring::{opcode, squeue};

use crate::aligned::{ALIGNMENT, AlignedBuf};
use crate::disk::{DiskOp, outcome};
use crate::event::Event;
use crate::file::File;
use crate::probe::file_size_limit;
use crate::ring::Ring;
use crate::tag::{Kind, Tag};

/// The guarantee of a completed write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The bytes, and the metadata needed to read them, are on stable storage.
    Durable,
    /// Reads return the bytes. But a power loss may lose them until a `sync` has made them durable.
    Cached,
}

/// Writes all of `buf` at `offset`, like [`Ring::write`], and waits for it.
///
/// # Errors
/// Not all bytes were written, or they are not durable.
pub(crate) fn blocking(
    file: &File,
    offset: u64,
    buf: &[u8],
    durability: Durability,
) -> io::Result<()> {
    let block = file.block_bytes().unwrap_or(1);
    let mut written = 0;
    while written < buf.len() {
        match file.std().write_at(&buf[written..], offset + written as u64) {
            Ok(0) => break,
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(explained(error)),
        }
        // A direct write can only continue at a block boundary.
        if !written.is_multiple_of(block) {
            break;
        }
    }
    whole(written, buf.len())?;
    if durability == Durability::Durable { file.std().sync_data() } else { Ok(()) }
}

impl Ring {
    /// Writes all of `buf` at `offset`. The event `Written` returns `token` and the buffer, and an
    /// error if not all bytes were written. Writes in flight at the same time have no order.
    ///
    /// Offset and length must be multiples of [`File::block_bytes`]; otherwise the result is
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
            let write = opcode::Write::new(fd, buf.as_ptr(), len).offset(offset).rw_flags(flags);
            write.build().flags(squeue::Flags::ASYNC)
        });
    }

    pub(crate) fn written(&mut self, tag: Tag, result: i32) -> Option<Event> {
        let DiskOp { buf, token, .. } = self.disk.take(tag.index)?;
        let result = outcome(result).and_then(|written| whole(written, buf.len()));
        let result = result.map_err(explained);
        Some(Event::Written { token, result, buf })
    }
}

/// Adds RLIMIT_FSIZE to the error if it is the cause. If the limit is not a multiple of a block,
/// the kernel shortens the write to the limit. A direct write then fails with EINVAL, because it no
/// longer consists of whole blocks.
fn explained(error: io::Error) -> io::Error {
    let limit = file_size_limit().filter(|limit| match error.raw_os_error() {
        Some(libc::EFBIG) => true,
        Some(libc::EINVAL) => !limit.is_multiple_of(ALIGNMENT as u64),
        _ => false,
    });
    let Some(limit) = limit else { return error };
    let text = format!("files may have {limit} bytes at most: raise RLIMIT_FSIZE (ulimit -f)");
    io::Error::new(io::ErrorKind::FileTooLarge, text)
}

/// Turns a short write into an error. The kernel itself continues short writes to files. So if a
/// write is still short, there was no space for the rest.
fn whole(written: usize, len: usize) -> io::Result<()> {
    if written == len {
        return Ok(());
    }
    let text = format!("only {written} of {len} bytes were written: there is no space for more");
    Err(io::Error::new(io::ErrorKind::WriteZero, text))
}
