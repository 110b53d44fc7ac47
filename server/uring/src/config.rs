//! Sizes of a ring. Every queue has a limit; the memory that the kernel locks for a ring may be
//! limited, too (RLIMIT_MEMLOCK).

/// Sizes of one [`Ring`](crate::Ring). Numbers are entries unless the name says bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Submission queue; more operations than this in one turn cost further system calls.
    pub sq_entries: u32,
    /// Completion queue; the kernel keeps further completions elsewhere and loses none.
    pub cq_entries: u32,
    /// Receive buffers shared by all connections that send little: a power of two, at most 32768.
    pub recv_buffers: u16,
    /// Bytes of one of them. A connection that fills one sends much.
    pub recv_buffer_bytes: u32,
    /// Receive buffers shared by all connections that send much, and bytes of one: together the
    /// most that a turn receives from them.
    pub bulk_buffers: u16,
    pub bulk_buffer_bytes: u32,
    /// Connections held at the same time, at most [`CONNECTIONS_LIMIT`].
    pub connections_max: u32,
}

/// A connection's slot has 24 bits in the tag of an operation.
pub const CONNECTIONS_LIMIT: u32 = 1 << 24;
/// The kernel's own limit on a ring of provided buffers.
pub(crate) const RECV_BUFFERS_LIMIT: u16 = 1 << 15;
/// The most that is received at once of a connection that does not come first.
pub(crate) const ONCE_BYTES: u32 = 2048;
/// A receive of fewer bytes is a small one; after this number in a row a connection sends little
/// again.
pub(crate) const SMALL_BYTES: usize = 2048;
pub(crate) const SMALL_MIN: u8 = 8;
/// The kernel fills up to this number of buffers of a connection at once.
pub(crate) const BUFFERS_AT_ONCE: u16 = 32;
/// Descriptors that a turn closes. Closing one frees its unread bytes in the kernel.
pub(crate) const CLOSES_PER_TURN: usize = 16;
/// The kernel gathers at most UIO_MAXIOV buffers in one send.
pub(crate) const SEND_BUFFERS_MAX: usize = 1024;
/// A shorter response is appended to the previous one: cheaper than a gather entry.
pub(crate) const SEND_COPY_BYTES_MAX: usize = 1024;
/// The size up to which output buffers grow; further bytes start another one.
pub(crate) const SEND_APPEND_BYTES_MAX: usize = 64 * 1024;
/// Spare output buffers kept for reuse, and the largest one kept.
pub(crate) const SPARE_BUFFERS_MAX: usize = 1024;
pub(crate) const SPARE_BUFFER_BYTES_MAX: usize = 16 * 1024;

/// Spare buffers of slices kept for reuse, and the size with which they are created.
pub(crate) const SPARE_SLICES_MAX: usize = 32;
pub const SPARE_SLICE_BYTES_MAX: usize = 256 * 1024;
/// The bytes that are read ahead after a part of a file that was not in the page cache: twice what
/// the kernel reads ahead by default, as much as a slice.
pub(crate) const READ_AHEAD_BYTES: u32 = 256 * 1024;
/// A turn starts no more slices when it has started as much as this: some 200 microseconds.
pub(crate) const SLICE_BYTES_PER_TURN: usize = 512 * 1024;

const _: () = assert!(SEND_COPY_BYTES_MAX < SEND_APPEND_BYTES_MAX);
const _: () = assert!(SPARE_BUFFERS_MAX * SPARE_BUFFER_BYTES_MAX <= 16 << 20);
const _: () = assert!(SPARE_SLICES_MAX * SPARE_SLICE_BYTES_MAX <= 16 << 20);

impl Default for Config {
    fn default() -> Self {
        Self {
            sq_entries: 2048,
            cq_entries: 16384,
            recv_buffers: 1024,
            recv_buffer_bytes: 4096,
            bulk_buffers: 64,
            bulk_buffer_bytes: 8192,
            connections_max: 1 << 16,
        }
    }
}

/// The sizes of the kernel's entries, and of the head of their queues.
const SQE_BYTES: u64 = 64;
const SQ_INDEX_BYTES: u64 = 4;
const CQE_BYTES: u64 = 16;
const BUFFER_ENTRY_BYTES: u64 = 16;
const QUEUES_HEAD_BYTES: u64 = 256;
const PAGE_BYTES: u64 = 4096;

