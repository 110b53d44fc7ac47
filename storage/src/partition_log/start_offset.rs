//! The file for the log start offset set by DeleteRecords.
//!
//! It has two slots in different sectors, written alternately: a torn write leaves the other slot
//! intact.

use muster_codec::wire::{DecodeError, Reader, Result};

/// The file's name in the partition's directory.
pub const START_OFFSET_FILE: &str = "log-start-offset";

/// "MSTO"
pub const START_OFFSET_MAGIC: u32 = 0x4d53_544f;
pub const START_OFFSET_VERSION: u16 = 1;
pub const START_OFFSET_SLOT_BYTES: usize = 28;

/// The distance between the slots.
pub const START_OFFSET_SLOT_STRIDE: usize = 4096;

const CRC_AT: usize = 8;
const CRC_FROM: usize = 12;

/// Reads the offset from the content of a [`START_OFFSET_FILE`]. None if neither slot is valid.
pub fn read_start_offset(file: &[u8]) -> Option<i64> {
    StartOffset::read(file).map(|start| start.offset)
}

/// The content of a new [`START_OFFSET_FILE`], with which a partition without segments begins at
/// this offset.
///
/// # Panics
/// The offset is negative.
pub fn new_start_offset(offset: i64) -> Vec<u8> {
    let (at, slot) = StartOffset::default().set(offset);
    let mut file = vec![0; at as usize];
    file.extend_from_slice(&slot);
    file
}

/// The content of a slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StartOffset {
    /// The number of writes so far. Its lowest bit selects the slot.
    count: u64,
    pub(super) offset: i64,
}

impl StartOffset {
    /// Reads the valid slot with the highest count.
    pub(super) fn read(file: &[u8]) -> Option<Self> {
        let slots = [0, START_OFFSET_SLOT_STRIDE];
        let valid = slots.into_iter().filter_map(|at| Self::read_slot(file.get(at..)?).ok());
        valid.max_by_key(|slot| slot.count)
    }

    /// Sets the offset. Returns the position of the slot to write, and its bytes.
    pub(super) fn set(&mut self, offset: i64) -> (u64, Vec<u8>) {
        assert!(offset >= self.offset, "the log start offset goes back");
        self.offset = offset;
        self.count += 1;
        let at = (self.count % 2) * START_OFFSET_SLOT_STRIDE as u64;
        let mut slot = Vec::with_capacity(START_OFFSET_SLOT_BYTES);
        slot.extend_from_slice(&START_OFFSET_MAGIC.to_be_bytes());
        slot.extend_from_slice(&START_OFFSET_VERSION.to_be_bytes());
        slot.extend_from_slice(&[0; 6]);
        slot.extend_from_slice(&self.count.to_be_bytes());
        slot.extend_from_slice(&self.offset.to_be_bytes());
        let crc = crc32c::crc32c(&slot[CRC_FROM..]);
        slot[CRC_AT..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
        assert_eq!(slot.len(), START_OFFSET_SLOT_BYTES);
        (at, slot)
    }

    fn read_slot(bytes: &[u8]) -> Result<Self> {
        let slot = bytes.get(..START_OFFSET_SLOT_BYTES).ok_or(DecodeError::UnexpectedEnd)?;
        let mut reader = Reader::new(slot);
        let magic = reader.array().map(u32::from_be_bytes)?;
        let version = reader.array().map(u16::from_be_bytes)?;
        let _reserved = reader.i16()?;
        let crc = reader.array().map(u32::from_be_bytes)?;
        let is_valid = magic == START_OFFSET_MAGIC
            && version == START_OFFSET_VERSION
            && crc == crc32c::crc32c(&slot[CRC_FROM..]);
        if !is_valid {
            return Err(DecodeError::InvalidBatch("not a log start offset"));
        }
        Ok(Self { count: reader.array().map(u64::from_be_bytes)?, offset: reader.i64()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_holds_its_offset() {
        for offset in [0, 1, i64::MAX] {
            assert_eq!(read_start_offset(&new_start_offset(offset)), Some(offset));
        }
    }

    #[test]
    fn a_torn_slot_leaves_the_previous_offset() {
        let mut file = vec![0; START_OFFSET_SLOT_STRIDE + START_OFFSET_SLOT_BYTES];
        assert_eq!(StartOffset::read(&file), None);
        let mut start = StartOffset::default();
        for offset in [3, 8, 20] {
            let (at, slot) = start.set(offset);
            let before = StartOffset::read(&file);
            for torn in 0..slot.len() {
                let mut file = file.clone();
                file[at as usize..at as usize + torn].copy_from_slice(&slot[..torn]);
                let read = StartOffset::read(&file);
                assert!(read == before || read == Some(start), "torn after {torn} bytes");
            }
            file[at as usize..at as usize + slot.len()].copy_from_slice(&slot);
            assert_eq!(StartOffset::read(&file), Some(start));
        }
    }
}
