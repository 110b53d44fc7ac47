//! The segments of a log: assigns a place to each block, prepares the next segment, and reuses or
//! removes segments that compaction replaced.

use super::LogConfig;
use super::recovery::{Recovered, Tail};
use super::segment::Segment;
use crate::limits::{SPARE_SEGMENTS_MAX, ZERO_CHUNK_BYTES};
use std::collections::{BTreeMap, VecDeque};

/// Work on files other than writes of blocks. Steps run one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Fill a segment with zeros, chunk by chunk.
    Zero { segment: u64, from: u32, to: u32 },
    /// Make the recovered blocks durable by a sync.
    SyncTail { segment: u64 },
    /// Make the header of a recovered segment without blocks durable by a sync. The segment has
    /// this size.
    SyncReady { segment: u64, bytes: u32 },
    /// Write the header of a segment of this size, which is filled with zeros.
    Header { segment: u64, bytes: u32 },
    /// Rename the file of the replaced segment `from` to reuse it. The file may have disappeared.
    Recycle { from: u64, segment: u64 },
    /// Write the header of a segment whose file is reused.
    Reuse { segment: u64 },
}

#[derive(Debug)]
pub(crate) struct Segments {
    /// All segments by sequence number, including the active one and the prepared one (`ready`).
    list: BTreeMap<u64, Segment>,
    /// The segment that takes blocks.
    active: Option<u64>,
    /// The prepared segment that becomes the next active one.
    ready: Option<u64>,
    /// The sequence number of the next segment to prepare.
    next_sequence: u64,
    steps: VecDeque<Step>,
    /// Whether the first of `steps` is in progress.
    is_running: bool,
    is_tail_synced: bool,
    /// Replaced segments. They belong to the log again if the file of the new segment turns out to
    /// be gone.
    replaced: Vec<(u64, Segment)>,
    /// Files of replaced segments that will be reused.
    spare: VecDeque<u64>,
    /// Files of replaced segments that will be removed.
    retired: VecDeque<u64>,
    /// A backup may have linked the files of segments below this number, so none of these files is
    /// reused.
    named_before: u64,
    /// The length of a block that waits for a segment; 0 if none waits.
    needed: u32,
    /// The total size of the blocks that got a place.
    placed_bytes: u64,
    /// The highest [`Segment::dropped_position`] so far. Cached, because every turn reads it.
    dropped_position: u64,
}

impl Segments {
    pub(crate) fn new(config: &LogConfig, recovered: &mut Recovered) -> Self {
        let next_sequence = recovered.next_sequence();
        let dropped_position = recovered.dropped_position();
        let mut segments = Self {
            list: std::mem::take(&mut recovered.segments),
            active: None,
            ready: None,
            next_sequence,
            steps: VecDeque::new(),
            is_running: false,
            is_tail_synced: true,
            replaced: Vec::new(),
            spare: VecDeque::new(),
            retired: VecDeque::new(),
            named_before: 0,
            needed: 0,
            placed_bytes: 0,
            dropped_position,
        };
        if let Some(tail) = recovered.tail {
            segments.continue_at(config, tail);
        }
        segments.adopt_ready(config);
        for (sequence, leftover) in &recovered.leftovers {
            segments.retire(*sequence, leftover.as_ref(), config);
        }
        segments
    }

    /// Continues the log in the segment of the last block. This is impossible if the segment is
    /// compacted or has another format or block size than the config.
    fn continue_at(&mut self, config: &LogConfig, tail: Tail) {
        let Tail { segment: sequence, end, torn_end } = tail;
        let segment = self.list[&sequence];
        assert!(end <= segment.segment_bytes && torn_end <= segment.segment_bytes);
        self.is_tail_synced = false;
        let fits = (segment.format, segment.block_bytes) == (config.format, config.block_bytes);
        if fits && !segment.is_compacted() {
            self.active = Some(sequence);
            if torn_end > end {
                self.steps.push_back(Step::Zero { segment: sequence, from: end, to: torn_end });
            }
        }
        self.steps.push_back(Step::SyncTail { segment: sequence });
    }

