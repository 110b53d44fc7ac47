//! The receive buffers that all connections of a ring share, and the guard for a lent buffer.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use io_uring::{IoUring, cqueue};

use crate::aligned::AlignedBuf;
use crate::config::Config;

/// The two groups of buffers: one for connections that send little, one for connections that send
/// much. A connection uses only the buffers of its own group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Little = 0,
    Bulk = 1,
}

/// Bytes that a connection received. Dropping the value returns its buffer to the kernel. All
/// connections of the ring share the buffers, so consume or copy the bytes soon.
pub struct RecvBuf {
    pool: Rc<Pool>,
    id: u16,
    len: u32,
}

impl Deref for RecvBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the kernel handed this buffer to us and does not write to it before `drop`
        // returns it. `lend` checked that `len` is within the buffer.
        unsafe { std::slice::from_raw_parts(self.pool.buffer(self.id), self.len as usize) }
    }
}

impl Drop for RecvBuf {
    fn drop(&mut self) {
        self.pool.lent.set(self.pool.lent.get() - 1);
        self.pool.provide(self.id);
    }
}

impl fmt::Debug for RecvBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecvBuf({} bytes)", self.len)
    }
}

/// The memory of the buffers, and the queue from which the kernel takes free ones. The type is not
/// `Send`, because only the ring's thread may return buffers.
pub(crate) struct Pool {
    entries: *mut BufRingEntry,
    data: *mut u8,
    count: u16,
    stride: usize,
    size: u32,
    tail: Cell<u16>,
    lent: Cell<u16>,
    /// The memory that `entries` and `data` point to.
    _memory: (AlignedBuf, AlignedBuf),
}

impl Pool {
    /// Allocates the buffers of a group and registers them with the ring.
    pub(crate) fn register(ring: &IoUring, config: &Config, group: Group) -> io::Result<Rc<Self>> {
        let pool = Rc::new(match group {
            Group::Little => Self::allocate(config.recv_buffers, config.recv_buffer_bytes),
            Group::Bulk => Self::allocate(config.bulk_buffers, config.bulk_buffer_bytes),
        });
        // SAFETY: the memory lives as long as the pool. The ring holds an `Rc` of the pool, and is
        // closed before the `Rc` is dropped.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(
                pool.entries as u64,
                pool.count,
                group as u16,
                0,
            )?;
        }
        (0..pool.count).for_each(|id| pool.provide(id));
        Ok(pool)
    }

    fn allocate(buffers: u16, size: u32) -> Self {
        let count = usize::from(buffers);
        // The distance of two buffers is one cache line more than their size. Small requests use
        // only the first lines of a buffer. Without the extra line, those of all buffers would fall
        // into the same few sets of the CPU cache.
        let stride = (size as usize).next_multiple_of(64) + 64;
        let mut entries = AlignedBuf::zeroed(count * size_of::<BufRingEntry>());
        let mut data = AlignedBuf::zeroed(count * stride);
        Self {
            entries: entries.as_mut_ptr().cast(),
            data: data.as_mut_ptr(),
            count: buffers,
            stride,
            size,
            tail: Cell::new(0),
            lent: Cell::new(0),
            _memory: (entries, data),
        }
    }

    /// The buffer that a completion names, with `len` bytes. None if the completion names no buffer
    /// or an invalid one.
    pub(crate) fn lend(self: &Rc<Self>, flags: u32, len: u32) -> Option<RecvBuf> {
        let id = cqueue::buffer_select(flags)?;
        if id >= self.count || len > self.size {
            return None;
        }
        self.lent.set(self.lent.get() + 1);
        Some(RecvBuf { pool: Rc::clone(self), id, len })
    }

    /// The number of buffers that are not lent. The kernel may already have filled some of them, if
    /// their completions were not taken yet.
    pub(crate) fn free(&self) -> u16 {
        self.count - self.lent.get()
    }

    /// The size of a buffer in bytes.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    fn buffer(&self, id: u16) -> *mut u8 {
        debug_assert!(id < self.count);
        self.data.wrapping_add(usize::from(id) * self.stride)
    }

    /// Returns a buffer to the kernel.
    fn provide(&self, id: u16) {
        let tail = self.tail.get();
        let slot = usize::from(tail & (self.count - 1));
        // SAFETY: `slot` is below the number of entries, and the kernel reads an entry only once
        // the tail has passed it. The fields are written one by one because entry 0 overlaps with
        // the tail.
        unsafe {
            let entry = &mut *self.entries.add(slot);
            entry.set_addr(self.buffer(id) as u64);
            entry.set_len(self.size);
            entry.set_bid(id);
            let shared_tail = BufRingEntry::tail(self.entries).cast::<AtomicU16>();
            (*shared_tail).store(tail.wrapping_add(1), Ordering::Release);
        }
        self.tail.set(tail.wrapping_add(1));
    }
}
