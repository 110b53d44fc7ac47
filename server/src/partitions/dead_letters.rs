//! Dead letters of share groups, appended as a producer's batch with acks=all.

use super::partition_set::PartitionId;
use super::producers::Origin;
use super::{Effects, Partitions};
use muster_codec::{ErrorCode, Wall};
use muster_fairness::Address;

impl Partitions {
    /// Appends a batch; [`Effects::letters`] has the end, with the number.
    pub(crate) fn append_letters(
        &mut self,
        wall: Wall,
        number: u64,
        (id, batch): (PartitionId, &[u8]),
        out: &mut Effects,
    ) {
        let round = self.next_round();
        match self.append_letters_to(wall, (id, batch), round, out) {
            Ok(waits) => self.letters_round(round, waits, number, out),
            Err(error) => out.letters.push((number, error)),
        }
    }

    /// Returns whether the round waits for the write.
    fn append_letters_to(
        &mut self,
        wall: Wall,
        (id, batch): (PartitionId, &[u8]),
        round: u64,
        out: &mut Effects,
    ) -> Result<bool, ErrorCode> {
        // The sender may have an image that this shard has not had yet: it tries again.
        let later = ErrorCode::NotLeaderOrFollower;
        let topic = self.image().topic_by_id(id.topic).ok_or(later)?;
        if topic.is_internal() {
            return Err(ErrorCode::InvalidTopicException);
        }
        self.locate(topic, id.index).map_err(|missing| {
            let is_unknown = missing.error == ErrorCode::UnknownTopicOrPartition;
            if is_unknown { later } else { missing.error }
        })?;
        if self.identity.space.is_short() {
            return Err(ErrorCode::KafkaStorageError);
        }
        let origin = Origin { wall, address: Address::default() };
        let fits = self.io.fits_write_budget(origin.address, batch.len());
        fits.map_err(|_| ErrorCode::RequestTimedOut)?;
        let partition = self.partitions.get_mut(&id).ok_or(later)?;
        let appended = partition.append(origin, batch, None, &mut self.io, out);
        let appended = appended.map_err(|refusal| refusal.error)?;
        Ok(partition.await_write(&appended, round))
    }
}
