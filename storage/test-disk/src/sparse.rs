//! The content of a sparsely written file.

use muster_storage::OpenMode;
use std::collections::BTreeMap;

/// The size of a piece.
const PIECE_BYTES: u64 = 4096;

/// The longest file, in bytes. No test writes more.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// A file as pieces; pieces of zeros are not stored.
#[derive(Debug, Clone, Default)]
pub struct SparseFile {
    len: u64,
    pieces: BTreeMap<u64, Vec<u8>>,
}

impl SparseFile {
    /// Writes `data` at `offset`.
    ///
    /// # Panics
    /// The file becomes too long.
    pub fn write(&mut self, offset: u64, data: &[u8], mode: OpenMode) {
        let end = offset + data.len() as u64;
        assert!(end <= FILE_BYTES_MAX, "a write at {offset}");
        self.len = self.len.max(end);
        // Data that begins with eight zero bytes consists of zeros, because each block of a shard's
        // log begins with a nonzero word.
        let is_durable = !mode.is_cached();
        if is_durable && data[..8] == [0; 8] {
            return self.pieces.retain(|at, _| !(offset..end).contains(at));
        }
        let mut at = offset;
        let mut rest = data;
        while !rest.is_empty() {
            let piece = at - at % PIECE_BYTES;
            let from = (at - piece) as usize;
            let (part, after) = rest.split_at(rest.len().min(PIECE_BYTES as usize - from));
            let bytes = self.pieces.entry(piece).or_insert_with(|| vec![0; PIECE_BYTES as usize]);
            bytes[from..from + part.len()].copy_from_slice(part);
            (at, rest) = (at + part.len() as u64, after);
        }
    }

    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Reads a range, up to the end of the file.
    pub fn read(&self, offset: u64, len: u32) -> Vec<u8> {
        let mut data = Vec::new();
        self.read_into(offset, len, &mut data);
        data
    }

    /// Appends a range, up to the end of the file, to `out`.
    pub fn read_into(&self, offset: u64, len: u32, out: &mut Vec<u8>) {
        let end = self.len.min(offset + u64::from(len)).max(offset);
        let begin = out.len();
        out.resize(begin + (end - offset) as usize, 0);
        let first = offset - offset % PIECE_BYTES;
        for (piece, bytes) in self.pieces.range(first..end.max(first)) {
            let (from, until) = (offset.max(*piece), end.min(piece + PIECE_BYTES));
            let part = &bytes[(from - piece) as usize..(until - piece) as usize];
            let at = begin + (from - offset) as usize;
            out[at..at + part.len()].copy_from_slice(part);
        }
    }

    pub fn truncate(&mut self, len: u64) {
        self.pieces.retain(|at, _| *at < len);
        if let Some((at, bytes)) = self.pieces.last_key_value() {
            let (at, kept) = (*at, (len - at).min(bytes.len() as u64) as usize);
            self.pieces.get_mut(&at).into_iter().for_each(|bytes| bytes[kept..].fill(0));
        }
        self.len = len;
    }

    /// The whole content.
    pub fn bytes(&self) -> Vec<u8> {
        self.read(0, self.len as u32)
    }
}
