//! `AlignedBuf`: an owned, page-aligned byte buffer, as O_DIRECT requires.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// The alignment of an [`AlignedBuf`], and the unit of its capacity: a page, in bytes.
pub const ALIGNMENT: usize = 4096;

/// An owned buffer whose start is page-aligned and whose capacity is a multiple of a page. It
/// dereferences to its first `len` bytes. All of its memory is initialised.
pub struct AlignedBuf {
    start: NonNull<u8>,
    len: usize,
    capacity: usize,
}

impl AlignedBuf {
    /// An empty buffer with space for at least `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        let capacity = capacity.max(1).next_multiple_of(ALIGNMENT);
        let layout = Self::layout(capacity);
        // SAFETY: the size of the layout is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Self { start, len: 0, capacity }
    }

    /// A buffer of `len` zeros.
    pub fn zeroed(len: usize) -> Self {
        let mut buf = Self::with_capacity(len);
        buf.len = len;
        buf
    }

    /// A buffer without memory, for operations that carry no bytes.
    pub(crate) const fn empty() -> Self {
        Self { start: NonNull::dangling(), len: 0, capacity: 0 }
    }

    /// The number of bytes that fit without reallocation.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Appends `bytes`; grows if necessary.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        self.reserve(end);
        // SAFETY: `reserve` made the capacity at least `end`, and all of it is initialised.
        let all = unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), end) };
        all[self.len..].copy_from_slice(bytes);
        self.len = end;
    }

    /// Sets the length. Cuts off the end of a longer buffer, and extends a shorter one with zeros.
    pub fn resize(&mut self, len: usize) {
        self.reserve(len);
        let old = std::mem::replace(&mut self.len, len);
        if len > old {
            self[old..].fill(0);
        }
    }

    /// Sets the length. Bytes that this adds are not cleared: they may be from an earlier use of
    /// the buffer.
    pub(crate) fn expose(&mut self, len: usize) {
        self.reserve(len);
        self.len = len;
    }

    /// Cuts off the end if the buffer is longer than `len`.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Empties the buffer and keeps its memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    fn reserve(&mut self, capacity: usize) {
        if capacity <= self.capacity {
            return;
        }
        let mut larger = Self::with_capacity(capacity.max(self.capacity * 2));
        larger.len = self.len;
        larger.copy_from_slice(self);
        *self = larger;
    }

    fn layout(capacity: usize) -> Layout {
        // If the capacity is too large for a layout, no allocator could provide it, either.
        Layout::from_size_align(capacity, ALIGNMENT)
            .unwrap_or_else(|_| handle_alloc_error(Layout::new::<Self>()))
    }
}

impl Default for AlignedBuf {
    fn default() -> Self {
        Self::with_capacity(ALIGNMENT)
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `self` owns `len <= capacity` initialised bytes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if self.capacity > 0 {
            // SAFETY: `with_capacity` allocated the memory with this very layout.
            unsafe { dealloc(self.start.as_ptr(), Self::layout(self.capacity)) }
        }
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuf({} of {} bytes)", self.len, self.capacity)
    }
}

// SAFETY: the buffer owns its memory, like a Vec<u8>.
unsafe impl Send for AlignedBuf {}
// SAFETY: a shared AlignedBuf can only be read.
unsafe impl Sync for AlignedBuf {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_and_keeps_its_bytes_aligned() {
        let mut buf = AlignedBuf::with_capacity(1);
        assert_eq!(buf.capacity(), ALIGNMENT);
        buf.extend_from_slice(&[7; ALIGNMENT]);
        buf.extend_from_slice(b"more");
        assert_eq!(buf.as_ptr() as usize % ALIGNMENT, 0);
        assert_eq!(&buf[ALIGNMENT - 1..], b"\x07more");
    }

    #[test]
    fn resize_pads_with_zeros_even_over_old_bytes() {
        let mut buf = AlignedBuf::default();
        buf.extend_from_slice(b"secret");
        buf.clear();
        buf.extend_from_slice(b"a");
        buf.resize(512);
        assert_eq!(buf.len(), 512);
        assert!(buf[1..].iter().all(|&b| b == 0));
    }
}
