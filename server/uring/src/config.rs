//! The sizes of a ring. Every queue is limited, because the system may limit the memory that the
//! kernel locks for rings (RLIMIT_MEMLOCK).
//!
//! The smallest ring needs 24 KiB of locked memory, and the ring that `probe` creates at startup
//! needs as much again. If there is less, the server may use pollers instead.

/// The sizes of a [`Ring`](crate::Ring). Numbers count entries, unless their name says bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The size of the submission queue. If a turn has more operations, it needs further system
    /// calls.
    pub sq_entries: u32,
    /// The size of the completion queue. The kernel stores further completions elsewhere and loses
    /// none.
    pub cq_entries: u32,
    /// The number of receive buffers shared by all connections that send little. A power of two, at
    /// most 32768.
    pub recv_buffers: u16,
    /// The size of each receive buffer. If a receive fills a buffer, the connection counts as
    /// sending much. For a connection without priority, a receive of `ONCE_BYTES` is enough for
    /// that.
    pub recv_buffer_bytes: u32,
    /// The number of receive buffers that all connections that send much share, and their size. The
    /// product limits how much one turn receives from all these connections.
    pub bulk_buffers: u16,
    pub bulk_buffer_bytes: u32,
    /// The most connections at a time; at most [`CONNECTIONS_LIMIT`].
    pub connections_max: u32,
}

/// The limit on connections. The tag of an operation has 24 bits for the number of its connection.
pub const CONNECTIONS_LIMIT: u32 = 1 << 24;
/// The kernel's limit on the number of provided buffers.
pub(crate) const RECV_BUFFERS_LIMIT: u16 = 1 << 15;
/// The most bytes received at once from a connection without priority.
pub(crate) const ONCE_BYTES: u32 = 2048;
/// A receive of fewer bytes than `SMALL_BYTES` is small. If a connection that counts as sending
/// much has `SMALL_MIN` small receives in a row, it counts as sending little again.
pub(crate) const SMALL_BYTES: usize = 2048;
pub(crate) const SMALL_MIN: u8 = 8;
/// The most buffers that the kernel fills at once for a connection.
pub(crate) const BUFFERS_AT_ONCE: u16 = 32;
/// The most descriptors closed in a turn. Closing one frees its unread bytes in the kernel, which
/// takes time.
pub(crate) const CLOSES_PER_TURN: usize = 16;
/// The most buffers in one send: the kernel's UIO_MAXIOV.
pub(crate) const SEND_BUFFERS_MAX: usize = 1024;
/// A response of at most this size is copied to the end of the previous one. That is cheaper than
/// to send it from a buffer of its own with sendmsg(2).
pub(crate) const SEND_COPY_BYTES_MAX: usize = 1024;
/// Output buffers grow up to this size; further bytes go to a new one.
pub(crate) const SEND_APPEND_BYTES_MAX: usize = 64 * 1024;
/// The most spare output buffers that are kept for reuse, and the size of the largest.
pub(crate) const SPARE_BUFFERS_MAX: usize = 1024;
pub(crate) const SPARE_BUFFER_BYTES_MAX: usize = 16 * 1024;

/// The most spare slice buffers that are kept for reuse, and the size with which they are created.
pub(crate) const SPARE_SLICES_MAX: usize = 32;
pub const SPARE_SLICE_BYTES_MAX: usize = 256 * 1024;
/// How many bytes are read ahead when a part of a file was not in the page cache: those that follow
/// the part. As many as a slice has, and twice the kernel's default.
pub(crate) const READ_AHEAD_BYTES: u32 = 256 * 1024;
/// Once a turn has started slices with this many bytes in total, which take some 200 microseconds,
/// it starts no more.
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

/// The sizes of the kernel's queue entries, and of the head of its queues.
const SQE_BYTES: u64 = 64;
const SQ_INDEX_BYTES: u64 = 4;
const CQE_BYTES: u64 = 16;
const BUFFER_ENTRY_BYTES: u64 = 16;
const QUEUES_HEAD_BYTES: u64 = 256;
const PAGE_BYTES: u64 = 4096;

/// The sizes of the smallest ring. To fit a limit, the queues shrink first and the buffers last.
const SQ_ENTRIES_MIN: u32 = 64;
const CQ_ENTRIES_MIN: u32 = 512;
const RECV_BUFFERS_MIN: u16 = 256;

impl Config {
    /// The memory in bytes that the kernel locks for a ring of these sizes.
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

    /// The next smaller ring, which needs more system calls for the same work. None if this is the
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

    /// The smallest ring.
    pub fn smallest(&self) -> Self {
        let mut config = *self;
        while let Some(smaller) = config.smaller() {
            config = smaller;
        }
        config
    }

    /// The largest sizes with which `rings` rings fit into `bytes`: these sizes or smaller ones.
    /// None if not even the smallest rings fit.
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
