//! Checks a shard's log: by recovery, and then every record and its placement.

use super::groups::Groups;
use super::report::Report;
use super::snapshot;
use crate::damage::Damage;
use crate::segment_file::names;
use crate::shard_files::{Piece, SegmentBytes, ShardFiles};
use muster_codec::record_batch::{Batch, BatchHeader, EndTxnMarker, Record};
use muster_codec::records::{ClusterRecord, GroupRecord, ShareRecord, TransactionRecord};
use muster_coordinator::Producer;
use muster_server::Failure;
use muster_server::placement::{Placement, Slot, TransactionsPartition};
use muster_server::shard::{Common, LoadError, read_known_log, read_log};
use muster_server::topics::{self, InternalTopic};
use muster_storage::LogPartition;
use muster_storage::layout::Block;
use muster_storage::shard_log::ASIDE_FILE_NAME;
use muster_storage::shard_log::recovery::{Corruption, segment_file_name};
use muster_storage::snapshot::{
    SNAPSHOT_ASIDE_FILE_NAME, SNAPSHOT_DAMAGED_FILE_NAME, SNAPSHOT_FILE_NAME,
};
use muster_storage::{Cut, Recovered};
use std::path::Path;

pub(super) fn verify(
    data: &Path,
    number: u32,
    common: &Common,
    report: &mut Report<'_>,
) -> Result<(), Failure> {
    let placement = common.placement;
    let files = ShardFiles::open(data, placement.shards, number)?;
    other_files(&files, report)?;
    let damages = report.damages();
    let recovered = match read_known(&files, number, common) {
        Ok(recovered) => {
            note_cut(&files, &recovered, report)?;
            Some(recovered)
        }
        Err(LoadError::Corruption { directory, corruption, .. }) => {
            report.damage(&located(&files, &directory, &corruption)?)?;
            None
        }
        Err(error) if error.is_damage() => {
            report.missing(&files.directory, &error)?;
            None
        }
        Err(error) => return Err(error.into()),
    };
    let mut check = Check {
        placement,
        number,
        groups: Groups::new(common, number),
        records: 0,
        unknown: 0,
        position: 0,
    };
    files.each(|segment| check.segment(segment, report), gone)?;
    if check.unknown > 0 {
        let what = format!("{} records of types that this version ignores", check.unknown);
        report.note(&files.directory, &what)?;
    }
    if let Some(recovered) = recovered.filter(|_| report.damages() == damages) {
        report.checked(&files.directory, &check.summary(&files, &recovered))?;
        snapshot::verify(&files.directory, common, number, report)?;
    }
    Ok(())
}

/// Reads the log as the server does at startup.
fn read_known(files: &ShardFiles, number: u32, common: &Common) -> Result<Recovered, LoadError> {
    match common.known_log(number) {
        Some(known) => read_known_log(&files.directory, known, |_| {}),
        None => read_log(&files.directory, |_| {}),
    }
}

fn note_cut(
    files: &ShardFiles,
    recovered: &Recovered,
    report: &mut Report<'_>,
) -> Result<(), Failure> {
    let Some(Cut { segment, at, bytes }) = recovered.cut() else { return Ok(()) };
    let path = files.directory.join(segment_file_name(*segment));
    let what = format!(
        "byte {at}: {} bytes that are no whole block, beyond all that is known to be durable. \
         They were being written when the server stopped: startup cuts them off and keeps them in \
         the trash",
        bytes.len()
    );
    report.note(&path, &what)
}

/// The damage that makes recovery refuse the log. It names the last whole operation before it.
fn located(
    files: &ShardFiles,
    directory: &Path,
    corruption: &Corruption,
) -> Result<Damage, Failure> {
    let Corruption { segment, at, what, .. } = corruption;
    let path = directory.join(segment_file_name(*segment));
    let mut before = 0;
    files.each(
        |bytes| {
            for piece in bytes.pieces() {
                if let Piece::Block { at: start, block } = piece
                    && (bytes.sequence, start) < (*segment, *at)
                {
                    before = before.max(block.header.last_position());
                }
            }
            Ok(())
        },
        gone,
    )?;
    let whole = match before {
        0 => "no operation before it is whole".to_owned(),
        _ => format!("operations up to {before} are whole"),
    };
    let what =
        format!("{what}; {whole}, and later ones may be lost: `muster log recover` names them");
    Ok(Damage::new(&path, *at as u64, what))
}

