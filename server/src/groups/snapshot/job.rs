//! A snapshot that is being written: its parts in order, some of a part at a time.

use super::SLICE_BYTES;
use crate::cluster::ClusterImage;
use crate::config::Config;
use crate::groups::log::GroupLog;
use crate::groups::offset_producers::OffsetProducers;
use crate::groups::{ShareStates, Slots, TransactionCoordinators, TurnEnd};
use crate::placement::{Slot, TransactionsPartition};
use muster_codec::records::ClusterRecord;
use muster_codec::{DecodeError, Reader};
use muster_coordinator::{SnapshotDamage, SnapshotPart, SnapshotWalk};
use muster_shares::state::StatesWalk;
use muster_storage::snapshot::{Part, SlotIndex, SnapshotHeader, SnapshotWriter};
use muster_storage::{SegmentWalk, ShardLog};
use muster_transactions::IdsWalk;

/// A snapshot that is being written.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) stage: Stage,
    /// The index rows written so far: of slots with groups, of partitions with transactional ids,
    /// of slots with transactions, and of slots with share states.
    slots: Vec<SlotIndex>,
    ids: Vec<SlotIndex>,
    offset_transactions: Vec<SlotIndex>,
    shares: Vec<SlotIndex>,
    pub(super) header: SnapshotHeader,
}

/// The part that is written next.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one, in a job")]
pub(super) enum Stage {
    Cluster,
    /// Transactional ids: next is the partition that follows this one.
    Ids(Option<TransactionsPartition>),
    /// The transactional ids of a partition that is begun.
    IdsOf(SlotIndex, IdsWalk),
    /// Transactions with offsets: next is the slot that follows this one.
    OffsetTransactions(Option<Slot>),
    /// Share states: next is the slot that follows this one.
    Shares(Option<Slot>),
    /// The share states of a slot that is begun.
    SharesOf(SlotIndex, StatesWalk),
    /// Groups: next is the slot that follows this one.
    Groups(Option<Slot>),
    /// The groups of a slot that is begun.
    GroupsOf(SlotIndex, SnapshotWalk),
    Segments(SegmentWalk),
}

impl Job {
    pub(super) fn new(header: SnapshotHeader) -> Self {
        Self {
            stage: Stage::Cluster,
            slots: Vec::new(),
            ids: Vec::new(),
            offset_transactions: Vec::new(),
            shares: Vec::new(),
            header,
        }
    }

