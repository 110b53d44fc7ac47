//! The sections of a snapshot: the parts of the machines' state that are written and opened one by
//! one.

use crate::{Damage, damaged};
use muster_snapshot_index::{SnapshotBytes, SnapshotPart};
use muster_storage::snapshot::Part;
use std::any::Any;

/// The state of the snapshot file and the log when a part of a section is written.
#[derive(Debug, Clone, Copy)]
pub struct SectionAt {
    /// The position of the next byte in the file.
    pub file_at: u64,
    /// The position of the log's last operation, which is the last of its block.
    pub position: u64,
    /// The offset that the next record of the partition gets.
    pub log_end: i64,
}

/// The progress of a walk of any topic, such as the `Machine::Walk` of the topic.
#[derive(Debug)]
pub struct AnyWalk(Box<dyn Any>);

/// A section of a snapshot that is opened.
#[derive(Clone, Copy)]
pub struct Opened<'o> {
    pub file: &'o SnapshotBytes,
    pub part: Part,
    /// The section has all operations of the partition up to this position.
    pub from: u64,
}

impl SectionAt {
    /// Appends a whole section at once. Returns where it is in the file, and its checksum.
    pub fn whole(&self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> Part {
        Part::appended(self.file_at, out, write)
    }
}

impl AnyWalk {
    pub(crate) fn new(walk: impl Any) -> Self {
        Self(Box::new(walk))
    }

    pub(crate) fn of<W: 'static>(&mut self) -> &mut W {
        self.0.downcast_mut().unwrap_or_else(|| unreachable!("a walk of another topic"))
    }
}

impl<'o> Opened<'o> {
    /// The bytes of the section. Only for kinds of sections with one checksum over all bytes.
    ///
    /// # Errors
    /// The checksum does not match.
    pub fn bytes(&self) -> Result<&'o [u8], Damage> {
        let bytes = self.part.of_file((**self.file).as_ref());
        bytes.ok_or_else(|| damaged("its checksum does not match"))
    }
}

/// The part that a coordinator has written.
pub fn part_of(SnapshotPart { at, len, crc }: SnapshotPart) -> Part {
    Part { at, len, crc }
}