fn gone(path: &Path) -> Result<(), Failure> {
    Err(format!("{} was removed while it was read", path.display()).into())
}

fn other_files(files: &ShardFiles, report: &mut Report<'_>) -> Result<(), Failure> {
    for name in names(&files.directory)? {
        let path = files.directory.join(&name);
        if name == ASIDE_FILE_NAME {
            report.note(&path, "left from a stop during compaction; startup removes it")?;
        } else if name == SNAPSHOT_ASIDE_FILE_NAME {
            report.note(&path, "an unfinished snapshot; the next one overwrites it")?;
        } else if name == SNAPSHOT_DAMAGED_FILE_NAME {
            report.note(&path, "a damaged snapshot that a server put aside")?;
        } else if name == SNAPSHOT_FILE_NAME {
            continue;
        } else if !files.segments.iter().any(|(_, segment)| *segment == name) {
            report.unknown(&path)?;
        }
    }
    Ok(())
}

/// Reads the records and replays them to the groups.
struct Check {
    placement: Placement,
    number: u32,
    groups: Groups,
    records: u64,
    unknown: u64,
    /// The position of the last operation that was read.
    position: u64,
}

impl Check {
    fn segment(&mut self, segment: &SegmentBytes, report: &mut Report<'_>) -> Result<(), Failure> {
        if let Some(by) = segment.replaced_by {
            return report.note(&segment.path, &format!("segment {by} has replaced it already"));
        }
        if segment.header.is_none() {
            return report.note(&segment.path, "it was being created when the server stopped");
        }
        for piece in segment.pieces() {
            match piece {
                Piece::Block { at, block } => self.block(segment, at, &block, report)?,
                // Recovery has already reported these.
                Piece::Unreadable { .. } | Piece::End { .. } => {}
            }
        }
        Ok(())
    }

    fn block(
        &mut self,
        segment: &SegmentBytes,
        at: usize,
        block: &Block<'_>,
        report: &mut Report<'_>,
    ) -> Result<(), Failure> {
        self.position = block.header.last_position();
        for entry in block.entries(topics::RULES) {
            let checked = match entry {
                Ok((partition, batch)) => self.batch(partition, &batch),
                Err(error) => Err(error.to_string()),
            };
            if let Err(what) = checked {
                let (first, last) = (block.header.first_position, self.position);
                let what = format!("positions {first} to {last}: {what}");
                report.damage(&Damage::new(&segment.path, at as u64, what))?;
            }
        }
        Ok(())
    }

    fn batch(&mut self, partition: LogPartition, batch: &Batch<'_>) -> Result<(), String> {
        let at = |what: &dyn std::fmt::Display, offset: i64| {
            format!("{}, offset {offset}: {what}", topics::name_of(partition))
        };
        let base_offset = batch.header.base_offset;
        batch.validate().map_err(|error| at(&error, base_offset))?;
        self.belongs_here(partition).map_err(|what| at(&what, base_offset))?;
        for record in batch.records().map_err(|error| at(&error, base_offset))? {
            let record = record.map_err(|error| at(&error, base_offset))?;
            let offset = batch.offset(&record);
            if !(base_offset..=batch.header.last_offset()).contains(&offset) {
                return Err(at(&"its offset is outside its batch", base_offset));
            }
            self.record(partition, &batch.header, &record).map_err(|what| at(&what, offset))?;
        }
        Ok(())
    }

