//! A snapshot that is being written: its parts in order, some of a part at a time.

use super::SLICE_BYTES;
use crate::groups::OtherTopics;
use crate::groups::log::GroupLog;
use crate::groups::slots::Slots;
use crate::topics::InternalTopic;
use muster_runtime::{Damage, SectionAt, SectionWalk, Topic, TopicSet};
use muster_storage::snapshot::{Part, SlotIndex, SnapshotHeader, SnapshotWriter};
use muster_storage::{SegmentWalk, ShardLog};

/// The sections of all partitions of a topic, by topic and number of the section, in the order of
/// the file.
const KINDS: [(InternalTopic, u8); 5] = [
    (InternalTopic::Cluster, 0),
    (InternalTopic::TransactionState, 0),
    (InternalTopic::ConsumerOffsets, 1),
    (InternalTopic::ShareState, 0),
    (InternalTopic::ConsumerOffsets, 0),
];

/// A snapshot that is being written.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) stage: Stage,
    /// The rows of the present kind that are written.
    rows: Vec<SlotIndex>,
    pub(super) header: SnapshotHeader,
}

/// The part that is written next.
#[derive(Debug)]
pub(super) enum Stage {
    /// The sections of a kind: next is the partition that follows this one.
    Next(usize, Option<u32>),
    /// The section of a partition that is begun.
    Section(usize, SlotIndex, SectionWalk),
    Segments(SegmentWalk),
}

/// All topics of a shard.
pub(super) struct AllTopics<'t> {
    pub(super) slots: &'t mut Slots,
    pub(super) others: &'t mut dyn OtherTopics,
}

impl TopicSet for AllTopics<'_> {
    fn get(&mut self, number: u8) -> Option<&mut dyn Topic> {
        if InternalTopic::of_number(number) == Some(InternalTopic::ConsumerOffsets) {
            Some(self.slots.topic())
        } else {
            self.others.get(number)
        }
    }
}

impl Job {
    pub(super) fn new(header: SnapshotHeader) -> Self {
        Self { stage: Stage::Next(0, None), rows: Vec::new(), header }
    }

    /// Writes some of the present stage; returns the next stage, or None after the last.
    pub(super) fn write_some(
        &mut self,
        log: &mut GroupLog,
        others: &mut dyn OtherTopics,
        writer: &mut SnapshotWriter,
    ) -> Result<Option<Stage>, Damage> {
        let (slots, log) = log.parts();
        let topics = &mut AllTopics { slots, others };
        // The absence of content in a partition is a fact of this position, too.
        self.header.newest = log.progress().accepted();
        Ok(Some(match std::mem::replace(&mut self.stage, Stage::Next(0, None)) {
            Stage::Next(kind, after) => match next(topics, log, KINDS[kind], after, writer) {
                Some((row, walk)) => Stage::Section(kind, row, walk),
                None => self.end_kind(kind, writer),
            },
            Stage::Section(kind, mut row, mut walk) => {
                row.newest = self.header.newest;
                let (topic, _) = KINDS[kind];
                let at = place(log, topic, row.slot, writer);
                let machines = topics.get(topic.row().rule.number);
                let written = machines.map(|machines| {
                    machines.write_section(row.slot, &mut walk, at, SLICE_BYTES, writer.body())
                });
                match written.transpose()?.flatten() {
                    Some(index) => {
                        self.rows.push(SlotIndex { index, ..row });
                        Stage::Next(kind, Some(row.slot))
                    }
                    None => Stage::Section(kind, row, walk),
                }
            }
            Stage::Segments(mut walk) => match log.write_segments(&mut walk, writer.body()) {
                Some(segments) => {
                    self.header.log = segments;
                    return Ok(None);
                }
                None => Stage::Segments(walk),
            },
        }))
    }

    /// Ends the sections of a kind with their table; returns the next stage.
    fn end_kind(&mut self, kind: usize, writer: &mut SnapshotWriter) -> Stage {
        let rows = std::mem::take(&mut self.rows);
        let header = &mut self.header;
        let (table, first) = match KINDS[kind] {
            (InternalTopic::Cluster, _) => {
                header.cluster = rows.first().map(|row| row.index).unwrap_or_default();
                return Stage::Next(kind + 1, None);
            }
            (InternalTopic::TransactionState, _) => (&mut header.transactions, kind + 1),
            (InternalTopic::ShareState, _) => (&mut header.shares, kind + 1),
            (InternalTopic::ConsumerOffsets, 1) => (&mut header.offset_transactions, kind + 1),
            (InternalTopic::ConsumerOffsets, _) => (&mut header.slots, kind + 1),
        };
        *table = write_table(&rows, writer);
        if first < KINDS.len() {
            Stage::Next(first, None)
        } else {
            Stage::Segments(SegmentWalk::new(writer.body_end(), self.header.from))
        }
    }
}

/// Begins the next section of a kind that has content.
fn next(
    topics: &mut dyn TopicSet,
    log: &ShardLog,
    (topic, section): (InternalTopic, u8),
    after: Option<u32>,
    writer: &SnapshotWriter,
) -> Option<(SlotIndex, SectionWalk)> {
    let machines = topics.get(topic.row().rule.number)?;
    let mut index = machines.next(after);
    while let Some(slot) = index {
        let at = place(log, topic, slot, writer);
        if let Some(walk) = machines.begin_section(slot, section, at) {
            let (from, newest) = (at.position, at.position);
            return Some((SlotIndex { slot, from, newest, index: Part::default() }, walk));
        }
        index = machines.next(Some(slot));
    }
    None
}

/// The place at which the section of a partition continues.
fn place(log: &ShardLog, topic: InternalTopic, index: u32, writer: &SnapshotWriter) -> SectionAt {
    SectionAt {
        file_at: writer.body_end(),
        position: log.progress().accepted(),
        log_end: log.log_end_offset(topic.log_partition(index)),
    }
}

/// Writes a table of slots.
fn write_table(rows: &[SlotIndex], writer: &mut SnapshotWriter) -> Part {
    let (at, mut table) = (writer.body_end(), Vec::new());
    rows.iter().for_each(|row| row.write(&mut table));
    let part = Part::of(at, &table);
    writer.body().extend(table);
    part
}
