//! The slots: partitions with logs, whose ends a crash may lose.

use crate::fault::Fault;
use crate::world::SLOTS;
use muster_codec::record_batch::TransactionOutcome;
use muster_transactions::PartitionSet;
use muster_transactions::link::{Link, Received, Reporting};
use muster_transactions::message::{
    FromSlot, Known, Marker, OpenIn, Producer, Reported, Stamp, Sync, ToSlot, ToSlotBody, Verdict,
};
use muster_transactions::partition::{Append, End, Marking, PartitionTransactions};
use std::collections::BTreeMap;

/// The topic of all partitions.
pub const TOPIC: &str = "t";

#[derive(Debug, Clone)]
pub enum Batch {
    /// A record of the transaction with this number.
    Data {
        producer: Producer,
        transaction: usize,
    },
    Marker(End),
}

#[derive(Default)]
pub struct Partition {
    pub log: Vec<Batch>,
    /// The number of batches that are on stable storage.
    synced: usize,
    pub transactions: PartitionTransactions,
    /// Whether the partition is offline. It is served again when the slot is loaded again.
    pub is_offline: bool,
    /// Batches that wait for a verdict, by the number of the question.
    waiting: BTreeMap<u64, (Producer, usize)>,
}

pub struct Slot {
    pub number: u32,
    session: u64,
    may_have_lost_writes: bool,
    pub partitions: BTreeMap<i32, Partition>,
    link: Link,
    fault: Option<Fault>,
}

/// The result that a client gets when it produces a batch.
pub enum Produced {
    Appended,
    Refused,
    Asks(u64),
}

impl Slot {
    pub fn new(number: u32, fault: Option<Fault>) -> Self {
        let own = (0..4).filter(|it| *it as u32 % SLOTS == number);
        let partitions = own.map(|it| (it, Partition::default())).collect();
        let (may_have_lost_writes, link) = (false, Link::default());
        Self { number, session: 1, may_have_lost_writes, partitions, link, fault }
    }

    pub fn produce(
        &mut self,
        partition: i32,
        producer: Producer,
        transaction: usize,
        number: u64,
    ) -> Produced {
        let partition = self.partitions.get_mut(&partition).unwrap();
        if partition.is_offline {
            return Produced::Refused;
        }
        match partition.transactions.may_append(producer) {
            Append::Now => {
                partition.append(producer, transaction, None);
                Produced::Appended
            }
            Append::Refuse(_) => Produced::Refused,
            Append::Ask if self.fault == Some(Fault::UnaskedAppend) => {
                partition.append(producer, transaction, None);
                Produced::Appended
            }
            Append::Ask => {
                partition.transactions.ask(producer, number);
                partition.waiting.insert(number, (producer, transaction));
                Produced::Asks(number)
            }
        }
    }

    /// Whether the coordinator has not yet answered the report.
    pub fn is_unanswered(&self) -> bool {
        self.link.is_unanswered()
    }

    /// Whether a transaction is open in a served partition.
    pub fn has_open(&self) -> bool {
        let mut served = self.partitions.values().filter(|it| !it.is_offline);
        served.any(|it| it.transactions.open().next().is_some())
    }

    /// Syncs, and reports all open transactions.
    pub fn report(&mut self) -> FromSlot {
        let mut open = Vec::new();
        let is_whole = self.partitions.values().all(|it| !it.is_offline);
        for (number, partition) in self.partitions.iter_mut().filter(|(_, it)| !it.is_offline) {
            partition.synced = partition.log.len();
            open.extend(partition.transactions.open().map(|producer| OpenIn {
                producer,
                topic: TOPIC.into(),
                partition: *number,
            }));
        }
        let by = Reporting {
            slot: self.number,
            session: self.session,
            may_have_lost_writes: self.may_have_lost_writes,
            is_whole,
        };
        FromSlot::Report(self.link.report(by, open.into()))
    }

    /// Loads the slot again after a crash. Without `loses_memory`, all batches survive; with it,
    /// the synced ones and perhaps some that follow. With `goes_offline`, some partitions are
    /// offline until the next load; they lose nothing by that.
    pub fn crash(
        &mut self,
        loses_memory: bool,
        may_have_lost: bool,
        goes_offline: bool,
        rng: &mut fastrand::Rng,
    ) {
        self.session += 1;
        self.may_have_lost_writes = may_have_lost;
        self.link = Link::default();
        for partition in self.partitions.values_mut() {
            if loses_memory {
                let kept = rng.usize(partition.synced..=partition.log.len());
                partition.log.truncate(kept);
                partition.synced = kept;
            }
            partition.is_offline = goes_offline && rng.u32(0..3) == 0;
            partition.load();
        }
    }

