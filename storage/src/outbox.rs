//! A queue of bytes: appends to it have any size, and are written to disk in pieces of a fixed
//! size.

/// A queue of bytes.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// The bytes of `buffer` from the index `taken` on are queued. The others were taken already.
    buffer: Vec<u8>,
    taken: usize,
}

impl Outbox {
    pub(crate) fn len(&self) -> usize {
        self.buffer.len() - self.taken
    }

    /// The buffer to append to.
    pub(crate) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Moves the first `len` bytes into `out`, or all if there are fewer.
    pub(crate) fn take(&mut self, len: usize, out: &mut Vec<u8>) {
        let end = self.taken + len.min(self.len());
        out.extend_from_slice(&self.buffer[self.taken..end]);
        self.taken = end;
        // A removal moves all the bytes that are left. So taken bytes are removed only when they
        // are more than half of the buffer: after one long append, a removal in each call would
        // take too long.
        if self.taken > self.buffer.len() / 2 {
            self.buffer.drain(..self.taken);
            self.taken = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_in_the_order_of_their_appends() {
        let (mut outbox, mut out) = (Outbox::default(), Vec::new());
        for piece in [&b"one "[..], b"", b"two three ", b"four"] {
            outbox.end().extend_from_slice(piece);
            outbox.take(5, &mut out);
        }
        assert_eq!((out.len(), outbox.len()), (14, 4));
        outbox.take(99, &mut out);
        assert_eq!((out.as_slice(), outbox.len()), (&b"one two three four"[..], 0));
        assert!(outbox.end().is_empty(), "taken bytes are not kept");
    }
}