    /// If the last segment has no blocks, prepares it to take the next ones. Its header is synced
    /// first, because a killed process may have left it in the page cache. If its format, block
    /// size or length is unsuitable, the segment is created again. But an unsuitable segment stays
    /// unused if it is the only one, because without it the log would seem to be missing.
    fn adopt_ready(&mut self, config: &LogConfig) {
        let Some((&sequence, last)) = self.list.last_key_value() else { return };
        if self.active == Some(sequence) || last.has_blocks() || last.is_compacted() {
            return;
        }
        let lengths = config.new_segment_bytes(sequence)..=config.segment_bytes;
        let is_alike = (last.format, last.block_bytes) == (config.format, config.block_bytes);
        let fits = is_alike && lengths.contains(&last.segment_bytes);
        if !fits && self.list.len() == 1 {
            return;
        }
        if fits {
            let bytes = last.segment_bytes;
            self.steps.push_back(Step::SyncReady { segment: sequence, bytes });
        }
        self.next_sequence = sequence;
        self.list.remove(&sequence);
    }

    /// Assigns a segment and a byte position in it to a block of `len` bytes. None until a segment
    /// with enough space is ready.
    ///
    /// # Panics
    /// No segment is long enough.
    pub(crate) fn place(&mut self, config: &LogConfig, len: u32) -> Option<(u64, u32)> {
        assert!(len <= config.available_bytes(), "a block longer than a segment");
        if !self.is_tail_synced {
            return None;
        }
        let fits = |segment: &Segment| len <= segment.segment_bytes - segment.end;
        let active = self.active.and_then(|active| self.list.get(&active));
        if !active.is_some_and(fits) {
            let next = self.ready.take()?;
            if !fits(&self.list[&next]) {
                // This segment is too short and stays without blocks. The next one will be long
                // enough.
                self.needed = len;
                return None;
            }
            let before = self.last_position_before(next);
            // There may be segments without blocks just before this one: after a restart, the log
            // may have continued in an earlier segment.
            let is_empty = |it: &&mut Segment| !it.has_blocks() && !it.is_compacted();
            let earlier = self.list.range_mut(..=next).rev().map(|(_, segment)| segment);
            earlier.take_while(is_empty).for_each(|segment| segment.last_position = before);
            self.active = Some(next);
        }
        let active = self.active?;
        let segment = self.segment_mut(active);
        assert!(fits(segment), "a segment that was found to be long enough");
        let at = segment.end;
        segment.end += len;
        self.placed_bytes += u64::from(len);
        Some((active, at))
    }

    /// Notes the position and the timestamp of a segment's last block.
    pub(crate) fn placed(&mut self, segment: u64, last_position: u64, timestamp: i64) {
        let segment = self.segment_mut(segment);
        segment.last_position = last_position;
        segment.time(timestamp);
    }

    /// The total size of the blocks written since the log was opened.
    pub(crate) fn placed_bytes(&self) -> u64 {
        self.placed_bytes
    }

    /// The total size of all segments, each up to the end of its blocks.
    pub(crate) fn bytes(&self) -> u64 {
        self.list.values().map(|segment| u64::from(segment.end)).sum()
    }

    /// Starts the next step. None if a step is in progress, or none is left. `is_read` returns
    /// whether a segment's file is being read.
    pub(crate) fn start_step(
        &mut self,
        config: &LogConfig,
        is_read: impl Fn(u64) -> bool,
    ) -> Option<Step> {
        if self.is_running {
            return None;
        }
        if self.steps.is_empty() && self.ready.is_none() {
            self.make_next(config, is_read);
        }
        let step = *self.steps.front()?;
        self.is_running = true;
        Some(match step {
            Step::Zero { segment, from, to } => {
                Step::Zero { segment, from, to: to.min(from + ZERO_CHUNK_BYTES as u32) }
            }
            Step::SyncTail { .. }
            | Step::SyncReady { .. }
            | Step::Header { .. }
            | Step::Recycle { .. }
            | Step::Reuse { .. } => step,
        })
    }

    fn make_next(&mut self, config: &LogConfig, is_read: impl Fn(u64) -> bool) {
        let segment = self.next_sequence;
        let spare = self.spare.iter().position(|spare| !is_read(*spare));
        if let Some(from) = spare.and_then(|at| self.spare.remove(at)) {
            self.steps.push_back(Step::Recycle { from, segment });
        } else {
            let mut bytes = config.new_segment_bytes(segment);
            while bytes < config.segment_bytes && bytes - config.block_bytes < self.needed {
                bytes = bytes.saturating_mul(2).min(config.segment_bytes);
            }
            self.steps.push_back(Step::Zero { segment, from: 0, to: bytes });
            self.steps.push_back(Step::Header { segment, bytes });
        }
    }

