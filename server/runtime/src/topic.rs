//! The interface to the machines of a topic, whatever their type.

use crate::written::{partition, write};
use crate::{
    AnyWalk, CheckCopy, Damage, Digest, Machine, NextId, NotRestated, Opened, SectionAt, Slots,
};
use muster_codec::DecodeError;
use muster_codec::record_batch::Batch;
use muster_storage::snapshot::Part;
use muster_storage::{LogPartition, ShardLog, TopicRules};
use std::sync::Arc;

/// The machines of one topic on a shard. A function with the same name as one of [`Machine`] calls
/// that function of one partition's machine. The shard must lead the partition.
pub trait Topic {
    /// See [`Machine::SECTIONS`].
    fn sections(&self) -> &'static [&'static str];

    /// The partition that follows `after`, among those that the shard leads. With None, the first.
    fn next(&self, after: Option<u32>) -> Option<u32>;

    /// None if another shard leads the partition.
    fn replay(
        &mut self,
        index: u32,
        batch: &Batch<'_>,
        position: u64,
    ) -> Option<Result<bool, DecodeError>>;

    /// Drops the state of a partition: its machine begins again, without records.
    fn reset(&mut self, index: u32);

    /// See [`Slots::set_timers`].
    fn set_timers(&mut self, index: u32, fire: bool);

    /// The first damage that was found: see [`Machine::damage`].
    fn damage(&self) -> Option<Damage>;

    /// Like [`Machine::stable_offset`]. Returns `end` for a partition without a machine, which
    /// never has records.
    fn stable_offset(&mut self, index: u32, end: i64) -> i64;

    fn aborted(&self, index: u32, producer_id: i64, offset: i64) -> Option<(i64, i64)>;

    /// Appends about `count` further records of a partition's state to the log again, each as an
    /// operation of its own: see [`Machine::restate`]. They are not applied, because the state has
    /// them. `walk` is None at first. Returns false after the last record.
    ///
    /// # Errors
    /// A part of the state in the snapshot is damaged, or a record is too large for the log.
    fn restate(
        &mut self,
        index: u32,
        walk: &mut Option<AnyWalk>,
        count: usize,
        to: (&mut ShardLog, i64),
    ) -> Result<bool, NotRestated>;

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

    fn begin_section(&self, index: u32, section: u8, at: SectionAt) -> Option<AnyWalk>;

    /// # Errors
    /// See [`Machine::write_section`].
    fn write_section(
        &mut self,
        index: u32,
        walk: &mut AnyWalk,
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
    fn each(&mut self, act: &mut dyn FnMut(&mut dyn Topic)) {
        let rules = self.rules();
        let mut number = rules.next(None);
        while let Some(topic) = number {
            if let Some(of) = self.get(topic) {
                act(of);
            }
            number = rules.next(Some(topic));
        }
    }

    /// The partition of the shard that follows another one, in the order of topics and indexes; the
    /// first for None.
    fn next(&mut self, after: Option<LogPartition>) -> Option<LogPartition> {
        let rules = self.rules();
        let first = || (rules.next(None), None);
        let (mut number, mut index) =
            after.map_or_else(first, |at| (Some(at.topic), Some(at.index)));
        while let Some(topic) = number {
            if let Some(index) = self.get(topic).and_then(|of| of.next(index)) {
                return Some(LogPartition { topic, index });
            }
            (number, index) = (rules.next(Some(topic)), None);
        }
        None
    }

    /// The first damage that was found in any topic. This is called in each turn, so a program may
    /// implement it without a call of each topic.
    fn damage(&mut self) -> Option<Damage> {
        let mut found = None;
        self.each(&mut |topic| {
            if found.is_none() {
                found = topic.damage();
            }
        });
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

    fn reset(&mut self, index: u32) {
        Self::reset(self, index);
    }

    fn set_timers(&mut self, index: u32, fire: bool) {
        Self::set_timers(self, index, fire);
    }

    fn damage(&self) -> Option<Damage> {
        Self::damage(self)
    }

    fn stable_offset(&mut self, index: u32, end: i64) -> i64 {
        self.on_led(index, |machine, _| machine.stable_offset(end)).unwrap_or(end)
    }

    fn aborted(&self, index: u32, producer_id: i64, offset: i64) -> Option<(i64, i64)> {
        self.get(index)?.aborted(producer_id, offset)
    }

    fn restate(
        &mut self,
        index: u32,
        walk: &mut Option<AnyWalk>,
        count: usize,
        (log, now): (&mut ShardLog, i64),
    ) -> Result<bool, NotRestated> {
        let (partition, mut appended) = (partition::<M>(index), Ok(()));
        let walk = walk.get_or_insert_with(|| AnyWalk::new(M::Restating::default())).of();
        let restated = self.on(index, |machine, _| {
            machine.restate(walk, count, &mut |producer, record| {
                if let Err(error) = write(log, partition, now, producer, [record]) {
                    appended = Err(error);
                }
            })
        });
        appended?;
        Ok(restated?)
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

    fn begin_section(&self, index: u32, section: u8, at: SectionAt) -> Option<AnyWalk> {
        self.of(index).begin_section(section, at).map(AnyWalk::new)
    }

    fn write_section(
        &mut self,
        index: u32,
        walk: &mut AnyWalk,
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
