//! The measures of a run: rebalances, pauses, partitions without an owner, latencies, rates over
//! time. They are computed from the events of all cores in one order ([`merge`]) and from the
//! cores' samples.
//!
//! The meaning of the measures:
//!
//! - A group is **stable** if every partition has an owner, and every live member (started, not
//!   ended) has settled at the newest epoch that any of them has seen. A member that lost its
//!   connection must have been answered since. The group has been stable since the event that
//!   completed this.
//! - A **rebalance** lasts from its trigger to the event after which the group stays stable. Only
//!   the conductor knows when that is, so it closes the rebalance. A rebalance without a trigger is
//!   named after the event that unsettled the group.
//! - A **pause** of a member lasts from its start, or from when it gave up the last of its
//!   partitions, until it is assigned some. A member that has none when the group becomes stable
//!   was not meant to have any, so its time without partitions was not a pause. The same holds for
//!   a member that ended before. At the end of the run, unfinished pauses count with their length
//!   so far. A member that gives up some partitions and keeps others continues to consume, so it
//!   does not pause.
//! - **Partition-seconds without an owner** count while the group has members. The partitions of a
//!   crashed member have no owner.

mod clients;
mod consumed;
mod counts;
mod figures;
mod group;
mod latency;
mod member;
pub mod merge;
mod pace;
mod pauses;
mod phases;
pub mod process;
mod rebalance;
mod series;
mod shares;
mod sharing;
mod states;
mod status;
#[cfg(test)]
mod tests;
mod trips;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::check::{Redelivered, Visible};
use crate::driver::command::{RoundTrip, Sample};
use crate::event::Event;
use crate::history::{Group, Kind};
use crate::plan::GroupIndex;
use crate::report::disruptions::disruptions;
use crate::report::model;
use crate::time::Time;
use clients::Clients;
use consumed::Consumed;
use counts::Counts;
pub use figures::{LoadNow, Measured, Totals};
use group::GroupMeasure;
use latency::{Latencies, millis};
use pace::Paces;
use pauses::Pauses;
pub use phases::PhaseFigures;
use phases::{Phases, Sums};
use rebalance::Shared;
use series::{Gauges, Steps};
use shares::Shares;
pub use states::{STATES, States};
pub use status::GroupStatus;
use trips::Trips;
pub use trips::Waiting;

/// Measures a run. The cost of an event is constant, plus the number of partitions that it names.
pub struct Measure {
    groups: HashMap<GroupIndex, GroupMeasure>,
    /// Groups with triggers whose time is after the events so far.
    triggered: Vec<GroupIndex>,
    counts: Counts,
    shares: Shares,
    consumed: Consumed,
    clients: Clients,
    groups_stable: u32,
    live: u32,
    live_max: u32,
    unowned: u32,
    rebalances: Vec<model::Rebalance>,
    pauses: Pauses,
    trips: Trips,
    phases: Phases,
    /// The latencies since the last totals, which were taken at `totals_at`.
    recent: Latencies,
    answers: BTreeMap<RoundTrip, u64>,
    totals_at: Time,
    steps: Steps,
    cores: Vec<Core>,
    paces: Paces,
    bytes_sent: u64,
    bytes_received: u64,
    own: Process,
    server: Option<Process>,
}

/// The last sample of a core.
#[derive(Clone, Default)]
struct Core {
    members: States,
    connections: u32,
}

/// The usage of a process at its first and at its last reading.
#[derive(Clone, Copy, Default)]
struct Process {
    first: process::Usage,
    now: process::Usage,
    memory_max: u64,
}

impl Default for Measure {
    fn default() -> Self {
        Self {
            groups: HashMap::new(),
            triggered: Vec::new(),
            counts: Counts::default(),
            shares: Shares::default(),
            consumed: Consumed::default(),
            clients: Clients::default(),
            groups_stable: 0,
            live: 0,
            live_max: 0,
            unowned: 0,
            rebalances: Vec::new(),
            pauses: Pauses::default(),
            trips: Trips::default(),
            phases: Phases::default(),
            recent: Latencies::default(),
            answers: BTreeMap::new(),
            totals_at: Time::ZERO,
            steps: Steps::default(),
            cores: Vec::new(),
            paces: Paces::default(),
            bytes_sent: 0,
            bytes_received: 0,
            own: Process::default(),
            server: None,
        }
    }
}

