//! A snapshot that is being written: its parts in order, some of a part at a time.

use crate::{AnyWalk, Damage, SectionAt, TopicSet};
use muster_storage::snapshot::{Part, SectionRow, SnapshotHeader, SnapshotWriter};
use muster_storage::{LogPartition, SegmentWalk, ShardLog};

/// The size of a slice: about 100 microseconds of work.
pub(super) const SLICE_BYTES: usize = 64 << 10;

/// A snapshot that is being written.
#[derive(Debug)]
pub(super) struct Job {
    stage: Stage,
    /// The sections that are written.
    rows: Vec<SectionRow>,
    pub(super) header: SnapshotHeader,
}

/// The part that is written next.
#[derive(Debug)]
enum Stage {
    /// The section that follows the last one, or the table after all sections.
    Next,
    /// A section of which a part is written.
    Section(SectionRow, AnyWalk),
    Segments(SegmentWalk),
}

impl Job {
    pub(super) fn new(header: SnapshotHeader) -> Self {
        Self { stage: Stage::Next, rows: Vec::new(), header }
    }

    /// Continues the present stage: writes the next part. Returns whether the snapshot is complete.
    pub(super) fn write_some(
        &mut self,
        log: &ShardLog,
        topics: &mut dyn TopicSet,
        writer: &mut SnapshotWriter,
    ) -> Result<bool, Damage> {
        // This position counts even if nothing is written for a section: that the section has no
        // content is true at this position.
        self.header.newest = log.progress().accepted();
        self.stage = match std::mem::replace(&mut self.stage, Stage::Next) {
            Stage::Next => match begin_next(topics, log, self.rows.last(), writer) {
                // The first part is written at once, so it has the position at which the section
                // begins.
                Some(begun) => self.write_section(topics, log, begun, writer)?,
                None => {
                    self.header.sections = write_table(&self.rows, writer);
                    Stage::Segments(SegmentWalk::new(writer.body_end(), self.header.from))
                }
            },
            Stage::Section(row, walk) => self.write_section(topics, log, (row, walk), writer)?,
            Stage::Segments(mut walk) => match log.write_segments(&mut walk, writer.body()) {
                Some(segments) => {
                    self.header.log = segments;
                    return Ok(true);
                }
                None => Stage::Segments(walk),
            },
        };
        Ok(false)
    }

    /// Writes some of a section; returns the next stage.
    fn write_section(
        &mut self,
        topics: &mut dyn TopicSet,
        log: &ShardLog,
        (mut row, mut walk): (SectionRow, AnyWalk),
        writer: &mut SnapshotWriter,
    ) -> Result<Stage, Damage> {
        let at = place(log, LogPartition { topic: row.topic, index: row.index }, writer);
        row.newest = at.position;
        let Some(topic) = topics.get(row.topic) else { unreachable!("it has begun the section") };
        let part = topic.write_section(row.index, &mut walk, at, SLICE_BYTES, writer.body())?;
        Ok(match part {
            Some(part) => {
                self.rows.push(SectionRow { part, ..row });
                Stage::Next
            }
            None => Stage::Section(row, walk),
        })
    }
}

/// Begins the next section that has content, after the section `after`. With None, the first one.
/// Sections are ordered by topic, partition and number.
fn begin_next(
    topics: &mut dyn TopicSet,
    log: &ShardLog,
    after: Option<&SectionRow>,
    writer: &SnapshotWriter,
) -> Option<(SectionRow, AnyWalk)> {
    let (mut next, mut first) = match after {
        Some(&SectionRow { topic, index, section, .. }) => {
            (Some(LogPartition { topic, index }), section + 1)
        }
        None => (topics.next(None), 0),
    };
    while let Some(partition @ LogPartition { topic, index }) = next {
        let at = place(log, partition, writer);
        let SectionAt { position: from, log_end, .. } = at;
        let Some(of) = topics.get(topic) else { unreachable!("it has the partition") };
        for section in first..of.sections().len() as u8 {
            if let Some(walk) = of.begin_section(index, section, at) {
                let (newest, term, part) = (from, 0, Part::default());
                let row = SectionRow { topic, section, index, from, newest, log_end, term, part };
                return Some((row, walk));
            }
        }
        (next, first) = (topics.next(next), 0);
    }
    None
}

/// The place at which the section of a partition continues.
fn place(log: &ShardLog, partition: LogPartition, writer: &SnapshotWriter) -> SectionAt {
    SectionAt {
        file_at: writer.body_end(),
        position: log.progress().accepted(),
        log_end: log.log_end_offset(partition),
    }
}

/// Writes the table of sections.
fn write_table(rows: &[SectionRow], writer: &mut SnapshotWriter) -> Part {
    let at = writer.body_end();
    Part::appended(at, writer.body(), |out| rows.iter().for_each(|row| row.write(out)))
}
