//! A running phase. It begins its actions, continues them at every tick, and decides when it is
//! over.

use std::collections::VecDeque;
use std::time::Duration;

use super::cause::What;
use super::change::planned;
use super::churn::Churning;
use super::file::{AddPartitions, Change, Churn, How, Of, Phase, Roll, Work};
use super::gap::Gap;
use super::orders::Status;
use super::ramp::Ramp;
use super::rolling::{self, Act, Rolling};
use super::run_plan::{topics_of_tables, workload};
use super::run_state::RunState;
use super::spread::{begin_start, begin_stop};
use super::values::Span;
use crate::event::Stop;
use crate::plan::{GroupIndex, MemberIndex};
use crate::time::Time;

pub(super) struct Running {
    pub(super) table: Phase,
    pub(super) began: Time,
    rolls: Vec<Rolling>,
    churn: Option<Churning>,
    ramps: Vec<Ramp>,
    gap: Option<Gap>,
    /// Groups that are deleted once their members have left.
    deleting: Vec<GroupIndex>,
    /// Groups that were shut down. The phase waits until all their members have ended.
    ending: Vec<GroupIndex>,
    /// The last tick at which actions of this phase were unfinished. The time for which a group has
    /// been stable counts from this tick, or from a later time.
    last_news: Time,
    /// The phase's limit counts from this time: the end of `lasts`, the time of the last planned
    /// action, or the start of the last batch of a rolling action, whichever is the latest.
    planned: Time,
    /// A sentence on each action that had no members to act on.
    warnings: Vec<String>,
}

impl Running {
    pub(super) fn begin(table: Phase, now: Time, state: &mut RunState) -> Self {
        let mut running = Self {
            began: now,
            rolls: Vec::new(),
            churn: None,
            ramps: Vec::new(),
            gap: table.coordinator_restart.then(Gap::default),
            deleting: Vec::new(),
            ending: Vec::new(),
            last_news: now,
            planned: now,
            warnings: Vec::new(),
            table,
        };
        let table = running.table.clone();
        if let Some(start) = &table.start {
            let has_members = begin_start(start, now, state);
            running.require(has_members, "start", "no member of its groups is down");
        }
        running.begin_stops(now, state);
        if let Some(of) = &table.shut_down {
            running.begin_shut_down(of, now, state);
        }
        if let Some(roll) = &table.roll {
            running.begin_roll(roll, now, state);
        }
        if let Some(change) = &table.change {
            running.begin_change(change, now, state);
        }
        if let Some(churn) = &table.churn {
            running.begin_churn(churn, now, state);
        }
        if let Some(work) = &table.work {
            running.begin_work(work, now, state);
        }
        if let Some(add) = &table.add_partitions {
            begin_growth(add, now, state);
        }
        running.begin_on_groups(now, state);
        running.begin_on_clients(state);
        let note = |warning| format!("phase {}: {warning}", table.name);
        state.orders.notes.extend(running.warnings.iter().map(note));
        running
    }

    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    fn require(&mut self, has_members: bool, what: &str, why_not: &str) {
        if !has_members {
            self.warnings.push(format!("{what} has no effect: {why_not}"));
        }
    }

    fn begin_stops(&mut self, now: Time, state: &mut RunState) {
        let table = &self.table;
        let stops = [
            (table.leave.clone(), Stop::Leave, "leave"),
            (table.close.clone(), Stop::Close, "close"),
            (table.crash.clone(), Stop::Crash, "crash"),
        ];
        for (stopping, how, what) in stops {
            if let Some(stopping) = stopping {
                let has_members = begin_stop(&stopping, how, now, state);
                self.require(has_members, what, NONE_UP);
            }
        }
    }

    /// In each group, one member asks the coordinator to shut down the whole group.
    fn begin_shut_down(&mut self, of: &Of, now: Time, state: &mut RunState) {
        self.ending = state.plan.groups_named(&of.groups.0);
        let mut some = false;
        for &group in &self.ending {
            let up = state.members.up(&state.plan, group);
            if let Some(member) = state.random.choice(up) {
                some = true;
                state.members.stop(now, member, Stop::Shutdown, None);
            }
        }
        self.require(some, "shut-down", NONE_UP);
    }

    fn begin_churn(&mut self, churn: &Churn, now: Time, state: &RunState) {
        let groups = state.plan.groups_named(&churn.groups.0);
        let some = groups.iter().any(|&group| !state.members.is_down(&state.plan, group));
        self.require(some, "churn", NONE_UP);
        self.churn = Churning::begin(groups, now);
    }

    fn begin_work(&mut self, work: &Work, now: Time, state: &mut RunState) {
        let groups = state.plan.groups_named(&work.groups.0);
        self.require(!groups.is_empty(), "work", "its groups were left out");
        let workload = workload(work);
        let over = work.over.map_or(Duration::ZERO, |over| over.0);
        let ramps = groups.into_iter().map(|group| Ramp::begin(group, workload, over, now, state));
        self.ramps = ramps.collect();
        self.planned = now + over;
        self.advance_ramps(now, state);
    }