impl Measure {
    /// Expects events of a group. Must be called before its first event.
    pub fn expect_group(&mut self, group: Group) {
        self.groups.entry(group.index).or_insert_with(|| GroupMeasure::new(group));
    }

    /// Notes that an action at `at` makes the group rebalance. The rebalance begins at this time,
    /// even if earlier events are observed after this call. If another rebalance is open, it is
    /// closed first. But if that one has no trigger and began at `at` or later, the action becomes
    /// its trigger.
    pub fn trigger(&mut self, group: GroupIndex, label: &str, at: Time) {
        if let Some(state) = self.groups.get_mut(&group) {
            state.trigger(at, label);
            self.triggered.push(group);
        }
    }

    /// Closes the rebalance of a group that has been stable for long enough. The rebalance ended at
    /// `stable_since`. If all members have left, it is dropped. Nothing happens if no rebalance is
    /// open, or if the group is not stable and has members.
    pub fn close_rebalance(&mut self, group: GroupIndex) {
        if let Some(group) = self.groups.get_mut(&group)
            && (group.status().stable_since.is_some() || group.is_emptied())
        {
            let (pauses, rebalances) = (&mut self.pauses, &mut self.rebalances);
            group.end_rebalance(&mut Shared { pauses, rebalances });
        }
    }

    /// Takes the next event, in the order of [`merge::Merge`].
    pub fn observe(&mut self, event: &Event) {
        let Some(group) = self.groups.get_mut(&event.group) else { return };
        let before = (group.live(), group.unowned(), group.is_stable());
        let (pauses, rebalances) = (&mut self.pauses, &mut self.rebalances);
        group.observe(event, &mut Shared { pauses, rebalances });
        self.live = self.live - before.0 + group.live();
        self.unowned = self.unowned - before.1 + group.unowned();
        self.groups_stable =
            self.groups_stable - u32::from(before.2) + u32::from(group.is_stable());
        self.live_max = self.live_max.max(self.live);
        self.counts.observe(event, group.id());
        if group.is_of(Kind::Share) {
            self.shares.observe(event, group.id());
        }
        self.clients.observe(event, group.id());
        self.consumed.observe(event);
    }

    /// Takes the counts of a core since its last sample.
    pub fn sample(&mut self, core: usize, sample: &Sample) {
        self.round_trips(core, sample);
        self.bytes_sent += sample.bytes_sent;
        self.bytes_received += sample.bytes_received;
        if self.cores.len() <= core {
            self.cores.resize(core + 1, Core::default());
        }
        let members = members_by_state(sample);
        self.cores[core] = Core { members, connections: sample.connections };
        self.paces.sample(core, sample);
    }

    fn round_trips(&mut self, core: usize, sample: &Sample) {
        self.trips.sample(core, sample);
        for (of, histogram) in &sample.round_trips {
            self.recent.add(*of, histogram);
            self.steps.trips().add(*of, histogram);
        }
        for (of, histogram) in &sample.uncorrected {
            *self.answers.entry(*of).or_default() += histogram.len();
            self.steps.answered(*of, histogram.len());
        }
    }

    /// Takes the transactions that readers finished reading since the last call, or had not read
    /// when the readers ended. `unread` has the waiting times of committed transactions that are
    /// still to be read. These latencies involve several cores, so the cores' samples do not
    /// contain them.
    pub fn visible(&mut self, transactions: &[Visible], unread: Option<&[Duration]>) {
        self.round_trips(trips::OF_NO_CORE, &trips::of_visible(transactions, unread));
    }

    /// Takes the records of share groups that were delivered again since the last call.
    pub fn redelivered(&mut self, records: &[Redelivered]) {
        if !records.is_empty() {
            self.round_trips(trips::OF_NO_CORE, &trips::of_redelivered(records));
        }
    }

    /// Takes the usage of muster-load's process, and of the server if its process id is known.
    pub fn usage(&mut self, own: process::Usage, server: Option<process::Usage>) {
        self.own = self.own.with(own);
        if let Some(server) = server {
            self.server = Some(self.server.unwrap_or_default().with(server));
        }
    }

