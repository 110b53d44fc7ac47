//! The entries of a replicated log. An entry is everything that one block contains of one slot. It
//! has a header, followed by batches, each preceded by its partition. Raft replicates whole
//! entries: each slot has a Raft group, whose entries these are. FORMAT.md describes the bytes.

use crate::log_partition::{LogPartition, PARTITIONS_MAX, UNPARTITIONED};
use muster_codec::wire::{DecodeError, Reader, Result};

/// The length of an entry's header.
pub const SLOT_ENTRY_BYTES: usize = 36;

/// The group of the node's own records, which are not replicated.
pub const NODE_GROUP: u16 = u16::MAX;

/// The highest number of a group. Group 0 has the cluster image, and each slot has one group; the
/// same number of groups again is reserved.
pub const GROUP_MAX: u16 = 2 * PARTITIONS_MAX as u16;

/// No index of an entry, and no stamp, reaches this number.
pub const INDEX_LIMIT: u64 = 1 << 48;

/// No term reaches this number.
pub const TERM_LIMIT: u32 = 1 << 31;

/// The length of an encoded change of members.
pub const CHANGE_BYTES: usize = 17;

/// The most replicas in each list of a marker.
pub const MEMBERS_MAX: usize = 16;

/// The content of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// Batches. An entry in a compacted segment has the batches that remain of several entries, or
    /// none.
    Records,
    /// A leader's first entry of its term, which has no content.
    Empty,
    /// A change of the members of the group. This crate does not know its encoding.
    Members,
    /// A [`Marker`]: all entries of the group before it are void.
    Void,
}

impl EntryKind {
    fn number(self) -> u8 {
        match self {
            Self::Records => 0,
            Self::Empty => 1,
            Self::Members => 2,
            Self::Void => 3,
        }
    }

    fn of_number(number: u8) -> Option<Self> {
        [Self::Records, Self::Empty, Self::Members, Self::Void]
            .into_iter()
            .find(|kind| kind.number() == number)
    }

    /// Whether entries of this kind have batches.
    pub fn has_batches(self) -> bool {
        self == Self::Records
    }
}

/// The header of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryHead {
    /// The group of the slot, or [`NODE_GROUP`].
    pub group: u16,
    pub kind: EntryKind,
    /// The term of the leader that made the entry. It is also the leader epoch of the batches.
    pub term: u32,
    /// The entry's number in its group. The first is 1; the marker of a new replica has 0.
    pub index: u64,
    /// When this entry was written, all entries up to this index were committed.
    pub commit: u64,
    /// How far the leader had applied the entries of the group of the cluster image: an index.
    pub stamp: u64,
    /// The number of bytes after the header.
    pub length: u32,
}

impl EntryHead {
    /// Whether the entry has records of the node itself.
    pub fn is_of_node(&self) -> bool {
        self.group == NODE_GROUP
    }

    /// Appends the header.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.group.to_be_bytes());
        out.extend([self.kind.number(), 0]);
        out.extend(self.term.to_be_bytes());
        out.extend(self.index.to_be_bytes());
        out.extend(self.commit.to_be_bytes());
        out.extend(self.stamp.to_be_bytes());
        out.extend(self.length.to_be_bytes());
    }

    /// Reads a header, and checks what can be checked without the rest of the entry.
    ///
    /// # Errors
    /// The bytes are not a header of this version.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let group = reader.array().map(u16::from_be_bytes)?;
        let [kind, reserved] = reader.array()?;
        let kind = EntryKind::of_number(kind).filter(|_| reserved == 0);
        let head = Self {
            group,
            kind: kind.ok_or(DecodeError::InvalidBatch("an entry of an unknown kind"))?,
            term: reader.array().map(u32::from_be_bytes)?,
            index: reader.array().map(u64::from_be_bytes)?,
            commit: reader.array().map(u64::from_be_bytes)?,
            stamp: reader.array().map(u64::from_be_bytes)?,
            length: reader.array().map(u32::from_be_bytes)?,
        };
        let invalid = DecodeError::InvalidBatch("an entry with impossible numbers");
        head.is_possible().then_some(head).ok_or(invalid)
    }

    fn is_possible(&self) -> bool {
        let Self { group, kind, term, index, commit, stamp, length } = *self;
        let is_birth = kind == EntryKind::Void && index == 0;
        let terms = if self.is_of_node() || is_birth { 0..1 } else { 1..TERM_LIMIT };
        let has_length = match kind {
            EntryKind::Records => true,
            EntryKind::Empty => length == 0,
            EntryKind::Members => length as usize == CHANGE_BYTES,
            EntryKind::Void => length as usize >= Marker::BYTES_MIN,
        };
        (group <= GROUP_MAX || self.is_of_node() && kind == EntryKind::Records)
            && terms.contains(&term)
            && (is_birth || index > 0)
            && index < INDEX_LIMIT
            && commit <= index
            && stamp < INDEX_LIMIT
            && has_length
    }
}