    fn advance_ramps(&mut self, now: Time, state: &mut RunState) {
        self.ramps.retain_mut(|ramp| ramp.advance(now, state));
    }

    fn begin_on_groups(&mut self, now: Time, state: &mut RunState) {
        if let Some(of) = self.table.read_offsets.clone() {
            let groups = state.plan.groups_named(&of.groups.0);
            let some = groups.iter().any(|&group| state.members.was_begun(group));
            self.require(some, "read-offsets", NEVER_STARTED);
            groups.into_iter().for_each(|group| state.read_offsets(group));
        }
        if let Some(of) = self.table.delete_groups.clone() {
            self.deleting = state.plan.groups_named(&of.groups.0);
            let some = self.deleting.iter().any(|&group| state.members.was_begun(group));
            self.require(some, "delete-groups", NEVER_STARTED);
            for &group in &self.deleting {
                let up = state.members.up(&state.plan, group);
                for member in up {
                    state.members.stop(now, member, Stop::Leave, None);
                }
            }
        }
        if self.gap.is_some() {
            let limit = humantime::format_duration(self.table.limit());
            state.orders.notes.push(format!(
                "Restart the coordinator now: muster-load waits up to {limit} for connections to \
                 break, and measures the gap."
            ));
        }
    }

    fn begin_on_clients(&mut self, state: &mut RunState) {
        let orders = &mut state.orders.clients;
        if let Some(stop) = self.table.stop_clients.clone() {
            let some = state.clients.stop(&stop.clients.0, stop.kill, orders);
            self.require(some, "stop-clients", "none of its clients runs");
        }
        if let Some(start) = self.table.start_clients.clone() {
            let some = state.clients.start(&start.clients.0, orders);
            self.require(some, "start-clients", "none of its clients is down");
        }
    }

    fn begin_roll(&mut self, roll: &Roll, now: Time, state: &mut RunState) {
        let mut has_members = false;
        for group in state.plan.groups_named(&roll.groups.0) {
            let count = roll.members.of(state.plan.members(group).len() as u32) as usize;
            let up = state.members.up(&state.plan, group).into_iter();
            let able = up.filter(|&m| roll.how != How::Close || state.plan.is_static(m));
            let waiting: VecDeque<_> = able.take(count).collect();
            has_members |= !waiting.is_empty();
            let act = Act::Restart { how: roll.how.stop(), down: roll.down.0 };
            let rolling = Rolling::new(group, waiting, roll.at_once, act);
            self.begin_rolling(rolling, roll.every, now, state);
        }
        self.require(has_members, "roll", NONE_UP);
    }

    fn begin_rolling(
        &mut self,
        rolling: Rolling,
        every: Option<Span>,
        now: Time,
        state: &mut RunState,
    ) {
        match every {
            Some(every) => rolling.in_step(every.0, now, state),
            None => self.rolls.push(rolling),
        }
    }

    fn begin_change(&mut self, change: &Change, now: Time, state: &mut RunState) {
        let mut has_members = false;
        let what = match (change.protocol, change.assignor.0.is_empty()) {
            (Some(_), _) => What::Protocol,
            (None, false) => What::Assignor,
            (None, true) => What::Subscription,
        };
        for group in state.plan.groups_named(&change.groups.0) {
            let plans = match planned(change, group, state) {
                Ok(plans) => plans,
                Err(problem) => {
                    self.require(false, "change", &problem.to_string());
                    return;
                }
            };
            has_members |= !plans.is_empty();
            let waiting = plans.iter().map(|(member, _)| *member).collect();
            let down = change.restarts().then_some(change.down.0);
            let plans = plans.into_iter().collect();
            let act = Act::Change(rolling::Change { what, plans, down });
            let rolling = Rolling::new(group, waiting, change.at_once, act);
            self.begin_rolling(rolling, change.every, now, state);
        }
        self.require(has_members, "change", "no member of its groups that is up has to change");
    }

    /// Performs the actions that are due. Returns `Some` once the phase is over, with its problem,
    /// if any.
    pub(super) fn tick(
        &mut self,
        now: Time,
        status: &Status<'_>,
        state: &mut RunState,
    ) -> Option<Result<(), String>> {
        self.advance(now, status, state);
        let busy = self.is_busy(state);
        if busy {
            self.last_news = now;
        }
        let lasts = self.table.lasts.map_or(Duration::ZERO, |lasts| lasts.0);
        let last_action = state.members.last_action().unwrap_or(Time::ZERO);
        self.planned = self.planned.max(self.began + lasts).max(last_action);
        if !busy && self.is_fulfilled(now, status, state) {
            state.orders.notes.extend(self.gap.as_ref().and_then(Gap::summary));
            let failures = state.tasks.take_failures().into_iter();
            let failures = failures.chain(state.clients.take_failures());
            return Some(failures.chain(all_failed(state)).next().map_or(Ok(()), Err));
        }
        (now >= self.planned + self.table.limit()).then(|| Err(self.why_not(now, status, state)))
    }