/// The smallest ring that is made to fit a limit: the buffers get fewer last.
const SQ_ENTRIES_MIN: u32 = 64;
const CQ_ENTRIES_MIN: u32 = 512;
const RECV_BUFFERS_MIN: u16 = 256;

impl Config {
    /// The memory that the kernel locks for such a ring.
    pub fn locked_bytes(&self) -> u64 {
        let (sq, cq) = (u64::from(self.sq_entries), u64::from(self.cq_entries));
        let queues = cq * CQE_BYTES + sq * SQ_INDEX_BYTES + QUEUES_HEAD_BYTES;
        let buffers = u64::from(self.recv_buffers) * BUFFER_ENTRY_BYTES;
        let bulk = u64::from(self.bulk_buffers) * BUFFER_ENTRY_BYTES;
        [sq * SQE_BYTES, queues, buffers, bulk]
            .map(|bytes| bytes.next_multiple_of(PAGE_BYTES))
            .iter()
            .sum()
    }

    /// The next smaller ring, which needs more system calls for the same work; None for the
    /// smallest.
    pub fn smaller(&self) -> Option<Self> {
        let sq_entries = (self.sq_entries / 2).max(SQ_ENTRIES_MIN);
        let cq_entries = (self.cq_entries / 2).max(CQ_ENTRIES_MIN);
        if sq_entries < self.sq_entries && cq_entries < self.cq_entries {
            return Some(Self { sq_entries, cq_entries, ..*self });
        }
        let recv_buffers = (self.recv_buffers / 2).max(RECV_BUFFERS_MIN);
        (recv_buffers < self.recv_buffers).then_some(Self { recv_buffers, ..*self })
    }

    /// The smallest ring that [`Self::smaller`] leads to.
    pub fn smallest(&self) -> Self {
        let mut config = *self;
        while let Some(smaller) = config.smaller() {
            config = smaller;
        }
        config
    }

    /// The largest of these sizes with which `rings` rings fit into `bytes`; None if not even the
    /// smallest do.
    pub fn fit(&self, rings: u32, bytes: u64) -> Option<Self> {
        let sizes = std::iter::successors(Some(*self), Self::smaller);
        sizes.into_iter().find(|config| u64::from(rings) * config.locked_bytes() <= bytes)
    }

    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let is_count = |count: u16| count.is_power_of_two() && count <= RECV_BUFFERS_LIMIT;
        if !is_count(self.recv_buffers) || !is_count(self.bulk_buffers) {
            return Err(
                "each of recv_buffers and bulk_buffers must be a power of two, at most 32768",
            );
        }
        let is_length = |bytes: u32| (1..=1 << 30).contains(&bytes);
        if !is_length(self.recv_buffer_bytes) || !is_length(self.bulk_buffer_bytes) {
            return Err("recv_buffer_bytes and bulk_buffer_bytes must be between 1 and 2^30");
        }
        if self.connections_max == 0 || self.connections_max > CONNECTIONS_LIMIT {
            return Err("connections_max must be between 1 and 2^24");
        }
        if self.sq_entries == 0 || self.cq_entries < self.sq_entries {
            return Err("cq_entries must be at least sq_entries, and sq_entries at least 1");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_get_smaller_until_they_fit() {
        let full = Config::default();
        assert_eq!(full.locked_bytes(), 405_504 + 16_384 + 4_096, "as Linux 6.18 counts");
        let entries = |rings, kib: u64| full.fit(rings, kib << 10).map(|config| config.sq_entries);
        assert_eq!(entries(8, 8_192), Some(2_048));
        assert_eq!(entries(32, 8_192), Some(1_024));
        assert_eq!(entries(128, 8_192), Some(128));
        assert_eq!(entries(1, 64), Some(128));
        assert_eq!(entries(4, 64), None);
        assert_eq!(full.smallest().locked_bytes(), 24_576);
    }

    #[test]
    fn a_ring_of_any_size_can_be_made() {
        let sizes = std::iter::successors(Some(Config::default()), Config::smaller);
        assert!(sizes.map(|config| crate::Ring::new(config).map(drop)).all(|made| made.is_ok()));
    }
}
