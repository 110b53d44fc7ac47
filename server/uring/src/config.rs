//! Sizes of a ring. Every queue has a limit; the defaults fit an RLIMIT_MEMLOCK of 8 MiB.

/// Sizes of one [`Ring`](crate::Ring). Numbers are entries unless the name says bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Submission queue; more operations than this in one turn cost further system calls.
    pub sq_entries: u32,
    /// Completion queue; past it the kernel keeps completions aside, none is lost.
    pub cq_entries: u32,
    /// Receive buffers shared by all connections: a power of two, at most 32768.
    pub recv_buffers: u16,
    /// Size of one receive buffer: the most that one `Received` event can carry.
    pub recv_buffer_bytes: u32,
    /// Connections held at the same time, at most [`CONNECTIONS_LIMIT`].
    pub connections_max: u32,
}

/// A connection's slot has 24 bits in the tag of an operation.
pub const CONNECTIONS_LIMIT: u32 = 1 << 24;
/// The kernel's own limit on a ring of provided buffers.
pub(crate) const RECV_BUFFERS_LIMIT: u16 = 1 << 15;
/// The kernel gathers at most UIO_MAXIOV buffers in one send.
pub(crate) const SEND_BUFFERS_MAX: usize = 1024;
/// A shorter response is copied behind the one before it: cheaper than a gather entry.
pub(crate) const SEND_COPY_BYTES_MAX: usize = 1024;
/// Output buffers stop growing by appending here; the next bytes start another one.
pub(crate) const SEND_APPEND_BYTES_MAX: usize = 64 * 1024;
/// Spare output buffers kept for reuse, and the largest one kept.
pub(crate) const SPARE_BUFFERS_MAX: usize = 1024;
pub(crate) const SPARE_BUFFER_BYTES_MAX: usize = 16 * 1024;

/// Spare buffers of slices kept for reuse, and the size in which they are made.
pub(crate) const SPARE_SLICES_MAX: usize = 32;
pub const SPARE_SLICE_BYTES_MAX: usize = 256 * 1024;

const _: () = assert!(SEND_COPY_BYTES_MAX < SEND_APPEND_BYTES_MAX);
const _: () = assert!(SPARE_BUFFERS_MAX * SPARE_BUFFER_BYTES_MAX <= 16 << 20);
const _: () = assert!(SPARE_SLICES_MAX * SPARE_SLICE_BYTES_MAX <= 16 << 20);

impl Default for Config {
    fn default() -> Self {
        Self {
            sq_entries: 2048,
            cq_entries: 16384,
            recv_buffers: 1024,
            recv_buffer_bytes: 8192,
            connections_max: 1 << 16,
        }
    }
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let buffers = self.recv_buffers;
        if !buffers.is_power_of_two() || buffers > RECV_BUFFERS_LIMIT {
            return Err("recv_buffers must be a power of two, at most 32768");
        }
        if self.recv_buffer_bytes == 0 || self.recv_buffer_bytes > 1 << 30 {
            return Err("recv_buffer_bytes must be between 1 and 2^30");
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
