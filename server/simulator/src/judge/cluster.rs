//! The checks of a cluster's nodes: their blocks, starts, leaders and answers.

use super::Judge;
use super::block_records::each_of_batch;
use super::expected::learn_record;
use super::replicated::{OnDisk, QUORUM};
use crate::coverage::Seen;
use crate::net::Asked;
use muster_codec::record_batch::Batch;
use muster_shares::States;
use muster_storage::layout::Block;

impl Judge {
    /// Notes that a shard of a cluster's node writes a block.
    pub(crate) fn note_replicated_write(&mut self, shard: u32, block: &[u8]) {
        self.replicated.shards.entry(shard).or_default().in_flight = Some(block.to_vec());
    }

    /// Applies a durable block of a cluster's node.
    ///
    /// # Errors
    /// The block cannot be read, or has a commit index that no quorum has reached.
    pub(crate) fn note_replicated(
        &mut self,
        shard: u32,
        block: &[u8],
        now: u64,
    ) -> Result<(), String> {
        let on_disk = self.replicated.shards.entry(shard).or_default();
        on_disk.in_flight = None;
        let (places, commits) = on_disk.apply(block)?;
        for place in places {
            let (group, index, _) = place;
            if self.replicated.copies(place) < QUORUM || !self.replicated.on_quorum.insert(place) {
                continue;
            }
            self.facts.coverage.saw(Seen::OnQuorum);
            let of_group = self.replicated.shards[&shard].entries.get(&group);
            let entry = of_group.and_then(|it| it.get(&index)).cloned().unwrap_or_default();
            for (partition, bytes) in &entry.batches {
                let batch = Batch::read(bytes).map_err(|error| error.to_string())?;
                each_of_batch(*partition, &batch, |record| {
                    learn_record(&mut self.facts, &record, now);
                })
                .map_err(|error| error.to_string())?;
            }
        }
        let mut commits = commits.into_iter();
        commits.try_for_each(|(group, commit)| self.replicated.commit(shard, group, commit))
    }

    /// Applies the block that may not have been durable when the node's start found it. The shard
    /// has synced it.
    ///
    /// # Errors
    /// The errors of [`Self::note_replicated`].
    pub(crate) fn note_replicated_synced(&mut self, shard: u32, now: u64) -> Result<(), String> {
        let on_disk = self.replicated.shards.entry(shard).or_default();
        let Some(block) = on_disk.unsynced.take() else { return Ok(()) };
        self.note_replicated(shard, &block, now)
    }

    /// Checks that the start of a node has found all durable blocks.
    ///
    /// # Errors
    /// A block is missing, or there is one that was never written.
    pub(crate) fn check_replicated_start(&mut self, shard: u32, found: u64) -> Result<(), String> {
        let Some(on_disk) = self.replicated.shards.get_mut(&shard) else {
            let formed = OnDisk { position: found, ..OnDisk::default() };
            self.replicated.shards.insert(shard, formed);
            return Ok(());
        };
        let block = on_disk.in_flight.take().or(on_disk.unsynced.take());
        let operations = |block: &Vec<u8>| Block::read(block).map(|it| it.header.operations);
        let last = block.as_ref().map_or(Ok(0), operations).map_err(|error| error.to_string())?;
        let (position, last) = (on_disk.position, u64::from(last));
        if found != position && found != position + last {
            return Err(format!("the log had come to {position}, with {last} on their way"));
        }
        on_disk.unsynced = block.filter(|_| found > position);
        Ok(())
    }

    /// Notes that a node serves a slot in a term. Returns whether this is new.
    ///
    /// # Errors
    /// Another node has led in this term.
    pub(crate) fn note_leader(&mut self, group: u16, term: u32, node: u32) -> Result<bool, String> {
        let leaders = &mut self.replicated.leaders;
        let is_new = !leaders.contains_key(&(group, term));
        let leader = *leaders.entry((group, term)).or_insert(node);
        if leader != node {
            return Err(format!("{leader} and {node} lead group {group} in term {term}"));
        }
        Ok(is_new)
    }

    /// Checks an answer of a cluster's node: a quorum of disks has what it reports.
    ///
    /// # Errors
    /// The errors of [`Self::check_answer`].
    pub(crate) fn check_replicated_answer(
        &mut self,
        asked: &Asked,
        frame: &[u8],
    ) -> Result<(), String> {
        self.facts.check_frame(asked, frame, &States::new(1))
    }
}
