//! Damage to files that no write causes: bytes change, ends of files are lost, names are lost.

use super::{Disk, Inode};
use muster_codec::record_batch::Batches;
use muster_storage::layout::{Block, SegmentHeader};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Blocks begin at multiples of this number.
const BLOCK_STEP: usize = 512;

impl Disk {
    /// The segments of the log in a directory, each with its durable blocks. Leaves out segments
    /// without such blocks.
    pub(crate) fn segments(&self, directory: &Path) -> Vec<(PathBuf, Inode, Vec<Range<usize>>)> {
        let is_segment = |path: &Path| {
            path.parent() == Some(directory) && path.extension().is_some_and(|it| it == "log")
        };
        let segments = self.names.iter().filter(|(path, _)| is_segment(path));
        let segments = segments.map(|(path, it)| (path.clone(), *it, self.blocks(*it)));
        segments.filter(|(_, _, blocks)| !blocks.is_empty()).collect()
    }

    /// The durable blocks of a segment, without blocks of an earlier use of the file.
    fn blocks(&self, segment: Inode) -> Vec<Range<usize>> {
        let bytes = &self.files[segment.0].durable;
        let Ok((SegmentHeader { sequence, log_id, .. }, _)) = SegmentHeader::read(bytes) else {
            return Vec::new();
        };
        let block = |at: usize| {
            let header = Block::read(&bytes[at..]).ok()?.header;
            let is_its_own = (header.segment, header.log_id) == (sequence, log_id);
            let len = Block::claimed_len(&bytes[at..]).ok()?;
            is_its_own.then_some(at..at + len)
        };
        (0..bytes.len()).step_by(BLOCK_STEP).filter_map(block).collect()
    }

    /// The durable batches in segments of partitions, each with its byte range in the file. Leaves
    /// out those that a pending change will remove, such as a torn end that recovery cuts off.
    pub(crate) fn batches(
        &self,
        is_wanted: impl Fn(&Path) -> bool,
    ) -> Vec<(PathBuf, Inode, Range<usize>)> {
        let mut all = Vec::new();
        let is_segment = |path: &Path| path.extension().is_some_and(|it| it == "log");
        let wanted = self.names.iter().filter(|(path, _)| is_segment(path) && is_wanted(path));
        for (path, inode) in wanted {
            let (mut at, file) = (0, &self.files[inode.0]);
            for batch in Batches::new(&file.durable).map_while(Result::ok) {
                let place = at..at + batch.bytes.len();
                at = place.end;
                if !file.changes(&place) {
                    all.push((path.clone(), *inode, place));
                }
            }
        }
        all
    }

    /// Flips a bit of a durable byte.
    pub(crate) fn flip(&mut self, inode: Inode, at: usize, bit: u64) {
        let file = &mut self.files[inode.0];
        file.durable[at] ^= 1 << bit;
        file.see_again();
    }

    /// Cuts a file short.
    pub(crate) fn cut(&mut self, inode: Inode, len: usize) {
        let file = &mut self.files[inode.0];
        file.durable.truncate(len);
        file.see_again();
    }

    /// Removes a name durably. A process that has the file open notices nothing.
    pub(crate) fn lose(&mut self, path: &Path) {
        self.names.remove(path);
        self.created.retain(|created| created != path);
    }

    /// The paths of the files with this name.
    pub(crate) fn named(&self, name: &str) -> Vec<PathBuf> {
        self.names.keys().filter(|path| path.ends_with(name)).cloned().collect()
    }

    /// Moves a directory away, durably.
    pub(crate) fn move_away(&mut self, directory: &Path) {
        self.names.retain(|path, _| path.parent() != Some(directory));
        self.created.retain(|path| path.parent() != Some(directory));
        self.removed.retain(|(path, _)| path.parent() != Some(directory));
        self.moved.insert(directory.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::record_batch::BatchBuilder;

    #[test]
    fn a_batch_that_was_cut_off_does_not_rot() {
        let mut builder = BatchBuilder::default();
        builder.append(0, &(&b"key"[..], Some(&b"value"[..])));
        let batch = builder.seal(0, -1).to_vec();
        let (path, len) = (Path::new("topic/0.log"), batch.len());
        let mut disk = Disk::default();
        disk.put(path.into(), [batch.clone(), batch].concat());
        let places = |disk: &Disk| -> Vec<_> {
            disk.batches(|_| true)
                .into_iter()
                .map(|(_, _, place)| (place.start, place.end))
                .collect()
        };
        assert_eq!(places(&disk), [(0, len), (len, 2 * len)]);
        let inode = disk.look(path).unwrap().0;
        disk.truncate(inode, len as u64);
        assert_eq!(places(&disk), [(0, len)]);
    }
}
