//! The replicated logs of a cluster, computed from the blocks of its disks as they become durable.
//!
//! An answer may report what a quorum of disks has. A block says up to which entry its writer knew
//! the entries of a group to be committed: a quorum must have them, and all nodes the same ones.

use muster_codec::DecodeError;
use muster_codec::record_batch::Batch;
use muster_server::topics::RULES;
use muster_storage::layout::Block;
use muster_storage::node_state::{NodeRecord, Vote};
use muster_storage::{EntryKind, LogPartition};
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::xxh3_64;

/// The index of the last entry that all nodes of a new cluster have.
const FORMED: u64 = 1;

/// The number of nodes that are a quorum.
pub(super) const QUORUM: usize = 2;

#[derive(Default)]
pub(super) struct Replicated {
    pub(super) shards: BTreeMap<u32, OnDisk>,
    /// The entries that were on a quorum of disks at some time: group, index and term.
    pub(super) on_quorum: BTreeSet<(u16, u64, u32)>,
    /// The committed entries of each group: the term, and a hash of the records.
    committed: BTreeMap<u16, BTreeMap<u64, (u32, u64)>>,
    /// The node that led in each term of a group.
    pub(super) leaders: BTreeMap<(u16, u32), u32>,
}

/// The durable log of a shard of a node.
#[derive(Default)]
pub(super) struct OnDisk {
    /// The position of the last operation.
    pub(super) position: u64,
    /// The block that is being written.
    pub(super) in_flight: Option<Vec<u8>>,
    /// A block that startup found, although its write was not confirmed.
    pub(super) unsynced: Option<Vec<u8>>,
    pub(super) entries: BTreeMap<u16, BTreeMap<u64, Entry>>,
    pub(super) votes: BTreeMap<u16, Vote>,
}

#[derive(Clone, Default)]
pub(super) struct Entry {
    term: u32,
    hash: u64,
    pub(super) batches: Vec<(LogPartition, Vec<u8>)>,
}

/// An entry that a block has: group, index and term.
pub(super) type Place = (u16, u64, u32);

impl OnDisk {
    /// Applies a durable block. Returns its entries, and its commit indexes.
    pub(super) fn apply(
        &mut self,
        bytes: &[u8],
    ) -> Result<(Vec<Place>, BTreeMap<u16, u64>), String> {
        let text = |error: DecodeError| error.to_string();
        let block = Block::read(bytes).map_err(text)?;
        let (mut places, mut commits) = (Vec::new(), BTreeMap::new());
        for entry in block.slot_entries() {
            let entry = entry.map_err(text)?;
            let (group, index, term) = (entry.head.group, entry.head.index, entry.head.term);
            if entry.head.is_of_node() {
                continue;
            }
            let of_group = self.entries.entry(group).or_default();
            if entry.head.kind == EntryKind::Void {
                of_group.clear();
                continue;
            }
            of_group.split_off(&index);
            let hash = xxh3_64(entry.body);
            of_group.insert(index, Entry { term, hash, batches: Vec::new() });
            commits.insert(group, entry.head.commit);
            places.push((group, index, term));
        }
        let mut batches = block.entries(RULES);
        while let Some(batch) = batches.next() {
            let (partition, batch) = batch.map_err(text)?;
            let Some(head) = batches.head() else { continue };
            if head.is_of_node() {
                self.node_records(&batch)?;
            } else if let Some(entry) =
                self.entries.get_mut(&head.group).and_then(|it| it.get_mut(&head.index))
            {
                entry.batches.push((partition, batch.bytes.to_vec()));
            }
        }
        self.position += u64::from(block.header.operations);
        Ok((places, commits))
    }

    /// Takes the records of the node itself: terms never decrease, and a vote never changes within
    /// its term.
    fn node_records(&mut self, batch: &Batch<'_>) -> Result<(), String> {
        for record in batch.records().map_err(|error| error.to_string())? {
            let record = record.map_err(|error| error.to_string())?;
            let read = NodeRecord::read(record.key.unwrap_or_default(), record.value);
            let NodeRecord::Vote { group, vote } = read.map_err(|error| error.to_string())? else {
                continue;
            };
            let Some(before) = self.votes.insert(group, vote) else { continue };
            let is_same = before.vote.is_none() || before.vote == vote.vote;
            if vote.term < before.term || vote.term == before.term && !is_same {
                return Err(format!("group {group}: after {before:?} comes {vote:?}"));
            }
        }
        Ok(())
    }

    fn has(&self, (group, index, term): Place) -> bool {
        let entry = self.entries.get(&group).and_then(|it| it.get(&index));
        entry.is_some_and(|entry| entry.term == term)
    }
}

impl Replicated {
    /// The copies of an entry on all disks.
    pub(super) fn copies(&self, place: Place) -> usize {
        self.shards.values().filter(|it| it.has(place)).count()
    }

    /// Notes that a node knows the entries of a group up to `commit` to be committed.
    pub(super) fn commit(&mut self, shard: u32, group: u16, commit: u64) -> Result<(), String> {
        let committed = self.committed.entry(group).or_default();
        let known = committed.last_key_value().map_or(FORMED, |(index, _)| *index);
        let Some(log) = self.shards.get(&shard).and_then(|it| it.entries.get(&group)) else {
            return Ok(());
        };
        for (index, (term, hash)) in committed.range(..=commit) {
            if let Some(entry) = log.get(index).filter(|it| (it.term, it.hash) != (*term, *hash)) {
                let found = entry.term;
                return Err(format!("entry {index} of group {group} has term {found}, not {term}"));
            }
        }
        for index in known + 1..=commit {
            let entry = log.get(&index).ok_or(format!("it lacks entry {index} of {group}"))?;
            if !self.on_quorum.contains(&(group, index, entry.term)) {
                let term = entry.term;
                return Err(format!("entry {index} of {group}, term {term}, is on one disk"));
            }
            committed.insert(index, (entry.term, entry.hash));
        }
        Ok(())
    }
}