    /// Called when all events and samples before `until` were taken. Triggers up to `until` take
    /// effect, and steps of the time series that end by then are complete.
    pub fn advance(&mut self, until: Time) {
        let (pauses, rebalances) = (&mut self.pauses, &mut self.rebalances);
        let shared = &mut Shared { pauses, rebalances };
        self.triggered.retain(|group| {
            self.groups.get_mut(group).is_some_and(|group| group.advance(until, shared))
        });
        if let Some(times) = self.consumed.take_times() {
            self.round_trips(trips::OF_NO_CORE, &trips::of_delivered(times));
        }
        self.steps.advance(until, self.gauges());
    }

    pub fn status(&self, group: GroupIndex) -> Option<GroupStatus> {
        self.groups.get(&group).map(GroupMeasure::status)
    }

    /// Ends the current phase and begins the next: figures from now on count for the new one. All
    /// events before `now` have been observed.
    pub fn begin_phase(&mut self, now: Time) {
        self.end_phases(now);
        self.trips.begin_phase();
        self.pauses.take_phase();
        self.phases.begin(self.so_far_of_phases(now));
    }

    /// Ends the current phase, if there is one.
    pub fn end_phases(&mut self, now: Time) {
        let Some(latencies) = self.trips.take_phase() else { return };
        let waits = self.groups.values().flat_map(GroupMeasure::waits);
        waits.for_each(|since| self.pauses.add_to_phase(now.since(since)));
        let pauses = self.pauses.take_phase();
        self.phases.end(latencies, pauses, self.so_far_of_phases(now));
    }

    /// The figures with which thresholds can be compared while the run is still under way.
    pub fn so_far(&self) -> model::Report {
        let (latencies, rebalances) = (self.trips.so_far(), self.rebalances.clone());
        let disruptions = disruptions(&rebalances, false);
        model::Report { latencies, rebalances, disruptions, ..model::Report::default() }
    }

    /// The figures for a page while the run is under way.
    pub fn picture(&self, now: Time) -> model::Report {
        let groups = self.groups.values();
        let rejoined = groups.map(|group| group.rejoined).sum();
        model::Report {
            unowned_partition_seconds: self.unowned_until(now),
            undelayed: self.trips.undelayed(),
            uncorrected: self.trips.uncorrected(),
            unanswered: self.trips.unanswered(),
            pauses: self.pauses.all(),
            members: model::Members { rejoined, ..self.counts.members.clone() },
            commits: self.counts.commits.clone(),
            transactions: self.counts.transactions.clone(),
            shares: self.shares.shown(),
            consumed: self.consumed.counts().clone(),
            clients: self.clients.shown(),
            errors: self.counts.by_code(),
            bytes_sent: self.bytes_sent,
            bytes_received: self.bytes_received,
            load_generator: self.own.used(),
            server: self.server.map(|server| server.used()),
            series: self.steps.so_far(),
            ..self.so_far()
        }
    }

    /// The requests that have been due for at least a second and have no answer, without joins and
    /// syncs.
    pub fn waiting(&self) -> Waiting {
        self.trips.waiting()
    }

    /// The current totals, with rates and latencies since the last call.
    pub fn totals(&mut self, now: Time) -> Totals {
        let seconds = now.since(self.totals_at).as_secs_f64().max(1e-3);
        let loads = self.recent.iter().map(|(of, histogram)| LoadNow {
            of,
            per_second: self.answers.get(&of).map_or(0.0, |answers| *answers as f64 / seconds),
            p50: millis(histogram.value_at_quantile(0.5)),
            p99: millis(histogram.value_at_quantile(0.99)),
        });
        let totals = Totals {
            groups: self.groups.len() as u32,
            groups_stable: self.groups_stable,
            live: self.live,
            members: self.gauges().members,
            unowned_partitions: self.unowned,
            connections: self.cores.iter().map(|core| core.connections).sum(),
            rebalances: self.rebalances.len() as u64,
            last_rebalance: self.rebalances.last().cloned(),
            errors: self.counts.errors,
            commits: self.counts.commits.clone(),
            failed: self.counts.members.failed_count,
            bytes_sent: self.bytes_sent,
            bytes_received: self.bytes_received,
            loads: loads.collect(),
            waiting: self.trips.waiting(),
        };
        self.recent.clear();
        self.answers.clear();
        self.totals_at = now;
        totals
    }