    /// Ends the current step. Returns true if the step made the tail durable.
    pub(crate) fn finish_step(&mut self, config: &LogConfig) -> bool {
        assert!(self.is_running, "no step is under way");
        self.is_running = false;
        match self.steps.pop_front() {
            Some(Step::Zero { segment, from, to }) => {
                let from = from + ZERO_CHUNK_BYTES as u32;
                if from < to {
                    self.steps.push_front(Step::Zero { segment, from, to });
                }
            }
            Some(Step::SyncTail { .. }) => {
                assert!(!self.is_tail_synced);
                self.is_tail_synced = true;
                return true;
            }
            Some(Step::SyncReady { segment, bytes } | Step::Header { segment, bytes }) => {
                self.adopt_new(config, segment, bytes);
            }
            Some(Step::Recycle { segment, .. }) => self.steps.push_front(Step::Reuse { segment }),
            Some(Step::Reuse { segment }) => {
                self.adopt_new(config, segment, config.segment_bytes);
            }
            None => unreachable!("a step is under way"),
        }
        false
    }

    /// Notes that the file that was to be reused is gone. The next step reuses another file, or
    /// creates one.
    pub(crate) fn spare_lost(&mut self) {
        assert!(self.is_running, "no step is under way");
        self.is_running = false;
        let step = self.steps.pop_front();
        assert!(matches!(step, Some(Step::Recycle { .. })), "{step:?} has no file to lose");
    }

    fn adopt_new(&mut self, config: &LogConfig, segment: u64, bytes: u32) {
        assert!(self.ready.is_none() && segment == self.next_sequence);
        self.list
            .insert(segment, Segment::new(config.format, segment, config.block_bytes, bytes, 0));
        (self.ready, self.needed) = (Some(segment), 0);
        self.next_sequence += 1;
    }

    /// Whether the recovered blocks are durable.
    pub(crate) fn is_tail_synced(&self) -> bool {
        self.is_tail_synced
    }

    /// The block size of a segment.
    pub(crate) fn block_bytes(&self, segment: u64) -> u32 {
        self.list[&segment].block_bytes
    }

    /// The segments that take no more blocks, in order.
    pub(crate) fn sealed(&self) -> impl Iterator<Item = (u64, &Segment)> {
        self.list.range(..self.sealed_end()).map(|(sequence, segment)| (*sequence, segment))
    }

    /// The sequence number of the first segment that may take more blocks; 1 until the recovered
    /// blocks are durable.
    pub(crate) fn sealed_end(&self) -> u64 {
        if !self.is_tail_synced {
            return 1;
        }
        self.active.or(self.ready).unwrap_or(self.next_sequence)
    }

    /// The last segment with blocks. After a restart the log may continue in it.
    pub(crate) fn last_with_blocks(&self) -> Option<(u64, &Segment)> {
        let found = self.list.iter().rev().find(|(_, segment)| segment.has_blocks());
        found.map(|(sequence, segment)| (*sequence, segment))
    }

    /// The sequence numbers of the segments from `first` to `last`, both included.
    pub(crate) fn sequences(&self, first: u64, last: u64) -> impl Iterator<Item = u64> + use<> {
        let numbers: Vec<_> = self.list.range(first..=last).map(|(number, _)| *number).collect();
        numbers.into_iter()
    }

    /// Seals the active segment, if its first block is older than `time` and another segment is
    /// ready.
    pub(crate) fn seal_older_than(&mut self, time: i64) {
        let Some(active) = self.active.filter(|_| self.ready.is_some()) else { return };
        if self.list[&active].first_timestamp <= time {
            self.active = None;
        }
    }

    /// Seals the active segment: the next block begins another one. Also stops keeping files for
    /// reuse. Returns false if no next segment is prepared.
    pub(crate) fn seal(&mut self) -> bool {
        let can_seal = self.is_tail_synced && self.ready.is_some();
        if can_seal {
            self.active = None;
            self.retired.append(&mut self.spare);
        }
        can_seal
    }

