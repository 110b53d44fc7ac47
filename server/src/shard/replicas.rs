//! A shard of a node in a cluster. Raft's groups are in the runtime; here are the events of the
//! connections with other nodes, the clock, and what follows for the parts of the shard when the
//! node begins or ceases to lead a slot.
//!
//! Messages to other nodes leave by [`Shard::take_peer_messages`], at the end of the turn.
//!
//! Not there yet: transactions, share groups and user topics across nodes (they work where the node
//! leads the slot), snapshots and the running check of a replicated log.

use super::raft_clock::GRACE_MS;
use super::topics::Topics;
use super::{Command, Shard};
use crate::clock::Times;
use crate::groups;
use crate::placement::Slot;
use muster_peers::PeerEvent;
use muster_runtime::replicas::{Led, Lie, NodeId, PeerMessage};
use muster_storage::{FileDone, LogSlot};
use tracing::{info, warn};

/// A message that no honest node sends. The connections on which the node sends must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lied {
    pub node: NodeId,
    pub why: &'static str,
}

impl Shard {
    /// Handles an event of the connections with other nodes.
    ///
    /// # Errors
    /// The event is a message that no honest node sends. It was dropped.
    pub fn peer(
        &mut self,
        times: Times,
        event: PeerEvent,
        commands: &mut Vec<Command>,
    ) -> Result<(), Lied> {
        self.advance(times);
        // A description comes only once, so even a shard that has failed takes it.
        if let PeerEvent::Described { node, shards, clients } = &event {
            self.broker.describe(*node, *shards, clients, commands);
        }
        if self.upkeep.is_failed() {
            return Ok(());
        }
        let mut taken = Ok(());
        match event {
            PeerEvent::Connected { node, session } => self.runtime.peer_connected(node, session),
            PeerEvent::Described { .. } => {}
            PeerEvent::Lost { node, refused } => self.runtime.peer_lost(node, refused),
            PeerEvent::Heard { from, shard, tick } => self.runtime.peer_heard(from, shard, tick),
            PeerEvent::Said { from, is_fresh, message } => {
                let said = self.runtime.peer_said(from, is_fresh, message);
                taken = said.or_else(|lie| self.lied(from.0, lie));
            }
            PeerEvent::Dropped { node, groups } => self.runtime.peer_dropped(node, &groups),
        }
        self.log_done();
        self.release_gone();
        commands.append(&mut self.commands);
        taken
    }

    fn lied(&self, node: NodeId, lie: Lie) -> Result<(), Lied> {
        match lie {
            Lie::Peer(why) => Err(Lied { node, why }),
            Lie::Quarantined(why) => {
                let shard = self.broker.number();
                warn!(target: "replicas", shard, "a replica has lost a part of its log: {why}");
                Ok(())
            }
            Lie::Stranger => Ok(()),
        }
    }

    /// The messages to other nodes since the last call, in their order.
    pub fn take_peer_messages(&mut self) -> Vec<(NodeId, PeerMessage)> {
        self.runtime.take_sends()
    }

    /// Takes the end of a read of entries.
    pub(super) fn entries_read(&mut self, done: FileDone) {
        if self.runtime.entries_read(done).is_ok() {
            self.log_done();
        }
    }

    /// Lets raft's clock tick. All input that has arrived is handled by now.
    pub(super) fn tick_replicas(&mut self) {
        if self.runtime.replication().is_none() {
            return;
        }
        let ticks = self.raft_clock.take_ticks(self.times.now);
        if ticks > 0 {
            self.runtime.tick(ticks);
            self.log_done();
        }
        while let Some(slot) = self.raft_clock.take_over(self.times.now) {
            let Self { runtime, groups, controller, transactions, shares, .. } = self;
            runtime.start_timers(&mut Topics { groups, controller, transactions, shares }, slot);
        }
    }

    pub(super) fn tick_deadline(&self) -> Option<i64> {
        self.runtime.replication().map(|_| self.raft_clock.next_tick())
    }

    /// Brings the parts in line with the roles of the node, before answers are released: positions
    /// of a slot mean something else once another node leads it.
    pub(super) fn settle_replicas(&mut self) {
        if self.runtime.replication().is_none() {
            return;
        }
        let news = self.runtime.take_leading();
        if !news.is_empty() {
            self.clients.serves_others();
        }
        self.broker.report_leaders(news, &mut self.commands);
        for slot in self.runtime.take_deposed() {
            self.deposed(slot);
        }
        let Self { runtime, groups, controller, transactions, shares, .. } = self;
        let topics = &mut Topics { groups, controller, transactions, shares };
        match runtime.settle(topics) {
            Ok(led) => {
                led.into_iter().for_each(|it| self.leads(it));
                self.release_reads();
            }
            Err(damage) => self.upkeep.give_up(&format!("an entry cannot be applied: {damage}")),
        }
    }

    /// Lets reads be handled whose slots are proved to be led here, or are led here no longer.
    fn release_reads(&mut self) {
        let Self { runtime, confirmed_reads, clients, commands, .. } = self;
        let has_proved = runtime.take_proved();
        let Some(replicas) = runtime.replication().filter(|_| has_proved) else { return };
        let log_is_closed = runtime.is_closed();
        for id in confirmed_reads.settled(|ticket| replicas.proof(ticket)) {
            clients.try_again(id, log_is_closed, commands);
        }
    }

    /// Ends the handling of what has moved.
    pub(super) fn replicas_settled(&mut self) {
        if self.runtime.replication().is_some() {
            self.runtime.moved_taken();
        }
    }

    fn deposed(&mut self, slot: LogSlot) {
        self.raft_clock.deposed(slot);
        info!(target: "replicas", shard = self.broker.number(), "{slot:?}: another node leads");
        match slot.place() {
            Some(place) => {
                let (groups, inputs, connections) = self.of_groups();
                groups.deposed(Slot(place), inputs, |reply| connections.reply(reply));
            }
            None => {
                if let Some(controller) = &mut self.controller {
                    controller.deposed(&mut self.commands);
                }
            }
        }
        self.clients.deposed(slot, &mut self.commands);
    }

    fn leads(&mut self, Led { slot, term }: Led) {
        info!(target: "replicas", shard = self.broker.number(), term, "{slot:?}: leads");
        self.raft_clock.lead(self.times.now, slot);
        self.clients.serves_others();
        if let Some(place) = slot.place() {
            let Self { groups: of_groups, runtime, ids, broker, errors, times, .. } = self;
            let (times, ids, image) = (*times, ids.as_mut(), &**broker.image());
            let inputs = groups::Inputs { times, ids, image, errors, runtime };
            of_groups.lead(Slot(place), broker.config(), &inputs, GRACE_MS);
        } else {
            self.follow_image();
        }
    }

    /// Whether another node decides the changes of the image.
    pub(super) fn follows_image(&self) -> bool {
        !self.runtime.leads(LogSlot::UNPARTITIONED)
    }

    /// Gives the image to the shards of this node, once its machine has all committed changes:
    /// while the machine is loaded again, it has not.
    pub(super) fn follow_image(&mut self) {
        let slot = LogSlot::UNPARTITIONED;
        let is_settled = self.runtime.replication().is_some_and(|it| it.is_settled(slot));
        if let Some(controller) = self.controller.as_mut().filter(|_| is_settled) {
            controller.follow(self.runtime.flushed(slot), &mut self.commands);
        }
    }
}