    /// Writes some of the present stage; returns the next stage, or None after the last.
    pub(super) fn write_some(
        &mut self,
        log: &mut GroupLog,
        turn: &TurnEnd<'_>,
        config: &Config,
        writer: &mut SnapshotWriter,
    ) -> Result<Option<Stage>, SnapshotDamage> {
        let (slots, log) = log.parts();
        let position = log.progress().accepted();
        // The absence of groups in a slot is a fact of this position, too.
        self.header.newest = position;
        Ok(Some(match std::mem::replace(&mut self.stage, Stage::Cluster) {
            Stage::Cluster => {
                self.header.cluster = write_cluster(turn.image, config, writer);
                Stage::Ids(None)
            }
            Stage::Ids(partition) => match turn.transactions.next_with_ids(partition) {
                Some(TransactionsPartition(index)) => {
                    Stage::IdsOf(row(index, position), IdsWalk::new(writer.body_end()))
                }
                None => {
                    self.header.transactions = write_table(&self.ids, writer);
                    Stage::OffsetTransactions(None)
                }
            },
            Stage::IdsOf(row, walk) => {
                self.write_ids(turn.transactions, row, walk, position, writer)?
            }
            Stage::OffsetTransactions(slot) => match next_with_producers(slots, slot) {
                Some((slot, producers)) => {
                    let row = row(slot.0, position);
                    self.offset_transactions.push(write_transactions(producers, row, writer));
                    Stage::OffsetTransactions(Some(slot))
                }
                None => {
                    let table = write_table(&self.offset_transactions, writer);
                    self.header.offset_transactions = table;
                    Stage::Shares(None)
                }
            },
            Stage::Shares(slot) => match next_with_shares(slots, log, slot) {
                Some(Slot(slot)) => {
                    let index = Part::of(writer.body_end(), &[]);
                    Stage::SharesOf(
                        SlotIndex { index, ..row(slot, position) },
                        StatesWalk::default(),
                    )
                }
                None => {
                    self.header.shares = write_table(&self.shares, writer);
                    Stage::Groups(None)
                }
            },
            Stage::SharesOf(row, walk) => {
                self.write_shares((turn.shares, &*log), row, walk, position, writer)
            }
            Stage::Groups(slot) => match slots.next_with_groups(slot) {
                Some(Slot(slot)) => {
                    Stage::GroupsOf(row(slot, position), SnapshotWalk::new(writer.body_end()))
                }
                None => {
                    self.header.slots = write_table(&self.slots, writer);
                    Stage::Segments(SegmentWalk::new(writer.body_end(), self.header.from))
                }
            },
            Stage::GroupsOf(slot, walk) => {
                self.write_groups(slots, slot, walk, position, writer)?
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

    /// Writes some transactional ids of a partition, or a part of their index.
    fn write_ids(
        &mut self,
        transactions: &dyn TransactionCoordinators,
        mut ids: SlotIndex,
        mut walk: IdsWalk,
        position: u64,
        writer: &mut SnapshotWriter,
    ) -> Result<Stage, SnapshotDamage> {
        let (partition, body) = (TransactionsPartition(ids.slot), writer.body());
        ids.newest = position;
        let coordinator = transactions.coordinator(partition);
        let written = coordinator.map(|it| it.write_snapshot(&mut walk, SLICE_BYTES, body));
        let written =
            written.transpose().map_err(|what| SnapshotDamage { group_id: None, what })?;
        Ok(match complete(ids, written.flatten()) {
            Some(row) => {
                self.ids.push(row);
                Stage::Ids(Some(partition))
            }
            None => Stage::IdsOf(ids, walk),
        })
    }

    /// Writes some share states of a slot.
    fn write_shares(
        &mut self,
        (shares, log): (&dyn ShareStates, &ShardLog),
        mut row: SlotIndex,
        mut walk: StatesWalk,
        position: u64,
        writer: &mut SnapshotWriter,
    ) -> Stage {
        let slot = Slot(row.slot);
        let Some(states) = shares.states(slot) else { return Stage::Shares(Some(slot)) };
        let (end, mut chunk) = (log.log_end_offset(slot.share_state()), Vec::new());
        states.write_chunk(&mut walk, end, SLICE_BYTES, &mut chunk);
        row.newest = position;
        row.index = row.index.followed_by(&chunk);
        writer.body().extend(chunk);
        if !walk.is_complete() {
            return Stage::SharesOf(row, walk);
        }
        self.shares.push(row);
        Stage::Shares(Some(slot))
    }

    /// Writes some groups of a slot, or a part of their index.
    fn write_groups(
        &mut self,
        slots: &mut Slots,
        mut groups: SlotIndex,
        mut walk: SnapshotWalk,
        position: u64,
        writer: &mut SnapshotWriter,
    ) -> Result<Stage, SnapshotDamage> {
        let (slot, body) = (Slot(groups.slot), writer.body());
        groups.newest = position;
        let written = slots.on(slot, |coordinator, _| {
            coordinator.write_snapshot(&mut walk, position, SLICE_BYTES, body)
        });
        Ok(match complete(groups, written?) {
            Some(row) => {
                self.slots.push(row);
                Stage::Groups(Some(slot))
            }
            None => Stage::GroupsOf(groups, walk),
        })
    }
}

/// The slot with records of share state that follows another one.
fn next_with_shares(slots: &Slots, log: &ShardLog, slot: Option<Slot>) -> Option<Slot> {
    let has_records = |slot: &Slot| log.log_end_offset(slot.share_state()) > 0;
    slots.iter().filter(|it| Some(*it) > slot).find(has_records)
}

/// The row of a slot that is written; None if the slot is not complete.
fn complete(row: SlotIndex, part: Option<SnapshotPart>) -> Option<SlotIndex> {
    let SnapshotPart { at, len, crc } = part?;
    Some(SlotIndex { index: Part { at, len, crc }, ..row })
}

/// The row of a slot, or of a partition of transactional ids, that is begun at a position.
fn row(slot: u32, position: u64) -> SlotIndex {
    SlotIndex { slot, from: position, newest: position, index: Part::default() }
}

/// The slot with producers for a snapshot that follows another one; the first for None.
fn next_with_producers(slots: &Slots, after: Option<Slot>) -> Option<(Slot, &OffsetProducers)> {
    let first = after.map_or(0, |Slot(slot)| slot + 1);
    slots.producers_from(Slot(first)).find(|(_, it)| !it.is_settled())
}

/// Writes the transactions in the slot of a row.
fn write_transactions(
    producers: &OffsetProducers,
    row: SlotIndex,
    writer: &mut SnapshotWriter,
) -> SlotIndex {
    let (at, mut out) = (writer.body_end(), Vec::new());
    producers.write_snapshot(&mut out);
    let index = Part::of(at, &out);
    writer.body().extend(out);
    SlotIndex { index, ..row }
}

/// Writes a table of slots.
fn write_table(rows: &[SlotIndex], writer: &mut SnapshotWriter) -> Part {
    let (at, mut table) = (writer.body_end(), Vec::new());
    rows.iter().for_each(|row| row.write(&mut table));
    let part = Part::of(at, &table);
    writer.body().extend(table);
    part
}

/// Writes the records of an image, if there is one. Each record is a key and a value, each after
/// its length; a length of -1 means that there is no value.
fn write_cluster(
    image: Option<&ClusterImage>,
    config: &Config,
    writer: &mut SnapshotWriter,
) -> Part {
    let (at, mut out) = (writer.body_end(), Vec::new());
    for record in image.into_iter().flat_map(|image| image.records(config)) {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        record.write_key(&mut key);
        let has_value = record.write_value(&mut value);
        write_record(&key, has_value.then_some(&value[..]), &mut out);
    }
    let part = Part::of(at, &out);
    writer.body().extend(out);
    part
}

/// Appends a key and a value, each after its length; a length of -1 means that there is no value.
fn write_record(key: &[u8], value: Option<&[u8]>, out: &mut Vec<u8>) {
    out.extend((key.len() as i32).to_be_bytes());
    out.extend(key);
    out.extend(value.map_or(-1, |value| value.len() as i32).to_be_bytes());
    out.extend(value.unwrap_or_default());
}

fn read_record<'b>(reader: &mut Reader<'b>) -> Result<(&'b [u8], Option<&'b [u8]>), DecodeError> {
    let key_len = usize::try_from(reader.i32()?).map_err(|_| DecodeError::UnexpectedEnd)?;
    let key = reader.take(key_len)?;
    let value_len = usize::try_from(reader.i32()?).ok();
    Ok((key, value_len.map(|len| reader.take(len)).transpose()?))
}

/// Applies the records of [`write_cluster`].
///
/// # Errors
/// The bytes are not such records.
pub(crate) fn read_cluster(bytes: &[u8], image: &mut ClusterImage) -> Result<(), DecodeError> {
    let mut reader = Reader::new(bytes);
    while !reader.rest().is_empty() {
        let (key, value) = read_record(&mut reader)?;
        if let Some(record) = ClusterRecord::read(key, value)? {
            image.apply(&record);
        }
    }
    Ok(())
}