    fn advance(&mut self, now: Time, status: &Status<'_>, state: &mut RunState) {
        if let Some(gap) = &mut self.gap {
            for event in status.events {
                gap.observe(event, &mut state.orders);
            }
        }
        let members = &state.members;
        let (ready, waiting) =
            std::mem::take(&mut self.deleting).into_iter().partition(|&g| members.alive(g) == 0);
        self.deleting = waiting;
        let ready: Vec<GroupIndex> = ready;
        for group in ready {
            state.delete_group(group);
        }
        self.ending.retain(|&group| state.members.alive(group) > 0);
        let mut rolls = std::mem::take(&mut self.rolls);
        for rolling in &mut rolls {
            let settle = self.settle(rolling.group, state);
            if rolling.advance(settle, now, status, state) {
                self.planned = now;
            }
        }
        rolls.retain(|rolling| !rolling.is_over());
        self.rolls = rolls;
        state.recount_partitions(now);
        self.advance_ramps(now, state);
        if let (Some(churning), Some(churn)) = (&mut self.churn, &self.table.churn) {
            let until = self.began + self.table.lasts.map_or(Duration::ZERO, |lasts| lasts.0);
            churning.advance(churn, now, until, state);
        }
    }

    /// Whether actions are unfinished. If so, the phase continues up to its limit, even if its
    /// conditions (`lasts`, `until`) are fulfilled.
    fn is_busy(&self, state: &RunState) -> bool {
        state.members.is_moving()
            || state.tasks.are_left()
            || state.clients.are_moving()
            || !self.rolls.is_empty()
            || !self.ramps.is_empty()
            || !self.deleting.is_empty()
            || !self.ending.is_empty()
            || self.gap.as_ref().is_some_and(|gap| !gap.is_over())
    }

    fn is_fulfilled(&self, now: Time, status: &Status<'_>, state: &RunState) -> bool {
        match (self.table.lasts, self.table.until) {
            (Some(lasts), _) => now >= self.began + lasts.0,
            (None, Some(_)) => self.unstable(now, status, state).is_empty(),
            (None, None) => true,
        }
    }

    /// The groups that have live members, but have not been stable for long enough.
    fn unstable(&self, now: Time, status: &Status<'_>, state: &RunState) -> Vec<GroupIndex> {
        let groups = state.plan.groups().map(|group| group.index);
        let is_stable = |group| {
            let since = (status.stable_since)(group).map(|since| since.max(self.last_news));
            since.is_some_and(|since| now.since(since) >= self.settle(group, state))
        };
        let counts = |&g: &GroupIndex| state.plan.has_members(g) && state.members.alive(g) > 0;
        groups.filter(|group| counts(group) && !is_stable(*group)).collect()
    }

    fn settle(&self, group: GroupIndex, state: &RunState) -> Duration {
        self.table.settle().max(state.plan.settles_in(group))
    }

    /// A sentence that says why the phase is not over at its limit.
    fn why_not(&self, now: Time, status: &Status<'_>, state: &mut RunState) -> String {
        let limit = humantime::format_duration(self.table.limit());
        if let Some(failure) = state.tasks.take_failures().into_iter().next() {
            return failure;
        }
        if self.gap.as_ref().is_some_and(|gap| gap.began().is_none()) {
            return format!("no connection broke within {limit}: was the coordinator restarted?");
        }
        if let Some(late) = state.clients.late() {
            return format!("{late} within {limit}");
        }
        if state.members.is_moving() || state.tasks.are_left() {
            return format!("members or tasks were not done {limit} after the last action began");
        }
        let unstable = self.unstable(now, status, state);
        let Some(first) = unstable.first() else {
            return format!("it was not over after {limit}");
        };
        let first = &*state.plan.group(*first).id;
        let more = match unstable.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{first}{more} did not become stable within {limit}")
    }
}

const NONE_UP: &str = "no member of its groups is up";
const NEVER_STARTED: &str = "no member of its groups was ever started";

/// The problem that a group has no live members left, because its members failed.
fn all_failed(state: &RunState) -> Option<String> {
    let failed = |member| state.members.has_failed(MemberIndex(member));
    let mut groups = state.plan.groups().filter(|group| state.members.alive(group.index) == 0);
    let lost = groups.find(|group| state.plan.members(group.index).any(failed))?;
    Some(format!("no member of {} could continue", lost.id))
}

fn begin_growth(add: &AddPartitions, now: Time, state: &mut RunState) {
    let names = topics_of_tables(&state.scenario, &state.settings.run, &add.topics.0);
    let grown = names.into_iter().map(|name| {
        let index = state.topics.named(&name);
        let before = index.map_or(0, |index| state.topics.partitions(index));
        let more = add.by.of(before);
        (name, before.saturating_add(more))
    });
    let topics = grown.collect();
    state.grow(now, topics);
}
