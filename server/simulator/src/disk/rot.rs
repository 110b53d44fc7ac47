//! Damage of files without a write: bytes change, ends are gone, names are lost.

use super::{Disk, Inode};
use muster_codec::record_batch::Batches;
use muster_storage::layout::{Block, SegmentHeader};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A block begins at a multiple of this.
const BLOCK_STEP: usize = 512;

impl Disk {
    /// The segments of the log in a directory that have durable blocks, each with these.
    pub(crate) fn segments(&self, directory: &Path) -> Vec<(PathBuf, Inode, Vec<Range<usize>>)> {
        let is_segment = |path: &Path| {
            path.parent() == Some(directory) && path.extension().is_some_and(|it| it == "log")
        };
        let segments = self.names.iter().filter(|(path, _)| is_segment(path));
        let segments = segments.map(|(path, it)| (path.clone(), *it, self.blocks(*it)));
        segments.filter(|(_, _, blocks)| !blocks.is_empty()).collect()
    }

    /// The durable blocks of a segment, without those that an earlier use of the file has left.
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

    /// The durable batches of partitions' segments, each with its place.
    pub(crate) fn batches(
        &self,
        is_wanted: impl Fn(&Path) -> bool,
    ) -> Vec<(PathBuf, Inode, Range<usize>)> {
        let mut all = Vec::new();
        let is_segment = |path: &Path| path.extension().is_some_and(|it| it == "log");
        let wanted = self.names.iter().filter(|(path, _)| is_segment(path) && is_wanted(path));
        for (path, inode) in wanted {
            let mut at = 0;
            for batch in Batches::new(&self.files[inode.0].durable).map_while(Result::ok) {
                let end = at + batch.bytes.len();
                all.push((path.clone(), *inode, at..end));
                at = end;
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

    /// A name is lost, durably; who has the file open notices nothing.
    pub(crate) fn lose(&mut self, path: &Path) {
        self.names.remove(path);
        self.created.retain(|created| created != path);
    }
}
