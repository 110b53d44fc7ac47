//! The buffers of long frames. Each is allocated once for the whole frame, and released in parts.
//! Copying 64 MiB into a larger buffer would take some 50 ms, and releasing 100 MiB at once some 9
//! ms.

/// When an input buffer has this size, it is enlarged once, to the length of the whole frame.
/// Memory that is reserved in this way is not used until bytes are written to it.
const RESERVED_FROM_BYTES: usize = 256 << 10;

/// A buffer with fewer bytes is released at once.
const LARGE_BYTES: usize = 1 << 20;

/// The number of bytes whose memory one turn releases. Connections that send much deliver at most
/// half as many bytes in a turn.
const PART_BYTES: usize = 1 << 20;

/// Appends received bytes to the input. `length` returns the length of the input's frame, if it is
/// known.
pub(super) fn append(
    input: &mut Vec<u8>,
    received: &[u8],
    length: impl FnOnce(&[u8]) -> Option<usize>,
) {
    let has_room = input.capacity() - input.len() >= received.len();
    if input.len() >= RESERVED_FROM_BYTES
        && !has_room
        && let Some(length) = length(input)
    {
        // If the memory cannot be reserved, the buffer grows as the frame arrives.
        let _ = input.try_reserve_exact(length.saturating_sub(input.len()));
    }
    input.extend_from_slice(received);
}

/// Large buffers whose memory is being released.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl Leaving {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a buffer of which `used` bytes were filled, if it is large. Returns the number of added
    /// bytes.
    pub(super) fn add(&mut self, mut buffer: Vec<u8>, used: usize) -> usize {
        let before = self.bytes;
        if used >= LARGE_BYTES {
            buffer.clear();
            buffer.shrink_to(used);
            self.push(buffer);
        }
        self.bytes - before
    }

    /// Releases the next part. Returns its bytes.
    pub(super) fn release_part(&mut self) -> usize {
        let before = self.bytes;
        if let Some(mut buffer) = self.buffers.pop() {
            self.bytes -= buffer.capacity();
            if buffer.capacity() > PART_BYTES {
                buffer.shrink_to(buffer.capacity() - PART_BYTES);
                self.push(buffer);
            }
        }
        before - self.bytes
    }

    fn push(&mut self, buffer: Vec<u8>) {
        self.bytes += buffer.capacity();
        self.buffers.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_frame_is_not_copied_while_it_grows() {
        const FRAME_BYTES: usize = 32 << 20;
        let (mut input, mut places) = (Vec::new(), Vec::new());
        while input.len() < FRAME_BYTES {
            append(&mut input, &[1; 8 << 10], |_| Some(FRAME_BYTES));
            if input.len() > 2 * RESERVED_FROM_BYTES {
                places.push(input.as_ptr());
            }
        }
        places.dedup();
        assert_eq!((places.len(), input.capacity()), (1, FRAME_BYTES));
    }

    #[test]
    fn the_memory_of_a_large_buffer_is_released_in_parts_and_counted_until_then() {
        let mut leaving = Leaving::default();
        assert_eq!(leaving.add(vec![1; LARGE_BYTES - 1], LARGE_BYTES - 1), 0);
        assert_eq!(leaving.bytes(), 0);
        let large = 5 * PART_BYTES / 2;
        assert_eq!(leaving.add(vec![1; large], large), large);
        let mut held = vec![leaving.bytes()];
        while leaving.bytes() > 0 {
            let released = leaving.release_part();
            held.push(leaving.bytes());
            assert_eq!(held[held.len() - 2] - released, leaving.bytes());
        }
        assert_eq!(held, [5, 3, 1, 0].map(|halves| halves * PART_BYTES / 2));
    }

    #[test]
    fn what_was_only_reserved_is_not_counted() {
        let mut buffer = Vec::with_capacity(100 << 20);
        buffer.resize(2 * LARGE_BYTES, 1);
        assert_eq!(Leaving::default().add(buffer, 2 * LARGE_BYTES), 2 * LARGE_BYTES);
    }
}
