//! The transactions of a partition in a snapshot: the open and the aborted ones. Producers without
//! an open transaction are left out.

use super::{Aborted, Open, PartitionTransactions, State};
use crate::message::{Producer, Stamp};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use muster_codec::DecodeError;
use muster_codec::wire::Reader;

/// The size of an open transaction.
const OPEN_BYTES: usize = 30;

/// The size of an aborted transaction.
const ABORTED_BYTES: usize = 32;

/// The transactions of a partition as read from a snapshot. `written_at` has the time at which each
/// producer last wrote.
#[derive(Debug, Default)]
pub struct Saved {
    pub transactions: PartitionTransactions,
    pub written_at: BTreeMap<i64, i64>,
}

impl PartitionTransactions {
    /// Whether there is nothing to write to a snapshot.
    pub fn is_settled(&self) -> bool {
        self.open.is_empty() && self.aborted.is_empty()
    }

    /// Writes the open and the aborted transactions. `written_at` returns when a producer last
    /// wrote.
    pub fn write_snapshot(&self, written_at: impl Fn(i64) -> i64, out: &mut Vec<u8>) {
        out.extend((self.open.len() as u32).to_be_bytes());
        for (first_offset, id) in &self.open {
            let state = self.producers.get(id).copied().unwrap_or_default();
            out.extend(id.to_be_bytes());
            out.extend(state.epoch.to_be_bytes());
            out.extend(state.coordinator_epoch.to_be_bytes());
            out.extend(first_offset.to_be_bytes());
            out.extend(written_at(*id).to_be_bytes());
        }
        for aborted in &self.aborted {
            let Aborted { producer_id, first_offset, last_offset, last_stable_offset } = *aborted;
            let numbers = [producer_id, first_offset, last_offset, last_stable_offset];
            numbers.iter().for_each(|number| out.extend(number.to_be_bytes()));
        }
    }
}

impl Saved {
    /// Reads what [`PartitionTransactions::write_snapshot`] wrote.
    ///
    /// # Errors
    /// The bytes have another form.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let open = reader.array().map(u32::from_be_bytes)? as usize;
        let of_open = reader.take(open.saturating_mul(OPEN_BYTES))?;
        let (of_aborted, rest) = reader.rest().as_chunks::<ABORTED_BYTES>();
        if !rest.is_empty() {
            return Err(DecodeError::UnexpectedEnd);
        }
        let mut saved = Self::default();
        for row in of_open.chunks_exact(OPEN_BYTES) {
            saved.read_open(&mut Reader::new(row))?;
        }
        let aborted = of_aborted.iter().map(|row| read_aborted(&mut Reader::new(row)));
        saved.transactions.aborted = aborted.collect::<Result<_, _>>()?;
        Ok(saved)
    }

    fn read_open(&mut self, row: &mut Reader<'_>) -> Result<(), DecodeError> {
        let producer = Producer { id: row.i64()?, epoch: row.i16()? };
        let coordinator_epoch = row.i32()?;
        let (first_offset, written_at) = (row.i64()?, row.i64()?);
        let open = Some(Open { first_offset, since: None });
        let (question, ended) = (None, Stamp::default());
        let state = State { epoch: producer.epoch, coordinator_epoch, open, question, ended };
        let all = &mut self.transactions;
        if all.producers.insert(producer.id, state).is_some() {
            return Err(DecodeError::InvalidBatch("a producer with two transactions"));
        }
        all.open.insert((first_offset, producer.id));
        self.written_at.insert(producer.id, written_at);
        Ok(())
    }
}

fn read_aborted(row: &mut Reader<'_>) -> Result<Aborted, DecodeError> {
    let (producer_id, first_offset) = (row.i64()?, row.i64()?);
    let (last_offset, last_stable_offset) = (row.i64()?, row.i64()?);
    Ok(Aborted { producer_id, first_offset, last_offset, last_stable_offset })
}
