//! The row of an id at rest in the index of a snapshot.

use crate::state::{Durable, State};
use alloc::vec::Vec;
use muster_codec::wire::Reader;
use muster_snapshot_index::Row;

/// A row: the durable state of an id at rest, and the place of its name within the names, in bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IdRow {
    pub(crate) name_at: u64,
    pub(crate) id_len: u16,
    pub(crate) durable: Durable,
}

impl IdRow {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let durable = &self.durable;
        out.extend(self.name_at.to_be_bytes());
        out.extend(durable.producer_id.to_be_bytes());
        out.extend(durable.previous_producer_id.to_be_bytes());
        out.extend(durable.updated.to_be_bytes());
        out.extend(durable.started.to_be_bytes());
        out.extend(durable.timeout_ms.to_be_bytes());
        out.extend(durable.epoch.to_be_bytes());
        out.extend(self.id_len.to_be_bytes());
        out.extend((durable.state as i8).to_be_bytes());
        out.extend(durable.client_version.to_be_bytes());
        debug_assert_eq!(out.len() - start, Self::BYTES);
    }
}

impl Row for IdRow {
    const BYTES: usize = 50;

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let name_at = reader.array().map(u64::from_be_bytes).ok()?;
        let mut number = || reader.i64().ok();
        let [producer_id, previous_producer_id] = [number()?, number()?];
        let [updated, started] = [number()?, number()?];
        let (timeout_ms, epoch) = (reader.i32().ok()?, reader.i16().ok()?);
        let id_len = reader.array().map(u16::from_be_bytes).ok()?;
        let state = State::from_record(reader.i8().ok()?).filter(|it| it.is_at_rest())?;
        let client_version = reader.i8().ok()?;
        let durable = Durable {
            producer_id,
            previous_producer_id,
            updated,
            started,
            timeout_ms,
            epoch,
            state,
            client_version,
            open: None,
            kept: None,
        };
        Some(Self { name_at, id_len, durable })
    }

    fn name(&self) -> (u64, usize, usize) {
        (self.name_at, self.id_len.into(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(state: State) -> IdRow {
        let durable = Durable {
            producer_id: 1,
            previous_producer_id: -1,
            updated: i64::MAX,
            started: 4,
            timeout_ms: i32::MAX,
            epoch: i16::MAX,
            state,
            client_version: 2,
            open: None,
            kept: None,
        };
        IdRow { name_at: 1 << 40, id_len: u16::MAX, durable }
    }

    #[test]
    fn a_row_is_read_as_it_was_written() {
        for state in State::ALL {
            let mut bytes = Vec::new();
            row(state).write(&mut bytes);
            assert_eq!(IdRow::read(&bytes), Some(row(state)).filter(|_| state.is_at_rest()));
            assert_eq!(IdRow::read(&bytes[1..]), None);
        }
    }
}
