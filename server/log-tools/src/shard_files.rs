//! Reads the segments of a shard's log block by block. Damage that recovery would refuse is skipped
//! and reported. What counts as damage is up to recovery
//! ([`read_log`](muster_server::shard::read_log)).

use crate::segment_file::names;
use muster_codec::record_batch::Batch;
use muster_server::Failure;
use muster_server::shard::log_directory;
use muster_server::topics::RULES;
use muster_storage::LogPartition;
use muster_storage::layout::{Block, SegmentHeader};
use muster_storage::limits::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN};
use muster_storage::shard_log::recovery::segment_files;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The directory of a shard.
#[derive(Debug)]
pub(super) struct ShardFiles {
    /// The path relative to the data directory.
    pub(super) name: PathBuf,
    pub(super) directory: PathBuf,
    /// The sequence numbers and names of the segments.
    pub(super) segments: Vec<(u64, String)>,
}

/// The content of a segment.
#[derive(Debug)]
pub(super) struct SegmentBytes {
    pub(super) sequence: u64,
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    /// None if the segment was never completed, or is damaged.
    pub(super) header: Option<SegmentHeader>,
    /// The number of an earlier, compacted segment that replaces this one.
    pub(super) replaced_by: Option<u64>,
}

/// A piece of a segment.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    Block {
        at: usize,
        block: Block<'a>,
    },
    /// Bytes that are no block, although further blocks of the segment follow them.
    Unreadable {
        at: usize,
        until: usize,
    },
    End {
        at: usize,
        end: End,
    },
}

/// The kind of bytes after the last block of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// None: the segment is full.
    Full,
    /// Zeros.
    Zeros,
    /// Blocks of an earlier segment, whose file was reused for this segment.
    Former,
    /// Bytes that are not a block.
    Torn,
}

impl ShardFiles {
    pub(super) fn open(data: &Path, shards: u32, number: u32) -> Result<Self, Failure> {
        let name = log_directory(shards, number);
        let directory = data.join(&name);
        let segments = segment_files(names(&directory)?);
        Ok(Self { name, directory, segments })
    }

    /// Reads the segments one after the other. A running server may remove a segment meanwhile,
    /// because of its compaction. The path of such a segment is passed to `gone`.
    pub(super) fn each(
        &self,
        mut visit: impl FnMut(&SegmentBytes) -> Result<(), Failure>,
        mut gone: impl FnMut(&Path) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut standing: Option<SegmentHeader> = None;
        for (sequence, name) in &self.segments {
            let path = self.directory.join(name);
            let bytes = match fs::read(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    gone(&path)?;
                    continue;
                }
                read => read.map_err(|error| format!("could not read {}: {error}", path.display())),
            }?;
            let header = usable_header(&bytes, *sequence);
            let replaced_by =
                standing.filter(|it| *sequence <= it.last_sequence()).map(|it| it.sequence);
            visit(&SegmentBytes { sequence: *sequence, path, bytes, header, replaced_by })?;
            if replaced_by.is_none() {
                standing = header.or(standing);
            }
        }
        Ok(())
    }

    /// Passes all readable batches, with their partitions, to `visit`.
    pub(super) fn each_batch(
        &self,
        mut visit: impl FnMut(LogPartition, &Batch<'_>),
    ) -> Result<(), Failure> {
        let each_block = |segment: &SegmentBytes| {
            for piece in segment.pieces() {
                let Piece::Block { block, .. } = piece else { continue };
                for (partition, batch) in block.entries(RULES).flatten() {
                    visit(partition, &batch);
                }
            }
            Ok(())
        };
        self.each(each_block, |_| Ok(()))
    }
}

/// The header of a segment. None unless its block size is valid and its sequence number is that of
/// the file's name.
fn usable_header(bytes: &[u8], sequence: u64) -> Option<SegmentHeader> {
    let (header, _) = SegmentHeader::read(bytes).ok()?;
    let sizes = BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX;
    let is_usable = header.sequence == sequence
        && sizes.contains(&header.block_bytes)
        && header.block_bytes.is_power_of_two();
    is_usable.then_some(header)
}

impl SegmentBytes {
    /// The pieces of the segment. None if its header is unusable, or if another segment replaces
    /// it.
    pub(super) fn pieces(&self) -> Pieces<'_> {
        let header = self.header.filter(|_| self.replaced_by.is_none());
        let at = header.map_or(0, |header| header.block_bytes as usize);
        let len = header.map_or(0, |header| self.bytes.len().min(header.segment_bytes as usize));
        Pieces { header, bytes: &self.bytes[..len], at, ended: header.is_none() }
    }
}

pub(super) struct Pieces<'a> {
    header: Option<SegmentHeader>,
    bytes: &'a [u8],
    at: usize,
    ended: bool,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let header = self.header.filter(|_| !self.ended)?;
        let (at, block_bytes) = (self.at, header.block_bytes as usize);
        if let Some(block) = self.block_at(&header, at) {
            self.at += block.padded_len(header.block_bytes);
            return Some(Piece::Block { at, block });
        }
        let rest = (at + block_bytes..self.bytes.len()).step_by(block_bytes);
        if let Some(until) = rest.into_iter().find(|it| self.block_at(&header, *it).is_some()) {
            self.at = until;
            return Some(Piece::Unreadable { at, until });
        }
        self.ended = true;
        Some(Piece::End { at: at.min(self.bytes.len()), end: self.end(at) })
    }
}

impl<'a> Pieces<'a> {
    /// The block at an offset, if it is whole and belongs to this segment.
    fn block_at(&self, header: &SegmentHeader, at: usize) -> Option<Block<'a>> {
        let block = Block::read(self.bytes.get(at..)?).ok()?;
        let of = (block.header.log_id, block.header.segment);
        (of == (header.log_id, header.sequence)).then_some(block)
    }

    fn end(&self, at: usize) -> End {
        match self.bytes.get(at..) {
            None | Some([]) => End::Full,
            Some(rest) if Block::read(rest).is_ok() => End::Former,
            Some(rest) if rest.iter().all(|byte| *byte == 0) => End::Zeros,
            Some(_) => End::Torn,
        }
    }
}