    /// Handles a message. Returns the answer to the coordinator, and the numbers of the questions
    /// that this message settles, with whether the batch was appended.
    pub fn receive(&mut self, message: ToSlot) -> (Option<FromSlot>, Vec<(u64, bool)>) {
        match self.link.receive(self.session, &message) {
            Received::Take => {}
            Received::Report => return (Some(self.report()), Vec::new()),
            Received::Drop => return (None, Vec::new()),
        }
        let answer = match message.body {
            ToSlotBody::ReportWanted { .. } => Some(self.report()),
            ToSlotBody::Verdict(verdict) => return (None, self.verdict(&verdict)),
            ToSlotBody::Reported(reported) => {
                self.reported(&reported);
                None
            }
            ToSlotBody::Sync(sync) => self.sync(sync),
            ToSlotBody::Marker(marker) => self.marker(&marker),
        };
        (answer, Vec::new())
    }

    fn verdict(&mut self, verdict: &Verdict) -> Vec<(u64, bool)> {
        let is_waiting = |it: &&mut Partition| it.waiting.contains_key(&verdict.number);
        let Some(partition) = self.partitions.values_mut().find(is_waiting) else {
            return Vec::new();
        };
        let (producer, transaction) = partition.waiting.remove(&verdict.number).unwrap();
        assert_eq!(producer, verdict.producer);
        let is_yes = verdict.error as i16 == 0 && verdict.refused.is_empty();
        let transactions = &mut partition.transactions;
        let counts = transactions.admit(producer, verdict.number, verdict.stamp).is_ok();
        let admitted = is_yes && (counts || self.fault == Some(Fault::StaleYes));
        if admitted {
            partition.append(producer, transaction, Some(verdict.stamp));
        } else {
            transactions.refused(producer, verdict.number);
        }
        vec![(verdict.number, admitted)]
    }

    /// Handles the answer to a report. As there is only one coordinator, a transaction that it does
    /// not know is unknown to all.
    fn reported(&mut self, reported: &Reported) {
        for open in self.link.answered(reported).unwrap_or_default().iter() {
            let known = reported.known.iter().find(|(it, _)| *it == open.producer);
            let unknown = Known::Decided {
                producer: open.producer,
                outcome: TransactionOutcome::Abort,
                version: 0,
            };
            let known = known.map_or(unknown, |(_, known)| *known);
            let partition = self.partitions.get_mut(&open.partition).unwrap();
            let end = partition.transactions.reported(open.producer, known, reported.stamp);
            if let Some(end) = end {
                partition.mark(end, reported.stamp);
            }
        }
    }

    fn sync(&mut self, sync: Sync) -> Option<FromSlot> {
        let is_unanswered = |it: &Partition| it.transactions.is_unanswered(sync.producer.id);
        if self.partitions.values().filter(|it| !it.is_offline).any(is_unanswered) {
            return None;
        }
        let mut is_whole = true;
        for (_, partition) in sync.partitions.iter() {
            let partition = self.partitions.get_mut(&partition).unwrap();
            is_whole &= !partition.is_offline;
            if !partition.is_offline && self.fault != Some(Fault::SkippedSync) {
                partition.synced = partition.log.len();
            }
        }
        let Sync { stamp, partitions, .. } = sync;
        Some(FromSlot::Synced { stamp, partitions, is_whole })
    }

    fn marker(&mut self, marker: &Marker) -> Option<FromSlot> {
        let Marker { stamp, producer, outcome, version, .. } = *marker;
        let end = End { producer, outcome, version, coordinator_epoch: stamp.coordinator_epoch };
        let (mut done, mut is_whole) = (PartitionSet::default(), true);
        for (topic, partition) in marker.partitions.iter() {
            let of = self.partitions.get_mut(&partition).unwrap();
            if of.is_offline {
                is_whole = false;
                done.insert(topic, partition);
                continue;
            }
            match of.transactions.may_mark(&end, Some(stamp)) {
                Marking::Write if self.fault == Some(Fault::LostMarker) => {}
                Marking::Write => of.mark(end, stamp),
                Marking::Stale => {}
                Marking::Refuse(_) => continue,
            }
            done.insert(topic, partition);
        }
        Some(FromSlot::Marked { stamp, partitions: done, is_synced: false, is_whole })
    }
}

impl Partition {
    fn append(&mut self, producer: Producer, transaction: usize, stamp: Option<Stamp>) {
        let offset = self.log.len() as i64;
        self.transactions.appended(producer, offset, stamp);
        self.log.push(Batch::Data { producer, transaction });
    }

    fn mark(&mut self, end: End, stamp: Stamp) {
        self.transactions.marked(&end, self.log.len() as i64, Some(stamp));
        self.log.push(Batch::Marker(end));
    }

    /// Builds the state from the log. If the partition is served, all its batches count as synced:
    /// the slot syncs them before it reports.
    fn load(&mut self) {
        if !self.is_offline {
            self.synced = self.log.len();
        }
        self.waiting.clear();
        self.transactions = PartitionTransactions::default();
        for (offset, batch) in (0..).zip(&self.log) {
            match batch {
                Batch::Data { producer, .. } => self.transactions.appended(*producer, offset, None),
                Batch::Marker(end) => self.transactions.marked(end, offset, None),
            }
        }
    }
}
