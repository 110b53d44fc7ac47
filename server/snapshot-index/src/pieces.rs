//! A byte buffer that grows to tens of megabytes without copying its content.

use alloc::vec::Vec;

/// The size of each piece except the last.
const PIECE_BYTES: usize = 64 << 10;

/// A growing sequence of bytes.
#[derive(Debug, Default)]
pub struct Pieces {
    pieces: Vec<Vec<u8>>,
    len: usize,
}

impl Pieces {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends bytes.
    pub fn extend(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len();
        while !bytes.is_empty() {
            let piece = match self.pieces.last_mut().filter(|piece| piece.len() < PIECE_BYTES) {
                Some(piece) => piece,
                None => self.pieces.push_mut(Vec::with_capacity(PIECE_BYTES)),
            };
            let (now, later) = bytes.split_at(bytes.len().min(PIECE_BYTES - piece.len()));
            piece.extend_from_slice(now);
            bytes = later;
        }
    }

    /// Returns the bytes from `at` to the end of the piece that contains `at`, but at most `max`
    /// bytes. They are empty only if `at` is past the end.
    pub fn from(&self, at: usize, max: usize) -> &[u8] {
        let piece = self.pieces.get(at / PIECE_BYTES).map_or(&[][..], Vec::as_slice);
        let rest = piece.get(at % PIECE_BYTES..).unwrap_or_default();
        &rest[..rest.len().min(max)]
    }

    /// Overwrites the first bytes. They must exist and fit into the first piece.
    pub fn begin_with(&mut self, bytes: &[u8]) {
        self.pieces[0][..bytes.len()].copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_they_were_written() {
        let all: Vec<u8> = (0..3 * PIECE_BYTES + 5).map(|at| (at % 251) as u8).collect();
        let mut pieces = Pieces::default();
        all.chunks(1_000).for_each(|bytes| pieces.extend(bytes));
        assert_eq!(pieces.len(), all.len());
        let mut found = Vec::new();
        while found.len() < all.len() {
            let next = pieces.from(found.len(), 40_000);
            assert!((1..=40_000).contains(&next.len()));
            found.extend_from_slice(next);
        }
        assert_eq!(found, all);
        assert!(pieces.from(all.len(), 9).is_empty());
        pieces.begin_with(b"new");
        assert_eq!(pieces.from(0, 3), b"new");
    }
}