    fn belongs_here(&self, partition: LogPartition) -> Result<(), &'static str> {
        if !self.placement.has(partition) {
            return Err("the partition does not exist");
        }
        let is_ours = self.placement.log_shard(partition) == self.number;
        is_ours.then_some(()).ok_or("the partition belongs to another shard")
    }

    /// Reads a record and replays it, as the server does at startup.
    fn record(
        &mut self,
        partition: LogPartition,
        header: &BatchHeader,
        record: &Record<'_>,
    ) -> Result<(), String> {
        self.records += 1;
        let Some(key) = record.key else { return Err("a record without a key".to_owned()) };
        let index = partition.index;
        match InternalTopic::of(partition) {
            InternalTopic::Cluster => self.cluster_record(key, record.value),
            InternalTopic::ConsumerOffsets if header.is_control() => {
                self.marker(index, header, record)
            }
            InternalTopic::ConsumerOffsets => self.group_record(index, header, key, record.value),
            InternalTopic::TransactionState => self.transaction_record(index, key, record.value),
            InternalTopic::ShareState => self.share_record(index, key, record.value),
        }
    }

    fn cluster_record(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), String> {
        let read = ClusterRecord::read(key, value).map_err(|error| error.to_string())?;
        self.unknown += u64::from(read.is_none());
        Ok(())
    }

    fn marker(
        &mut self,
        index: u32,
        header: &BatchHeader,
        record: &Record<'_>,
    ) -> Result<(), String> {
        let marker = EndTxnMarker::of_record(record).map_err(|error| error.to_string())?;
        self.unknown += u64::from(marker.is_none());
        if let (Some(marker), Some(coordinator)) = (marker, self.groups.of_slot(Slot(index))) {
            let (producer_id, position) = (header.producer_id, self.position);
            coordinator.replay_end_transaction(producer_id, marker.outcome, position);
        }
        Ok(())
    }

    fn group_record(
        &mut self,
        index: u32,
        header: &BatchHeader,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), String> {
        let read = GroupRecord::read(key, value).map_err(|error| error.to_string())?;
        let Some(read) = read else {
            self.unknown += 1;
            return Ok(());
        };
        let Slot(of_group) = self.placement.group_slot(read.group_id());
        if of_group != index {
            let group = read.group_id();
            return Err(format!(
                "a record of group {group:?}, which belongs to partition {of_group}"
            ));
        }
        let Some(coordinator) = self.groups.of_slot(Slot(index)) else { return Ok(()) };
        if header.is_transactional() {
            let producer = Producer { id: header.producer_id, epoch: header.producer_epoch };
            coordinator.replay_in_transaction(producer, &read, self.position);
        } else {
            coordinator.replay(&read, self.position);
        }
        Ok(())
    }

    fn transaction_record(
        &mut self,
        index: u32,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), String> {
        let read = TransactionRecord::read(key, value).map_err(|error| error.to_string())?;
        self.unknown += u64::from(read.is_none());
        let id = read.map(|record| record.key.transactional_id);
        let partition = |id: &str| self.placement.transactions_partition(id);
        match id.filter(|id| partition(id) != TransactionsPartition(index)) {
            Some(id) => Err(format!(
                "a record of the transactional id {id:?}, which belongs to another partition"
            )),
            None => Ok(()),
        }
    }

    fn share_record(&mut self, index: u32, key: &[u8], value: Option<&[u8]>) -> Result<(), String> {
        let read = ShareRecord::read(key, value).map_err(|error| error.to_string())?;
        self.unknown += u64::from(read.is_none());
        let is_of_slot = index < self.placement.offsets_partitions;
        is_of_slot.then_some(()).ok_or_else(|| "the partition is that of no slot".to_owned())
    }

    fn summary(&mut self, files: &ShardFiles, recovered: &Recovered) -> String {
        let segments = files.segments.len();
        let (position, records) = (recovered.position(), self.records);
        let partitions = recovered.partitions().count();
        format!(
            "{segments} segments, {records} records in {partitions} partitions up to position \
             {position}, {} groups",
            self.groups.loaded()
        )
    }
}
