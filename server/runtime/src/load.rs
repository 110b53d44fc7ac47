//! The load of a shard: its machines begin with a snapshot, if there is one, and replay the log
//! after it. The caller reads the files.

use crate::snapshot::open_sections;
use crate::{Damage, TopicSet, damaged};
use muster_codec::DecodeError;
use muster_snapshot_index::SnapshotBytes;
use muster_storage::snapshot::{Snapshot, SnapshotHeader, SnapshotRefusal};
use muster_storage::{KnownSegments, Recovered, RecoveredBatch, Recovery};

/// The machines of a shard while its log is read.
#[derive(Debug)]
pub struct Load<T> {
    pub topics: T,
    snapshot: Option<SnapshotHeader>,
    /// Segments of the log that need not be read.
    known: KnownSegments,
    replayed: Replayed,
}

/// The records that were replayed because the snapshot does not have them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Replayed {
    pub records: u64,
    pub bytes: u64,
}

impl<T: TopicSet> Load<T> {
    /// Begins with machines without records.
    pub fn new(topics: T) -> Self {
        let (known, replayed) = (KnownSegments::default(), Replayed::default());
        Self { topics, snapshot: None, known, replayed }
    }

    /// Like [`Self::new`], and opens a snapshot.
    ///
    /// # Errors
    /// The reason why the snapshot cannot be used.
    pub fn with_snapshot(topics: T, file: &SnapshotBytes) -> Result<Self, Damage> {
        let (mut load, bytes) = (Self::new(topics), (**file).as_ref());
        let snapshot = Snapshot::open(bytes).map_err(damaged)?;
        let known = KnownSegments::read(&bytes[snapshot.log.clone()], load.topics.rules());
        load.known = known.map_err(damaged)?;
        open_sections(&mut load.topics, &snapshot, file)?;
        load.snapshot = Some(snapshot.header);
        Ok(load)
    }

    /// The snapshot, if one was opened.
    pub fn snapshot(&self) -> Option<SnapshotHeader> {
        self.snapshot
    }

    pub fn replayed(&self) -> Replayed {
        self.replayed
    }

    /// The recovery of the log. It skips segments that it need not read. It also skips damage, but
    /// only where all operations are in the snapshot.
    pub fn recovery(&mut self) -> Recovery {
        let from = self.snapshot.map_or(0, |header| header.from);
        let known = std::mem::take(&mut self.known);
        Recovery::new(self.topics.rules()).knowing(known).sparing(from)
    }

    /// Applies a batch of the log to the machine of its partition, except for records that the
    /// snapshot has.
    ///
    /// # Errors
    /// This version cannot read a record, or the batch is of a partition that the shard does not
    /// lead.
    pub fn replay(&mut self, found: RecoveredBatch<'_>) -> Result<(), DecodeError> {
        let RecoveredBatch { partition, batch, position } = found;
        let topic = self.topics.get(partition.topic);
        let is_new = match topic.and_then(|of| of.replay(partition.index, &batch, position)) {
            Some(replayed) => replayed?,
            None if self.snapshot.is_some_and(|it| position <= it.from) => false,
            None => {
                let foreign = "records of a partition that another shard has";
                return Err(DecodeError::InvalidBatch(foreign));
            }
        };
        if is_new {
            self.replayed.bytes += batch.bytes.len() as u64;
            self.replayed.records += u64::from(batch.header.records_count.unsigned_abs());
        }
        Ok(())
    }

    /// To be called once the whole log was read. Returns the reason if the snapshot cannot be used.
    /// Then the load has to begin again without it.
    pub fn refusal(&mut self, recovered: &Recovered) -> Option<Damage> {
        let header = self.snapshot?;
        if recovered.dropped_position() > header.from {
            return Some(damaged(SnapshotRefusal::LogIsAhead));
        }
        self.topics.damage()
    }
}
