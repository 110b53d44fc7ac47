//! Buffers that are kept for reuse: those of output, and those of slices.

use crate::aligned::AlignedBuf;
use crate::config::{
    SPARE_BUFFER_BYTES_MAX, SPARE_BUFFERS_MAX, SPARE_SLICE_BYTES_MAX, SPARE_SLICES_MAX,
};
use crate::slice::Slice;

/// Output buffers.
#[derive(Debug, Default)]
pub(crate) struct SpareBuffers(Vec<Vec<u8>>);

impl SpareBuffers {
    /// An empty buffer. It reuses the memory of a sent buffer, if possible.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    pub(crate) fn keep(&mut self, mut buffer: Vec<u8>) {
        let worth = 1..=SPARE_BUFFER_BYTES_MAX;
        if worth.contains(&buffer.capacity()) && self.0.len() < SPARE_BUFFERS_MAX {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}

/// Buffers of slices. The one that was kept last is reused first: its memory is in the core's
/// cache.
#[derive(Debug, Default)]
pub(crate) struct SpareSlices(Vec<AlignedBuf>);

impl SpareSlices {
    /// An empty slice with a buffer.
    pub(crate) fn take(&mut self) -> Slice {
        let buf = self.0.pop();
        Slice::new(buf.unwrap_or_else(|| AlignedBuf::with_capacity(SPARE_SLICE_BYTES_MAX)))
    }

    /// Drops a slice and keeps its buffer.
    pub(crate) fn keep(&mut self, slice: Slice) {
        let mut buf = slice.buf;
        let is_worth = buf.capacity() <= SPARE_SLICE_BYTES_MAX;
        if is_worth && self.0.len() < SPARE_SLICES_MAX {
            buf.clear();
            self.0.push(buf);
        }
    }
}
