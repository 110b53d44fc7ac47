//! Where the next block goes: the active segment, and the one that is made ready behind it.

use super::LogConfig;
use super::recovery::Tail;
use crate::layout::SegmentHeader;
use crate::limits::ZERO_CHUNK_BYTES;
use std::collections::VecDeque;

/// Work on files beside the blocks, one step at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Fill a segment with zeros, chunk by chunk.
    Zero { segment: u64, from: u32, to: u32 },
    /// Make what recovery found durable.
    SyncTail { segment: u64 },
    /// Write the header, which makes a segment of zeros a segment of the log.
    Header { segment: u64 },
}

/// A segment that takes blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Active {
    sequence: u64,
    end: u32,
    segment_bytes: u32,
}

#[derive(Debug)]
pub(crate) struct Segments {
    active: Option<Active>,
    /// The segment that is ready to follow.
    ready: Option<Active>,
    /// The sequence number of the segment that is made ready after that.
    next_sequence: u64,
    steps: VecDeque<Step>,
    /// The front of `steps` is under way.
    is_running: bool,
    is_tail_synced: bool,
    /// The block size of each segment, from the first on.
    block_sizes: Vec<u32>,
}

impl Segments {
    pub(crate) fn new(config: &LogConfig, headers: &[SegmentHeader], tail: Option<Tail>) -> Self {
        let mut segments = Self {
            active: None,
            ready: None,
            next_sequence: headers.len() as u64 + 1,
            steps: VecDeque::new(),
            is_running: false,
            is_tail_synced: true,
            block_sizes: headers.iter().map(|header| header.block_bytes).collect(),
        };
        if let Some(tail) = tail {
            segments.continue_at(config, headers, tail);
        }
        segments.adopt_ready(config, headers, tail);
        segments
    }

    /// Goes on in the segment with the last block, unless the block size has changed since.
    fn continue_at(&mut self, config: &LogConfig, headers: &[SegmentHeader], tail: Tail) {
        let header = headers[tail.segment as usize - 1];
        assert!(tail.end <= header.segment_bytes && tail.torn_end <= header.segment_bytes);
        self.is_tail_synced = false;
        if header.block_bytes == config.block_bytes {
            let Tail { segment: sequence, end, torn_end } = tail;
            let segment_bytes = header.segment_bytes;
            self.active = Some(Active { sequence, end, segment_bytes });
            if torn_end > end {
                self.steps.push_back(Step::Zero { segment: sequence, from: end, to: torn_end });
            }
        }
        self.steps.push_back(Step::SyncTail { segment: tail.segment });
    }

    /// Takes over a last segment that has no blocks yet.
    fn adopt_ready(&mut self, config: &LogConfig, headers: &[SegmentHeader], tail: Option<Tail>) {
        let Some(header) = headers.last() else { return };
        if tail.is_some_and(|tail| tail.segment == header.sequence) {
            return;
        }
        if header.block_bytes == config.block_bytes {
            self.ready = Some(Active {
                sequence: header.sequence,
                end: header.block_bytes,
                segment_bytes: header.segment_bytes,
            });
        } else {
            // Made for another block size: made anew.
            self.next_sequence = header.sequence;
            self.block_sizes.truncate(header.sequence as usize - 1);
        }
    }

    /// The segment and the position in it for a block of `len` bytes. None until a segment with
    /// room for it is ready.
    pub(crate) fn place(&mut self, len: u32) -> Option<(u64, u32)> {
        if !self.is_tail_synced {
            return None;
        }
        let has_room = |active: &Active| len <= active.segment_bytes - active.end;
        if !self.active.as_ref().is_some_and(has_room) {
            self.active = Some(self.ready.take()?);
        }
        let active = self.active.as_mut()?;
        assert!(len <= active.segment_bytes - active.end, "a block longer than a segment");
        let at = active.end;
        active.end += len;
        Some((active.sequence, at))
    }

    /// The next piece of work, which is then under way. None while one is, or if there is none.
    pub(crate) fn start_step(&mut self, config: &LogConfig) -> Option<Step> {
        if self.is_running {
            return None;
        }
        if self.steps.is_empty() && self.ready.is_none() {
            let segment = self.next_sequence;
            self.steps.push_back(Step::Zero { segment, from: 0, to: config.segment_bytes });
            self.steps.push_back(Step::Header { segment });
        }
        let step = *self.steps.front()?;
        self.is_running = true;
        Some(match step {
            Step::Zero { segment, from, to } => {
                Step::Zero { segment, from, to: to.min(from + ZERO_CHUNK_BYTES as u32) }
            }
            Step::SyncTail { .. } | Step::Header { .. } => step,
        })
    }

    /// The step under way is done; true if that made the tail durable.
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
            Some(Step::Header { segment }) => self.adopt_new(config, segment),
            None => unreachable!("a step is under way"),
        }
        false
    }

    fn adopt_new(&mut self, config: &LogConfig, segment: u64) {
        assert!(self.ready.is_none() && segment == self.next_sequence);
        let LogConfig { block_bytes, segment_bytes, .. } = *config;
        self.ready = Some(Active { sequence: segment, end: block_bytes, segment_bytes });
        self.next_sequence += 1;
        self.block_sizes.push(block_bytes);
        assert_eq!(self.block_sizes.len() as u64, segment);
    }

    /// The block size of a segment.
    pub(crate) fn block_bytes(&self, segment: u64) -> u32 {
        self.block_sizes[segment as usize - 1]
    }
}
