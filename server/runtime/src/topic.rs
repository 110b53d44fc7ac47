//! A topic without the type of its machines.

use crate::{CheckCopy, Damage, Digest, Machine, NextId, Opened, SectionAt, SectionWalk, Slots};
use muster_codec::DecodeError;
use muster_codec::record_batch::Batch;
use muster_storage::TopicRules;
use muster_storage::snapshot::Part;
use std::sync::Arc;

/// The machines of one topic on a shard. The functions with the name of one of [`Machine`] call the
/// machine of a partition, which the shard must lead.
pub trait Topic {
    /// See [`Machine::SECTIONS`].
    fn sections(&self) -> &'static [&'static str];

    /// The partition that follows another one of the shard's; the first for None.
    fn next(&self, after: Option<u32>) -> Option<u32>;

    /// None if another shard leads the partition.
    fn replay(
        &mut self,
        index: u32,
        batch: &Batch<'_>,
        position: u64,
    ) -> Option<Result<bool, DecodeError>>;

    /// The first damage that was found: see [`Machine::damage`].
    fn damage(&self) -> Option<Damage>;

    /// Compares the state that follows the last audited one: see [`Machine::audit_after`]. Begins
    /// again after the last state.
    ///
    /// # Errors
    /// A description of the difference.
    fn audit(&mut self) -> Result<(), String>;

    fn copy(&self, index: u32, salt: u64, halvings: u32) -> Option<Box<dyn CheckCopy>>;

    fn next_id(
        &mut self,
        index: u32,
        after: Option<&Arc<str>>,
        visits: usize,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> NextId;

    fn digest(&mut self, index: u32, id: &str, items_max: usize) -> Option<Digest>;

    /// Calls [`Machine::begin_after`] of all machines.
    fn begin_after(&mut self, position: u64);

    fn begin_section(&self, index: u32, section: u8, at: SectionAt) -> Option<SectionWalk>;

    /// # Errors
    /// See [`Machine::write_section`].
    fn write_section(
        &mut self,
        index: u32,
        walk: &mut SectionWalk,
        at: SectionAt,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<Part>, Damage>;

    /// None if another shard leads the partition.
    fn open_section(
        &mut self,
        index: u32,
        section: u8,
        opened: Opened<'_>,
    ) -> Option<Result<(), Damage>>;
}

/// The topics of a shard.
pub trait TopicSet {
    /// The rules of the topics whose records the shard's log may contain.
    fn rules(&self) -> TopicRules;

    /// The topic with a number; None if the shard leads no partition of it.
    fn get(&mut self, number: u8) -> Option<&mut dyn Topic>;

    /// Calls all topics, in the order of their numbers.
    fn each(&mut self, act: &mut dyn FnMut(&mut dyn Topic));

    /// The first damage that was found in any topic.
    fn damage(&mut self) -> Option<Damage> {
        let mut found = None;
        self.each(&mut |topic| found = found.take().or_else(|| topic.damage()));
        found
    }
}

impl<M: Machine> Topic for Slots<M> {
    fn sections(&self) -> &'static [&'static str] {
        M::SECTIONS
    }

    fn next(&self, after: Option<u32>) -> Option<u32> {
        Self::next(self, after)
    }

    fn replay(
        &mut self,
        index: u32,
        batch: &Batch<'_>,
        position: u64,
    ) -> Option<Result<bool, DecodeError>> {
        Self::replay(self, index, batch, position)
    }

    fn damage(&self) -> Option<Damage> {
        Self::damage(self)
    }

    fn audit(&mut self) -> Result<(), String> {
        Self::audit(self)
    }

    fn copy(&self, index: u32, salt: u64, halvings: u32) -> Option<Box<dyn CheckCopy>> {
        self.of(index).copy(salt, halvings)
    }

    fn next_id(
        &mut self,
        index: u32,
        after: Option<&Arc<str>>,
        visits: usize,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> NextId {
        self.on(index, |machine, _| machine.next_id(after, visits, is_wanted))
    }

    fn digest(&mut self, index: u32, id: &str, items_max: usize) -> Option<Digest> {
        self.on(index, |machine, _| machine.digest(id, items_max))
    }

    fn begin_after(&mut self, position: u64) {
        self.each(|machine| machine.begin_after(position));
    }

    fn begin_section(&self, index: u32, section: u8, at: SectionAt) -> Option<SectionWalk> {
        self.of(index).begin_section(section, at).map(SectionWalk::new)
    }

    fn write_section(
        &mut self,
        index: u32,
        walk: &mut SectionWalk,
        at: SectionAt,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<Part>, Damage> {
        self.on(index, |machine, _| machine.write_section(walk.of(), at, bytes, out))
    }

    fn open_section(
        &mut self,
        index: u32,
        section: u8,
        opened: Opened<'_>,
    ) -> Option<Result<(), Damage>> {
        self.open(index, |machine| machine.open_section(section, opened))
    }
}
