//! Logs and counts the events of a shard's groups, and keeps the last rebalances.

use super::TurnEnd;
use super::history::History;
use super::machine::EventsOfSlots;
use crate::calendar::civil_time;
use crate::logging::{Name, Throttle};
use crate::net::ConnectionId;
use muster_coordinator::{Event, EventBody, Rebalance, Rejection, Removal, Why};
use muster_counters::{Copies, Histogram, counters};
use std::sync::Arc;
use tracing::{info, warn};

/// A rebalance that takes longer is counted as long.
const LONG_MS: i64 = 60_000;

counters! {
    /// The rebalances of a shard's groups since its start.
    #[derive(Copy)]
    pub struct RebalanceCounters in "rebalances" {
        /// Rebalances of classic groups, by the time from the first change until the assignment was
        /// durable.
        classic_micros: Histogram = Counter of Microseconds,
        /// Rebalances of consumer, share and streams groups, by the time from the new epoch until
        /// all members had their assignment.
        consumer_micros: Histogram = Counter of Microseconds,
        /// Rebalances that took more than a minute, of all kinds of groups.
        long: u64 = Counter of Count,
        /// Rebalances that started again before their end.
        restarted: u64 = Counter of Count,
        /// Members that were given partitions in a rebalance.
        members_moved: u64 = Counter of Count,
        /// Partitions that were given to another member.
        partitions_moved: u64 = Counter of Count,
        /// Members that lost their place to another client with their instance id.
        members_replaced: u64 = Counter of Count,
        /// Clients that were refused as members for a reason that lasts, such as an expression that
        /// is not valid, or a full group.
        members_refused: u64 = Counter of Count,
        /// Events that were neither logged nor kept, because there were too many at once.
        events_left_out: u64 = Counter of Count,
    }
}

counters! {
    /// The rebalances that are under way, and the history of those that ended.
    #[derive(Copy)]
    pub struct RebalanceGauges in "rebalances" {
        /// The age of the oldest rebalance that has not ended. The page of the admin listener lists
        /// groups by state.
        oldest_micros: u64 = Gauge of Microseconds,
        /// Bytes of the history of rebalances.
        history_bytes: u64 = Gauge of Bytes,
    }
}

/// The events of a shard's groups: see the head of the file.
#[derive(Debug, Default)]
pub(super) struct GroupEvents {
    history: History,
    counters: RebalanceCounters,
    lines: Throttle<Arc<str>>,
    /// The last client that was refused as a member, with the time.
    last_refused: Option<(i64, Event)>,
}

impl GroupEvents {
    /// Takes the events of a turn.
    pub(super) fn take(&mut self, turn: &TurnEnd<'_>, shard: u32, events: EventsOfSlots) {
        if events.is_empty() {
            return;
        }
        self.counters.events_left_out += events.left_out;
        for event in events.events {
            self.count(&event);
            self.log(turn, shard, &event);
            match event.body {
                EventBody::Rebalanced(_) => self.history.add(event),
                EventBody::Refused(_) => self.last_refused = Some((turn.now, event)),
                EventBody::Removed(_) => {}
            }
        }
    }

    /// The time of the last refusal of a client as a member, and a description.
    pub(super) fn last_refused(&self) -> Option<(i64, String)> {
        let (at, event) = self.last_refused.as_ref()?;
        let EventBody::Refused(rejection) = &event.body else { return None };
        let Rejection { client_id, client_host, error } = rejection;
        let (group, client, host) = (Name(&event.group_id), Name(client_id), Name(client_host));
        let when = civil_time(event.at.0);
        let words = format!("group {group} refused client {client} at {host} on {when}: {error:?}");
        Some((*at, words))
    }

    pub(super) fn history(&self) -> &History {
        &self.history
    }

    /// Copies of the counters and gauges. `oldest_ms` is how long the oldest unfinished rebalance
    /// has lasted.
    pub(super) fn numbers(&self, oldest_ms: Option<i64>) -> Copies {
        let oldest_ms = oldest_ms.unwrap_or(0).max(0).unsigned_abs();
        let gauges = RebalanceGauges {
            oldest_micros: oldest_ms.saturating_mul(1_000),
            history_bytes: self.history.bytes() as u64,
        };
        vec![Box::new(self.counters), Box::new(gauges)]
    }

    fn count(&mut self, event: &Event) {
        let counters = &mut self.counters;
        match &event.body {
            EventBody::Rebalanced(rebalance) => {
                let micros = rebalance.took_ms.max(0).unsigned_abs().saturating_mul(1_000);
                let is_classic = event.protocol == "classic";
                let of_kind = if is_classic {
                    &mut counters.classic_micros
                } else {
                    &mut counters.consumer_micros
                };
                of_kind.record(micros);
                counters.long += u64::from(rebalance.took_ms > LONG_MS);
                counters.restarted += u64::from(rebalance.restarts > 0);
                counters.members_moved += u64::from(rebalance.moved.members);
                counters.partitions_moved += u64::from(rebalance.moved.partitions);
            }
            EventBody::Removed(removal) => {
                counters.members_replaced += u64::from(removal.why == Why::Replaced);
            }
            EventBody::Refused(_) => counters.members_refused += 1,
        }
    }

    fn log(&mut self, turn: &TurnEnd<'_>, shard: u32, event: &Event) {
        let now = turn.now;
        if let Some(lines) = self.lines.left_out(now) {
            info!(target: "rebalance", shard, "{lines} more lines about groups were left out");
        }
        if !self.lines.admits(now, Arc::clone(&event.group_id)) {
            return;
        }
        match &event.body {
            EventBody::Rebalanced(rebalance) => log_rebalance(shard, event, rebalance),
            EventBody::Removed(removal) => log_removal(turn, shard, event, removal),
            EventBody::Refused(rejection) => log_rejection(shard, event, rejection),
        }
    }
}

fn log_rebalance(shard: u32, event: &Event, rebalance: &Rebalance) {
    let Rebalance { epoch, took_ms, restarts, causes, members, moved, .. } = rebalance;
    let causes = causes.to_string();
    info!(
        target: "rebalance",
        shard,
        group = %Name(&event.group_id),
        kind = event.protocol,
        epoch,
        took_ms,
        restarts,
        members,
        members_moved = moved.members,
        partitions_moved = moved.partitions,
        more_moved = moved.has_more,
        causes = %Name(&causes),
        "rebalanced",
    );
}

fn log_removal(turn: &TurnEnd<'_>, shard: u32, event: &Event, removal: &Removal) {
    let Removal { member_id, client_id, client_host, why, silent_ms, connection } = removal;
    let connection = match connection.map(|it| turn.connections.is_open(ConnectionId(it))) {
        Some(true) => "open",
        Some(false) => "closed",
        None => "unknown",
    };
    info!(
        target: "member",
        shard,
        group = %Name(&event.group_id),
        kind = event.protocol,
        member = %Name(member_id),
        client = %Name(client_id),
        host = %Name(client_host),
        reason = why.name(),
        silent_ms,
        connection,
        "removed a member",
    );
}

fn log_rejection(shard: u32, event: &Event, rejection: &Rejection) {
    let Rejection { client_id, client_host, error } = rejection;
    warn!(
        target: "member",
        shard,
        group = %Name(&event.group_id),
        client = %Name(client_id),
        host = %Name(client_host),
        error = ?error,
        "refused a member",
    );
}