/// An entry in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotEntry<'a> {
    pub head: EntryHead,
    /// The bytes after the header.
    pub body: &'a [u8],
}

impl<'a> SlotEntry<'a> {
    /// Reads the entry at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes are not an entry, or the entry is incomplete.
    pub fn read(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let head = EntryHead::read(&mut reader)?;
        Ok(Self { head, body: reader.take(head.length as usize)? })
    }
}

/// The group of a partition, in a log with this number of slots.
pub fn group_of(partition: LogPartition, slots: u32) -> u16 {
    if partition == LogPartition::NODE {
        return NODE_GROUP;
    }
    if partition.topic == UNPARTITIONED {
        return 0;
    }
    // An index is below PARTITIONS_MAX.
    1 + (partition.index % slots) as u16
}

/// Iterates over the entries of a block; ends at the first unreadable entry.
#[derive(Debug, Clone)]
pub struct SlotEntries<'a> {
    rest: &'a [u8],
}

impl<'a> SlotEntries<'a> {
    pub(crate) fn new(entries: &'a [u8]) -> Self {
        Self { rest: entries }
    }
}

impl<'a> Iterator for SlotEntries<'a> {
    type Item = Result<SlotEntry<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let entry = SlotEntry::read(self.rest);
        self.rest = match &entry {
            Ok(entry) => &self.rest[SLOT_ENTRY_BYTES + entry.body.len()..],
            Err(_) => &[],
        };
        Some(entry)
    }
}

/// The body of a [`EntryKind::Void`] entry: the replica whose log begins here, and its members. The
/// log begins after the index and term in the entry's header. A new replica has index 0 and no
/// members, because the first members are not in the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Marker {
    pub replica: u64,
    pub voters: Vec<u64>,
    /// The voters before the current change of the members. Empty if no change is in progress.
    pub outgoing: Vec<u64>,
    pub learners: Vec<u64>,
}

impl Marker {
    /// The replica, and the lengths of three lists.
    const BYTES_MIN: usize = 8 + 3;

    /// Appends the marker.
    ///
    /// # Panics
    /// A list is longer than [`MEMBERS_MAX`].
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.replica.to_be_bytes());
        for list in [&self.voters, &self.outgoing, &self.learners] {
            assert!(list.len() <= MEMBERS_MAX, "too many members");
            out.push(list.len() as u8);
            list.iter().for_each(|replica| out.extend(replica.to_be_bytes()));
        }
    }

    /// Reads a whole marker.
    ///
    /// # Errors
    /// The bytes are not exactly a marker.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let replica = reader.array().map(u64::from_be_bytes)?;
        let mut list = || {
            let [length] = reader.array()?;
            if usize::from(length) > MEMBERS_MAX {
                return Err(DecodeError::InvalidBatch("a marker with too many members"));
            }
            (0..length).map(|_| reader.array().map(u64::from_be_bytes)).collect::<Result<_>>()
        };
        let (voters, outgoing, learners) = (list()?, list()?, list()?);
        if reader.remaining() > 0 {
            return Err(DecodeError::InvalidBatch("bytes after a marker"));
        }
        Ok(Self { replica, voters, outgoing, learners })
    }
}

#[cfg(test)]
mod tests;