    /// Must be called after the last event.
    pub fn finish(mut self, end: Time) -> Measured {
        let gauges = self.gauges();
        self.end_phases(end);
        let series = std::mem::take(&mut self.steps).finish(end, gauges);
        let mut unowned_partition_seconds = 0.0;
        let mut groups: Vec<_> = self.groups.into_iter().collect();
        groups.sort_unstable_by_key(|(index, _)| *index);
        for (_, group) in &mut groups {
            let (pauses, rebalances) = (&mut self.pauses, &mut self.rebalances);
            let revocations = group.finish(end, &mut Shared { pauses, rebalances });
            unowned_partition_seconds += group.unowned_until(end) as f64 / 1e6;
            let members = &mut self.counts.members;
            members.rejoined += group.rejoined;
            members.revocations_per_member_max =
                members.revocations_per_member_max.max(revocations);
        }
        self.rebalances.sort_by(|one, other| one.began.total_cmp(&other.began));
        let errors = self.counts.by_code();
        let live_max = u64::from(self.live_max.max(1));
        self.counts.members.memory_bytes_each = self.own.memory_max / live_max;
        Measured {
            disruptions: disruptions(&self.rebalances, true),
            rebalances: self.rebalances,
            latencies: self.trips.corrected(),
            phases: self.phases.take(),
            undelayed: self.trips.undelayed(),
            uncorrected: self.trips.uncorrected(),
            unanswered: self.trips.unanswered(),
            pauses: self.pauses.all(),
            unowned_partition_seconds,
            members: self.counts.members,
            commits: self.counts.commits,
            transactions: self.counts.transactions,
            shares: self.shares.shown(),
            consumed: self.consumed.counts().clone(),
            clients: self.clients.shown(),
            errors,
            bytes_sent: self.bytes_sent,
            bytes_received: self.bytes_received,
            load_generator: self.own.used(),
            pace: self.paces.finish(),
            server: self.server.map(|server| server.used()),
            series,
        }
    }

    fn so_far_of_phases(&self, now: Time) -> Sums {
        let (shares, consumed) = (self.shares.counts(), self.consumed.counts());
        Sums {
            unowned_partition_seconds: self.unowned_until(now),
            delivered: shares.delivered + consumed.delivered,
            redelivered: shares.redelivered + consumed.redelivered,
        }
    }

    /// Partition-seconds without an owner, over all groups.
    fn unowned_until(&self, at: Time) -> f64 {
        self.groups.values().map(|group| group.unowned_until(at) as f64 / 1e6).sum()
    }

    fn gauges(&self) -> Gauges {
        let mut members = States::default();
        for core in &self.cores {
            members.iter_mut().zip(core.members).for_each(|(sum, more)| *sum += more);
        }
        let server = self.server.map(|server| server.now);
        let idle = match self.unowned {
            0 => 0,
            _ => self.groups.values().map(GroupMeasure::idle).sum(),
        };
        let (unowned, of_clients) = (self.unowned, self.clients.partitions());
        Gauges { members, idle, unowned, of_clients, server }
    }
}

impl Process {
    fn with(self, now: process::Usage) -> Self {
        let first = if self.memory_max == 0 { now } else { self.first };
        Self { first, now, memory_max: self.memory_max.max(now.memory_bytes) }
    }

    fn used(self) -> model::Usage {
        model::Usage {
            cpu_seconds: self.now.cpu.saturating_sub(self.first.cpu).as_secs_f64(),
            memory_bytes: self.now.memory_bytes,
            memory_bytes_max: self.memory_max,
        }
    }
}

fn members_by_state(sample: &Sample) -> States {
    let mut members = States::default();
    for (_, state, count) in &sample.states {
        if let Some(at) = STATES.iter().position(|(known, _)| known == state) {
            members[at] += count;
        }
    }
    members
}
