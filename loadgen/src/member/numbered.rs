//! The key of a record, by which readers recognise the producer and the transaction.

use bytes::{BufMut, Bytes, BytesMut};

use crate::plan::MemberIndex;

const BYTES: usize = 16;

/// A record of a producer: of a transaction, or of a round of batches outside transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Numbered {
    pub(super) producer: MemberIndex,
    /// When the producer began the transaction or the round, in microseconds since the start of the
    /// run. A producer never uses a number twice, and its numbers rise.
    pub(super) number: u64,
    /// The index of the record in its batch.
    pub(super) place: u32,
}

impl Numbered {
    pub(super) fn key(self) -> Bytes {
        let mut key = BytesMut::with_capacity(BYTES);
        key.put_u32(self.producer.0);
        key.put_u64(self.number);
        key.put_u32(self.place);
        key.freeze()
    }

    /// Decodes a key; `None` if no producer of a run wrote it.
    pub(super) fn of(key: &[u8]) -> Option<Self> {
        let (producer, rest) = key.split_first_chunk::<4>()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let place = <[u8; 4]>::try_from(rest).ok()?;
        Some(Self {
            producer: MemberIndex(u32::from_be_bytes(*producer)),
            number: u64::from_be_bytes(*number),
            place: u32::from_be_bytes(place),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_back_and_no_other() {
        let record = Numbered { producer: MemberIndex(7), number: 1 << 40, place: 3 };
        let key = record.key();
        assert_eq!(Numbered::of(&key), Some(record));
        assert_eq!((Numbered::of(&key[1..]), Numbered::of(b"")), (None, None));
    }
}
