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

impl Rounds {
    /// Appends one batch of dead letters.
    pub(super) fn append_letters(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        number: u64,
        (wall, address): (Wall, Address),
        letters: (PartitionId, &[u8]),
        out: &mut Effects,
    ) {
        if table.identity().space.is_short() {
            disk.counters.refused_batches += 1;
            return out.letters.push((number, LettersEnd::NoSpace));
        }
        disk.begin_request();
        let round = self.next_round();
        match append_letters_to(table, disk, Origin { wall, address }, letters, round, out) {
            Ok(waits) => self.letters_round(table, round, waits, number, out),
            Err(error) => out.letters.push((number, LettersEnd::Refused(error))),
        }
    }
}

/// Appends a batch of dead letters to a partition. Returns whether its write has to be waited for.
fn append_letters_to(
    table: &mut Table,
    disk: &mut Disk,
    origin: Origin,
    (id, batch): (PartitionId, &[u8]),
    round: u64,
    out: &mut Effects,
) -> Result<bool, ErrorCode> {
    // The sender may have a newer image than this shard, so the error makes it try again.
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
