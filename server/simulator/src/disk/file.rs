//! One file: the bytes that the process sees, the durable bytes, and the changes that are seen but
//! not durable yet.

use std::ops::Range;
use std::path::PathBuf;

/// A change that a process made to a file, which may not be on the disk yet.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) id: u64,
    pub(super) what: What,
    /// Whether the process was notified of the completion. Until then a kill may undo the change.
    pub(super) done: bool,
}

#[derive(Debug, Clone)]
pub(super) enum What {
    Write { offset: u64, data: Vec<u8> },
    Truncate { len: u64 },
}

#[derive(Debug, Default)]
pub(super) struct File {
    /// The current name of the file, or its last name.
    pub(super) name: PathBuf,
    /// The bytes that a reader sees.
    pub(super) seen: Vec<u8>,
    /// The bytes that survive a power loss.
    pub(super) durable: Vec<u8>,
    /// Operations that are not durable yet, in the order of the requests.
    pub(super) pending: Vec<Change>,
}

impl What {
    pub(super) fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write { offset, data } => overwrite(bytes, *offset, data),
            Self::Truncate { len } => bytes.resize(*len as usize, 0),
        }
    }

    /// Whether the change alters or removes a byte of the range.
    fn changes(&self, range: &Range<usize>) -> bool {
        match self {
            Self::Write { offset, data } => {
                let start = *offset as usize;
                start < range.end && range.start < start + data.len()
            }
            Self::Truncate { len } => (*len as usize) < range.end,
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Write { offset: a, data: x }, Self::Write { offset: b, data: y }) => {
                *a < *b + y.len() as u64 && *b < *a + x.len() as u64
            }
            _ => true,
        }
    }
}

impl File {
    pub(super) fn durable_from(bytes: Vec<u8>) -> Self {
        Self { seen: bytes.clone(), durable: bytes, ..Self::default() }
    }

    /// Starts a change. It need not be complete or durable, but reads that start later return it.
    pub(super) fn change(&mut self, id: u64, what: What, done: bool) {
        what.apply(&mut self.seen);
        self.pending.push(Change { id, what, done });
    }

    /// Completes a change in the page cache.
    pub(super) fn done(&mut self, id: u64) {
        if let Some(change) = self.pending.iter_mut().find(|change| change.id == id) {
            change.done = true;
        }
    }

    /// Makes a change durable, and all earlier changes that overlap it: changes of the same bytes
    /// reach the disk in their order.
    pub(super) fn flushed(&mut self, id: u64) {
        let Some(at) = self.pending.iter().position(|change| change.id == id) else { return };
        let change = self.pending.remove(at);
        let mut kept = Vec::with_capacity(self.pending.len());
        for (place, before) in self.pending.drain(..).enumerate() {
            match place < at && before.what.overlaps(&change.what) {
                true => before.what.apply(&mut self.durable),
                false => kept.push(before),
            }
        }
        self.pending = kept;
        change.what.apply(&mut self.durable);
    }

    /// Makes these changes durable.
    pub(super) fn synced(&mut self, covers: &[u64]) {
        let mut kept = Vec::new();
        for change in self.pending.drain(..) {
            match covers.contains(&change.id) {
                true => change.what.apply(&mut self.durable),
                false => kept.push(change),
            }
        }
        self.pending = kept;
    }

    /// Whether a change of these bytes is not durable yet.
    pub(super) fn changes(&self, range: &Range<usize>) -> bool {
        self.pending.iter().any(|change| change.what.changes(range))
    }

    /// Computes the seen bytes again, from the durable bytes and the pending changes.
    pub(super) fn see_again(&mut self) {
        self.seen.clone_from(&self.durable);
        self.pending.iter().for_each(|change| change.what.apply(&mut self.seen));
    }
}

fn overwrite(bytes: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let (start, end) = (offset as usize, offset as usize + data.len());
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[start..end].copy_from_slice(data);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(offset: u64, data: &[u8]) -> What {
        What::Write { offset, data: data.to_vec() }
    }

    #[test]
    fn what_is_not_flushed_is_seen_but_not_durable() {
        let mut file = File::default();
        file.change(1, write(0, b"ab"), false);
        assert_eq!((&file.seen[..], &file.durable[..]), (&b"ab"[..], &b""[..]));
        file.flushed(1);
        assert_eq!(file.durable, b"ab");
    }

    #[test]
    fn a_sync_covers_changes_that_were_done_before() {
        let mut file = File::default();
        file.change(1, write(0, b"ab"), true);
        file.change(2, write(2, b"cd"), true);
        file.synced(&[1]);
        assert_eq!(file.durable, b"ab");
        file.see_again();
        assert_eq!(file.seen, b"abcd");
    }

    #[test]
    fn an_older_change_of_the_same_bytes_does_not_come_back() {
        let mut file = File::default();
        file.change(1, write(0, b"old"), true);
        file.change(2, write(0, b"new"), false);
        file.flushed(2);
        file.synced(&[1, 2]);
        assert_eq!(file.durable, b"new");
    }
}
