//! The bytes that wait to be sent on a connection.

use bytes::{Buf, Bytes};
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(crate) struct Unsent {
    pieces: VecDeque<Bytes>,
    bytes: usize,
}

impl Unsent {
    pub(crate) fn add(&mut self, piece: Bytes) {
        self.bytes += piece.len();
        self.pieces.push_back(piece);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The pieces in their order, for a vectored write.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        self.pieces.iter()
    }

    /// The first bytes are sent.
    ///
    /// # Panics
    /// If there are not as many.
    pub(crate) fn sent(&mut self, mut bytes: usize) {
        self.bytes = self.bytes.checked_sub(bytes).expect("these bytes were to be sent");
        while let Some(first) = self.pieces.front_mut().filter(|_| bytes > 0) {
            let part = bytes.min(first.len());
            first.advance(part);
            bytes -= part;
            self.pieces.pop_front_if(|it| it.is_empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_leave_in_any_parts() {
        for part in 1..=10 {
            let (mut unsent, mut sent) = (Unsent::default(), Vec::new());
            for piece in ["abc", "d", "efghij"] {
                unsent.add(Bytes::from_static(piece.as_bytes()));
            }
            while unsent.bytes() > 0 {
                let left: Vec<u8> = unsent.pieces().flatten().copied().collect();
                assert_eq!(left.len(), unsent.bytes());
                let part = part.min(left.len());
                sent.extend(&left[..part]);
                unsent.sent(part);
            }
            assert_eq!((sent, unsent.pieces().count()), (b"abcdefghij".to_vec(), 0));
        }
    }

    #[test]
    #[should_panic = "these bytes were to be sent"]
    fn no_more_is_sent_than_there_is() {
        Unsent::default().sent(1);
    }
}