    /// Notes that a backup links the files of the present segments. So no bytes of their present
    /// blocks may be overwritten, and none of these files is reused.
    pub(crate) fn give_names(&mut self) {
        self.named_before = self.next_sequence;
        self.retired.append(&mut self.spare);
    }

    /// All segments, in order.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, &Segment)> {
        self.list.iter().map(|(sequence, segment)| (*sequence, segment))
    }

    /// The first segment with a sequence number above `after`.
    pub(crate) fn next(&self, after: u64) -> Option<(u64, &Segment)> {
        let (sequence, segment) = self.list.range(after + 1..).next()?;
        Some((*sequence, segment))
    }

    /// The position of the last operation before a segment.
    pub(crate) fn last_position_before(&self, segment: u64) -> u64 {
        let before = self.list.range(..segment).rev().map(|(_, before)| before);
        let mut written = before.filter(|it| it.has_blocks() || it.is_compacted());
        written.next().map_or(0, |segment| segment.last_position)
    }

    /// An upper bound of the positions of the tombstones and markers that compaction dropped.
    pub(crate) fn dropped_position(&self) -> u64 {
        self.dropped_position
    }

    /// The highest pass number of any segment. It never decreases, because only a later pass
    /// replaces the segments of a pass.
    pub(crate) fn last_pass(&self) -> u64 {
        self.list.values().map(|segment| segment.pass).max().unwrap_or(0)
    }

    /// Replaces all segments that a compacted segment covers. Their files stay until
    /// [`Self::retire_replaced`].
    pub(crate) fn replace(&mut self, sequence: u64, new: Segment) {
        let replaced: Vec<_> =
            self.list.range(sequence..=new.last_sequence).map(|(at, old)| (*at, *old)).collect();
        assert!(self.active.is_none_or(|active| active > new.last_sequence));
        for (old_sequence, old) in replaced {
            self.list.remove(&old_sequence);
            self.replaced.push((old_sequence, old));
        }
        assert!(self.replaced.first().is_some_and(|(first, _)| *first == sequence));
        self.dropped_position = self.dropped_position.max(new.dropped_position);
        self.list.insert(sequence, new);
    }

    /// Called when the compacted segment has the name of the first segment that it replaces. The
    /// files of the other replaced segments are kept for reuse if `reuses`, or else removed.
    pub(crate) fn retire_replaced(&mut self, config: &LogConfig, reuses: bool) {
        for (sequence, old) in std::mem::take(&mut self.replaced).into_iter().skip(1) {
            self.retire(sequence, Some(&old).filter(|_| reuses), config);
        }
    }

    /// Called when the file of the compacted segment is gone. The segments that it was to replace
    /// belong to the log again.
    pub(crate) fn restore_replaced(&mut self) {
        self.list.extend(std::mem::take(&mut self.replaced));
        let dropped = self.list.values().map(|segment| segment.dropped_position);
        self.dropped_position = dropped.max().unwrap_or(0);
    }

    /// Keeps the file of a replaced segment for reuse if it has the right size, few files are kept,
    /// and no backup links it. Otherwise the file will be removed.
    fn retire(&mut self, sequence: u64, old: Option<&Segment>, config: &LogConfig) {
        let LogConfig { block_bytes, segment_bytes, .. } = *config;
        let fits = |old: &Segment| {
            let size = (old.block_bytes, old.segment_bytes);
            !old.is_compacted() && size == (block_bytes, segment_bytes)
        };
        let old = old.filter(|_| sequence >= self.named_before);
        if self.spare.len() < SPARE_SEGMENTS_MAX && old.is_some_and(fits) {
            self.spare.push_back(sequence);
        } else {
            self.retired.push_back(sequence);
        }
    }

    /// The next file to remove that is not being read.
    pub(crate) fn take_retired(&mut self, is_read: impl Fn(u64) -> bool) -> Option<u64> {
        let at = self.retired.iter().position(|retired| !is_read(*retired))?;
        self.retired.remove(at)
    }

    fn segment_mut(&mut self, segment: u64) -> &mut Segment {
        let found = self.list.get_mut(&segment);
        found.unwrap_or_else(|| unreachable!("segment {segment} is not one of the log"))
    }
}
