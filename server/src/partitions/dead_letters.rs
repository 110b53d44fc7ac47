//! Dead letters of share groups. They are appended as if a producer had sent them with acks=all.

use super::disk::Disk;
use super::effects::{Effects, LettersEnd};
use super::happened::Waiter;
use super::partition::NewBatch;
use super::partition_id::PartitionId;
use super::producers::Origin;
use super::rounds::Rounds;
use super::table::Table;
use muster_codec::{ErrorCode, Wall};
use muster_fairness::Address;

/// A batch of dead letters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewLetters<'b> {
    /// The number with which [`Effects::letters`] reports the result.
    pub(crate) number: u64,
    pub(crate) wall: Wall,
    /// The address of a member, to which the batch is charged.
    pub(crate) address: Address,
    pub(crate) id: PartitionId,
    pub(crate) batch: &'b [u8],
}

impl Rounds {
    /// Appends one batch of dead letters.
    pub(super) fn append_letters(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        letters: NewLetters<'_>,
        out: &mut Effects,
    ) {
        let number = letters.number;
        if !disk.has_room(letters.batch.len()) {
            disk.counters.refused_batches += 1;
            return out.letters.push((number, LettersEnd::NoSpace));
        }
        disk.begin_request();
        let round = self.next_round();
        match append_letters_to(table, disk, letters, round, out) {
            Ok(waits) => self.letters_round(table, round, waits, number, out),
            Err(error) => out.letters.push((number, LettersEnd::Refused(error))),
        }
    }
}

/// Appends a batch of dead letters to a partition. Returns whether its write has to be waited for.
fn append_letters_to(
    table: &mut Table,
    disk: &mut Disk,
    letters: NewLetters<'_>,
    round: u64,
    out: &mut Effects,
) -> Result<bool, ErrorCode> {
    let NewLetters { wall, address, id, batch, .. } = letters;
    let origin = Origin { wall, address };
    // This shard may have an older image than the sender. The error makes the sender try again.
    let later = ErrorCode::NotLeaderOrFollower;
    let topic = table.image().topic_by_id(id.topic).ok_or(later)?;
    if topic.is_internal() {
        return Err(ErrorCode::InvalidTopicException);
    }
    table.locate(topic, id.index).map_err(|missing| {
        let is_unknown = missing.error == ErrorCode::UnknownTopicOrPartition;
        if is_unknown { later } else { missing.error }
    })?;
    if let Err(refused) = disk.fits_write_budget(origin.address, batch.len()) {
        out.refused.push(refused);
        return Err(ErrorCode::RequestTimedOut);
    }
    let new = NewBatch { origin, bytes: batch, admitted: None };
    let appended = table.append(id, &new, disk, out);
    let appended = appended.map_err(|refusal| refusal.error)?;
    Ok(table.await_write(id, &appended, Waiter::Round(round)))
}
