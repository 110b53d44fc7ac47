//! Rewrites a damaged log. The caller has the whole state in memory and appends all of it again, as
//! records. So each existing key has a newer record, and the records of deleted keys may disappear.
//! All earlier segments are then replaced, without reading them, by a segment that contains only
//! the end offsets of partitions.

use super::output::{Output, Purpose};
use super::pass::{Pass, Source};
use super::{Compaction, CompactionConfig, CompactionNews, Rewrite, ShardLog, Superseded};
use crate::file_op::FileOp;
use crate::layout::Format;
use crate::shard_log::partitions::Partition;
use crate::shard_log::recovery::segment_file_name;
use std::path::PathBuf;

/// A block contains at least this number of end offsets, if there are enough. It is then about as
/// long as other compacted blocks.
const ENDS_OF_BLOCK: usize = 1_000;

impl ShardLog {
    /// Begins a rewrite: the next block begins a new segment. The caller then appends the whole
    /// state as it is at that time, and calls [`Self::end_rewrite`] once it is durable. A crash
    /// before that leaves the log with its old segments.
    ///
    /// Returns None if a file operation has to complete first, or a rewrite is in progress.
    pub fn begin_rewrite(&mut self) -> Option<Superseded> {
        assert!(self.replicated.is_none(), "a damaged replica is restored from others");
        let Compaction { is_waiting, rewrite, .. } = self.compaction;
        let is_busy = is_waiting || rewrite.is_under_way() || self.in_flight.is_some();
        if is_busy || !self.segments.seal() {
            return None;
        }
        self.give_up();
        self.compaction.rewrite = Rewrite::Appending;
        let last_sequence = self.segments.sealed_end() - 1;
        Some(Superseded { position: self.progress.submitted(), last_sequence })
    }

    /// Replaces the superseded segments and keeps their files in the directory `kept_in`.
    /// [`CompactionNews::Rewritten`] reports the completion.
    pub fn end_rewrite(&mut self, superseded: Superseded, kept_in: PathBuf) {
        assert_eq!(self.compaction.rewrite, Rewrite::Appending, "no rewrite has begun");
        self.compaction.rewrite = Rewrite::Due(superseded);
        self.compaction.kept_in = Some(kept_in);
        (self.compaction.gave_up, self.compaction.not_before) = (false, 0);
    }

    /// The pass that replaces the superseded segments.
    pub(super) fn replacement(
        &mut self,
        superseded: Superseded,
        now: i64,
        config: &CompactionConfig,
    ) -> Option<Pass> {
        let Superseded { position, last_sequence } = superseded;
        let sealed = self.segments.sealed().filter(|(sequence, _)| *sequence <= last_sequence);
        let sources = sealed.map(|(sequence, segment)| Source { sequence, segment: *segment });
        let sources: Vec<_> = sources.collect();
        let Some(first) = sources.first().filter(|_| position > 0) else {
            self.rewritten(superseded);
            return None;
        };
        let rules = self.rules(self.wall(now), config);
        let mut output = Output::new(Purpose {
            format: Format::Alone,
            log_id: rules.log_id,
            block_bytes: rules.block_bytes,
            align: rules.block_bytes,
            sequence: first.sequence,
            first_position: self.segments.last_position_before(first.sequence) + 1,
            pass: rules.pass,
        });
        let end = |it: &Partition| it.next_offset_in(last_sequence).max(it.skipped_to);
        let ends = self.partitions.iter().map(|(at, it)| (at, end(it)));
        let ends: Vec<_> = ends.filter(|(_, end)| *end > 0).collect();
        // There must not be more blocks than positions, because each block needs its own position.
        let of_block = ends.len().div_ceil(position as usize).max(ENDS_OF_BLOCK);
        let blocks = ends.chunks(of_block);
        let first = position + 1 - blocks.len() as u64;
        for (ends, position) in blocks.zip(first..) {
            if let Err(error) = output.end_partitions(ends, position) {
                unreachable!("a batch without records cannot be read: {error}");
            }
        }
        output.dropped_before(position);
        output.finish(last_sequence, position);
        Some(Pass::replacing(rules, sources, output))
    }

    /// Gives the superseded segments' files second names in `kept_in` before they are replaced, so
    /// that the damage can be analyzed.
    pub(super) fn keep_replaced(&mut self, first: u64, last: u64, ops: &mut Vec<FileOp>) {
        let Some(kept_in) = self.compaction.kept_in.take() else { return };
        for sequence in self.segments.sequences(first, last) {
            let name = kept_in.join(segment_file_name(sequence));
            // The file also keeps its old name: if the server stops before the new segment replaces
            // it, the next startup needs it under this name.
            ops.push(FileOp::Keep { path: self.path(sequence), name, may_move: false });
        }
    }

    /// Notes that a rewrite is completed: the superseded segments are replaced. Data that was read
    /// from them is no longer valid. Compaction may continue.
    pub(super) fn rewritten(&mut self, superseded: Superseded) {
        let Compaction { rewrite, is_broken, invalidations, news, .. } = &mut self.compaction;
        (*rewrite, *is_broken) = (Rewrite::None, false);
        *invalidations += 1;
        *news = Some(CompactionNews::Rewritten { position: superseded.position });
    }
}
