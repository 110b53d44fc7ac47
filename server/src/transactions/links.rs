//! The slots' side of the messages with coordinators: a [`Link`] for each pair of a slot and a
//! coordinator, and the reports of open transactions.
//!
//! A report describes records that are on stable storage. So reports wait until the partitions have
//! synced their records. Then all waiting reports are sent.

use super::limits::REPORT_AGAIN_MS;
use crate::placement::Placement;
use muster_transactions::link::{Link, Received, Reporting};
use muster_transactions::message::{FromSlot, OpenIn, Reported, ToSlot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A slot and a coordinator.
type Pair = (u32, u32);

/// The links of the slots of a shard.
#[derive(Debug)]
pub(super) struct Links {
    /// A number that grows with each load of the shard.
    session: u64,
    may_have_lost_writes: bool,
    coordinators: u32,
    /// For messages, a shard has a single slot: its number is that of the shard. See
    /// [`crate::cluster::transaction_slot`].
    slots: BTreeMap<u32, OfSlot>,
    /// The reports to be sent after the next sync, and those to be sent after the sync under way.
    wanted: BTreeSet<Pair>,
    syncing: Option<BTreeSet<Pair>>,
    /// The reports whose answers could not be applied.
    unfollowed: BTreeSet<Pair>,
    /// The time at which unanswered reports, and reports whose answers could not be applied, are
    /// sent again.
    again_at: Option<i64>,
}

#[derive(Debug)]
struct OfSlot {
    /// The links by coordinator.
    links: Vec<Link>,
    /// The coordinators that have answered a report.
    answered: BTreeSet<u32>,
}

/// The answer to a report.
#[derive(Debug)]
pub(crate) struct Answered {
    /// The transactions in the report.
    pub(crate) open: Arc<[OpenIn]>,
    /// Whether all coordinators have answered reports of the slot. If so, a transaction that no
    /// answer names is unknown to all coordinators.
    pub(crate) by_all: bool,
}

impl Links {
    /// The links of a shard that was loaded: all slots must report to all coordinators.
    pub(super) fn new(
        placement: Placement,
        shard: u32,
        session: u64,
        may_have_lost_writes: bool,
    ) -> Self {
        let coordinators = placement.transactions_partitions;
        let links = (0..coordinators).map(|_| Link::default()).collect();
        let slots = BTreeMap::from([(shard, OfSlot { links, answered: BTreeSet::new() })]);
        let wanted = (0..coordinators).map(|coordinator| (shard, coordinator)).collect();
        Self {
            session,
            may_have_lost_writes,
            coordinators,
            slots,
            wanted,
            syncing: None,
            unfollowed: BTreeSet::new(),
            again_at: None,
        }
    }

    /// Whether a message to a slot has to be handled now.
    pub(super) fn receive(&mut self, coordinator: u32, message: &ToSlot) -> bool {
        let Some(link) = self.link(message.slot, coordinator) else { return false };
        let (received, slot) = (link.0.receive(link.1, message), message.slot);
        match received {
            Received::Take => true,
            Received::Drop => false,
            Received::Report => {
                self.wanted.insert((slot, coordinator));
                false
            }
        }
    }

    fn link(&mut self, slot: u32, coordinator: u32) -> Option<(&mut Link, u64)> {
        let of_slot = self.slots.get_mut(&slot)?;
        Some((of_slot.links.get_mut(coordinator as usize)?, self.session))
    }

    /// Whether a coordinator knows the present state of a slot: it has answered the newest report,
    /// and no further report is due.
    pub(super) fn is_known(&self, slot: u32, coordinator: u32) -> bool {
        let pair = (slot, coordinator);
        let is_syncing = self.syncing.as_ref().is_some_and(|them| them.contains(&pair));
        let Some(of_slot) = self.slots.get(&slot) else { return false };
        let link = of_slot.links.get(coordinator as usize);
        of_slot.answered.contains(&coordinator)
            && link.is_some_and(|it| !it.is_unanswered())
            && !is_syncing
            && !self.wanted.contains(&pair)
    }

    /// Whether reports wait for a sync, which has to begin now.
    pub(super) fn begin_sync(&mut self) -> bool {
        if self.syncing.is_some() || self.wanted.is_empty() {
            return false;
        }
        self.syncing = Some(std::mem::take(&mut self.wanted));
        true
    }

    /// Called at the end of a sync. Returns the reports that waited for it, each with the number of
    /// its coordinator. `open` has the open transactions by slot. `is_whole` is false if a
    /// partition is offline or has lost writes.
    pub(super) fn synced(
        &mut self,
        now: i64,
        open: &BTreeMap<u32, Vec<OpenIn>>,
        is_whole: bool,
    ) -> Vec<(u32, FromSlot)> {
        let pairs = self.syncing.take().unwrap_or_default();
        let may_have_lost_writes = self.may_have_lost_writes;
        // The reports of a slot name the same transactions for every coordinator, so they share
        // one copy.
        let open: BTreeMap<u32, Arc<[OpenIn]>> =
            open.iter().map(|(slot, open)| (*slot, Arc::from(&open[..]))).collect();
        let mut reports = Vec::with_capacity(pairs.len());
        for (slot, coordinator) in pairs {
            let open = open.get(&slot).cloned().unwrap_or_default();
            let Some((link, session)) = self.link(slot, coordinator) else { continue };
            let by = Reporting { slot, session, may_have_lost_writes, is_whole };
            let report = link.report(by, open);
            reports.push((coordinator, FromSlot::Report(report)));
        }
        self.again_at = Some(now.saturating_add(REPORT_AGAIN_MS));
        reports
    }

    /// Handles the answer to a report. None if the answer belongs to an earlier report.
    pub(super) fn answered(
        &mut self,
        slot: u32,
        coordinator: u32,
        reported: &Reported,
    ) -> Option<Answered> {
        let coordinators = self.coordinators as usize;
        let of_slot = self.slots.get_mut(&slot)?;
        let open = of_slot.links.get_mut(coordinator as usize)?.answered(reported)?;
        of_slot.answered.insert(coordinator);
        Some(Answered { open, by_all: of_slot.answered.len() == coordinators })
    }

    /// Notes that the answer to a report could not be applied: the report is sent again.
    pub(super) fn report_again(&mut self, now: i64, slot: u32, coordinator: u32) {
        self.unfollowed.insert((slot, coordinator));
        self.again_at.get_or_insert(now.saturating_add(REPORT_AGAIN_MS));
    }

    /// The time at which [`Self::expire`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<i64> {
        self.again_at
    }

    /// Sends reports again that are not answered, or whose answers could not be applied.
    pub(super) fn expire(&mut self, now: i64) {
        if self.again_at.is_none_or(|at| at > now) {
            return;
        }
        self.again_at = None;
        self.wanted.append(&mut self.unfollowed);
        for (slot, of_slot) in &self.slots {
            let links = (0..).zip(&of_slot.links);
            let unanswered = links.filter(|(_, link)| link.is_unanswered());
            self.wanted.extend(unanswered.map(|(coordinator, _)| (*slot, coordinator)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::NodePlace;
    use muster_transactions::message::{Stamp, ToSlotBody};

    const PLACEMENT: Placement = Placement {
        shards: 1,
        offsets_partitions: 1,
        transactions_partitions: 2,
        share_state_partitions: 1,
        node: NodePlace::ALONE,
    };

    fn reported(number: u64) -> Reported {
        Reported { stamp: Stamp::default(), number, known: Vec::new() }
    }

    #[test]
    fn reports_leave_after_a_sync_and_again_until_they_are_answered() {
        let mut links = Links::new(PLACEMENT, 0, 7, false);
        assert!(links.begin_sync() && !links.begin_sync(), "one at a time");
        assert_eq!(links.synced(0, &BTreeMap::new(), true).len(), 2, "to each coordinator");
        links.expire(REPORT_AGAIN_MS);
        assert!(links.begin_sync());
        assert_eq!(
            links.synced(REPORT_AGAIN_MS, &BTreeMap::new(), true).len(),
            2,
            "none is answered"
        );
        assert!(links.answered(0, 0, &reported(1)).is_none(), "of the first report");
        assert!(!links.is_known(0, 0));
        assert!(!links.answered(0, 0, &reported(2)).unwrap().by_all);
        assert!(links.answered(0, 1, &reported(2)).unwrap().by_all);
        assert!(links.answered(0, 1, &reported(2)).is_none(), "it comes twice");
        assert!(links.is_known(0, 0) && links.is_known(0, 1));
        links.expire(2 * REPORT_AGAIN_MS);
        assert!(!links.begin_sync(), "all are answered");
    }

    #[test]
    fn a_report_whose_answer_could_not_be_followed_leaves_again() {
        let mut links = Links::new(PLACEMENT, 0, 7, false);
        links.begin_sync();
        links.synced(0, &BTreeMap::new(), true);
        (0..2).for_each(|it| assert!(links.answered(0, it, &reported(1)).is_some()));
        links.report_again(0, 0, 1);
        links.expire(REPORT_AGAIN_MS - 1);
        assert!(!links.begin_sync(), "not at once");
        links.expire(REPORT_AGAIN_MS);
        assert!(links.begin_sync());
        assert_eq!(links.synced(REPORT_AGAIN_MS, &BTreeMap::new(), true).len(), 1);
        links.answered(0, 1, &reported(2));
        links.expire(i64::MAX);
        assert!(!links.begin_sync(), "once is enough");
    }

    #[test]
    fn a_message_of_another_session_is_answered_by_a_report() {
        let mut links = Links::new(PLACEMENT, 0, 7, false);
        links.begin_sync();
        links.synced(0, &BTreeMap::new(), true);
        let message = |session| {
            let body = ToSlotBody::Reported(reported(1));
            ToSlot { slot: 0, session, visible_at: 0, body }
        };
        assert!(links.receive(0, &message(7)));
        assert!(!links.begin_sync() && !links.receive(0, &message(6)));
        assert!(!links.is_known(0, 0), "a report is to follow");
        assert!(links.begin_sync());
    }
}
