//! The buffers of long frames. Each is allocated once for the whole frame, and released in parts.
//! Copying 64 MiB into a larger buffer would take some 50 ms, and releasing 100 MiB at once some 9
//! ms.

use super::account::Kind;
use super::connections::Connections;

/// From this size on a buffer is allocated for the whole frame. Only memory that is written to is
/// used.
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

    fn push(&mut self, buffer: Vec<u8>) {
        self.bytes += buffer.capacity();
        self.buffers.push(buffer);
    }

    fn release_part(&mut self) {
        let Some(mut buffer) = self.buffers.pop() else { return };
        self.bytes -= buffer.capacity();
        if buffer.capacity() > PART_BYTES {
            buffer.shrink_to(buffer.capacity() - PART_BYTES);
            self.push(buffer);
        }
    }
}

impl Connections {
    /// Releases the memory of a buffer for input, of which this number of bytes was used.
    pub(super) fn leave_input(&mut self, mut buffer: Vec<u8>, used: usize) {
        if used >= LARGE_BYTES {
            buffer.clear();
            buffer.shrink_to(used);
            self.account.take(Kind::Input, buffer.capacity());
            self.leaving.push(buffer);
        }
    }

    pub(super) fn is_releasing_input(&self) -> bool {
        self.leaving.bytes() > 0
    }

    /// Releases the next part.
    pub(super) fn release_input(&mut self) {
        let before = self.leaving.bytes();
        self.leaving.release_part();
        self.account.release(Kind::Input, before - self.leaving.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::Limits;
    use super::*;
    use crate::config::Config;

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
        let mut connections = Connections::unthrottled(Limits::of(&Config::default()));
        connections.leave_input(vec![1; LARGE_BYTES - 1], LARGE_BYTES - 1);
        assert_eq!(connections.account().total(), 0);
        connections.leave_input(vec![1; 5 * PART_BYTES / 2], 5 * PART_BYTES / 2);
        let mut held = vec![connections.account().held(Kind::Input)];
        while connections.leaving.bytes() > 0 {
            connections.release_input();
            assert_eq!(connections.account().held(Kind::Input), connections.input_bytes_held());
            held.push(connections.input_bytes_held());
        }
        assert_eq!(held, [5, 3, 1, 0].map(|halves| halves * PART_BYTES / 2));
    }

    #[test]
    fn what_was_only_reserved_is_not_counted() {
        let mut connections = Connections::unthrottled(Limits::of(&Config::default()));
        let mut buffer = Vec::with_capacity(100 << 20);
        buffer.resize(2 * LARGE_BYTES, 1);
        connections.leave_input(buffer, 2 * LARGE_BYTES);
        assert_eq!(connections.input_bytes_held(), 2 * LARGE_BYTES);
    }
}
