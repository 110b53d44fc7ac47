//! Bytes that are appended in pieces of any size and written in others.

/// A queue of bytes.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// What waits: from `taken` on.
    buffer: Vec<u8>,
    taken: usize,
}

impl Outbox {
    pub(crate) fn len(&self) -> usize {
        self.buffer.len() - self.taken
    }

    /// Where bytes are appended.
    pub(crate) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Moves the first `len` bytes into `out`, or all if there are fewer.
    pub(crate) fn take(&mut self, len: usize, out: &mut Vec<u8>) {
        let end = self.taken + len.min(self.len());
        out.extend_from_slice(&self.buffer[self.taken..end]);
        self.taken = end;
        // What was appended at once may be much longer: what is left is moved now and then only.
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
    fn bytes_leave_as_they_came() {
        let (mut outbox, mut out) = (Outbox::default(), Vec::new());
        for piece in [&b"one "[..], b"", b"two three ", b"four"] {
            outbox.end().extend_from_slice(piece);
            outbox.take(5, &mut out);
        }
        assert_eq!((out.len(), outbox.len()), (14, 4));
        outbox.take(99, &mut out);
        assert_eq!((out.as_slice(), outbox.len()), (&b"one two three four"[..], 0));
        assert!(outbox.end().is_empty(), "what left is not kept");
    }
}
