//! A phase while it runs: what it begins with, what it does bit by bit, and when it is over.

use std::collections::VecDeque;
use std::time::Duration;

use super::cast::{topics_of_tables, workload};
use super::conductor::{Cause, Stage, Status};
use super::file::{AddPartitions, Churn, How, Phase, Roll, Start, Stopping, Work};
use super::gap::Gap;
use crate::event::Stop;
use crate::plan::{GroupIndex, MemberIndex};
use crate::time::Time;

pub(super) struct Running {
    pub(super) table: Phase,
    pub(super) began: Time,
    rolls: Vec<Rolling>,
    churn: Option<Churning>,
    gap: Option<Gap>,
    /// Groups to delete as soon as their members have left.
    deleting: Vec<GroupIndex>,
    /// When this phase last did something: stability counts from there at the earliest.
    last_news: Time,
    /// The last moment for which it has planned something: its limit counts from there.
    planned: Time,
    /// What it was to do and has nobody for: a sentence each.
    warnings: Vec<String>,
}

/// A group that is restarted, a few members at a time, each when it is stable again.
struct Rolling {
    group: GroupIndex,
    waiting: VecDeque<MemberIndex>,
    batch: Vec<MemberIndex>,
    /// Since when all of the batch are back.
    back: Option<Time>,
}

struct Churning {
    groups: Vec<GroupIndex>,
    next: Time,
}

impl Running {
    pub(super) fn begin(table: Phase, now: Time, stage: &mut Stage) -> Self {
        let mut running = Self {
            began: now,
            rolls: Vec::new(),
            churn: None,
            gap: table.coordinator_restart.then(Gap::default),
            deleting: Vec::new(),
            last_news: now,
            planned: now,
            warnings: Vec::new(),
            table,
        };
        let table = running.table.clone();
        if let Some(start) = &table.start {
            let has_somebody = begin_start(start, now, stage);
            running.require(has_somebody, "start", "no member of its groups is down");
        }
        running.begin_stops(now, stage);
        if let Some(roll) = &table.roll {
            running.begin_roll(roll, now, stage);
        }
        if let Some(churn) = &table.churn {
            running.begin_churn(churn, now, stage);
        }
        if let Some(work) = &table.work {
            running.begin_work(work, stage);
        }
        if let Some(add) = &table.add_partitions {
            begin_growth(add, now, stage);
        }
        running.begin_on_groups(now, stage);
        let told = |warning| format!("phase {}: {warning}", table.name);
        stage.orders.notes.extend(running.warnings.iter().map(told));
        running
    }

    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    fn require(&mut self, has_somebody: bool, what: &str, why_not: &str) {
        if !has_somebody {
            self.warnings.push(format!("{what} has nobody: {why_not}"));
        }
    }

    fn begin_stops(&mut self, now: Time, stage: &mut Stage) {
        let table = &self.table;
        let stops = [
            (table.leave.clone(), Stop::Leave, "leave"),
            (table.close.clone(), Stop::Close, "close"),
            (table.crash.clone(), Stop::Crash, "crash"),
        ];
        for (stopping, how, what) in stops {
            if let Some(stopping) = stopping {
                let has_somebody = begin_stop(&stopping, how, now, stage);
                self.require(has_somebody, what, NOBODY_UP);
            }
        }
    }

    fn begin_churn(&mut self, churn: &Churn, now: Time, stage: &Stage) {
        let groups = stage.cast.groups_named(&churn.groups.0);
        let some = groups.iter().any(|&group| !stage.roster.is_down(&stage.cast, group));
        self.require(some, "churn", NOBODY_UP);
        self.churn = (!groups.is_empty()).then_some(Churning { groups, next: now });
    }

    fn begin_work(&mut self, work: &Work, stage: &mut Stage) {
        let groups = stage.cast.groups_named(&work.groups.0);
        self.require(!groups.is_empty(), "work", "its groups were left out");
        for group in groups {
            let workload = workload(work.commit, work.fetch, work.heartbeat);
            stage.roster.set_workload(&stage.cast, group, workload, &mut stage.orders);
        }
    }

    fn begin_on_groups(&mut self, now: Time, stage: &mut Stage) {
        if let Some(of) = self.table.read_offsets.clone() {
            let groups = stage.cast.groups_named(&of.groups.0);
            let some = groups.iter().any(|&group| stage.roster.was_begun(group));
            self.require(some, "read-offsets", NEVER_STARTED);
            groups.into_iter().for_each(|group| stage.read_offsets(group));
        }
        if let Some(of) = self.table.delete_groups.clone() {
            self.deleting = stage.cast.groups_named(&of.groups.0);
            let some = self.deleting.iter().any(|&group| stage.roster.was_begun(group));
            self.require(some, "delete-groups", NEVER_STARTED);
            for &group in &self.deleting {
                let up = stage.roster.up(&stage.cast, group);
                for member in up {
                    stage.roster.stop(now, member, Stop::Leave, None);
                }
            }
        }
        if self.gap.is_some() {
            let limit = humantime::format_duration(self.table.limit());
            stage.orders.notes.push(format!(
                "Restart the coordinator now: muster-load waits up to {limit} for connections to \
                 break, and measures the gap."
            ));
        }
    }

    fn begin_roll(&mut self, roll: &Roll, now: Time, stage: &mut Stage) {
        let mut has_somebody = false;
        for group in stage.cast.groups_named(&roll.groups.0) {
            let count = roll.members.of(stage.cast.members(group).len() as u32) as usize;
            let up = stage.roster.up(&stage.cast, group).into_iter();
            let able = up.filter(|&m| roll.how != How::Close || stage.cast.is_static(m));
            let waiting: VecDeque<_> = able.take(count).collect();
            has_somebody |= !waiting.is_empty();
            match roll.every {
                Some(every) => roll_in_step(roll, every.0, group, &waiting, now, stage),
                None => {
                    self.rolls.push(Rolling { group, waiting, batch: Vec::new(), back: None });
                }
            }
        }
        self.require(has_somebody, "roll", NOBODY_UP);
    }

    /// What it does now. `Some` once it is over, with what went wrong if something did.
    pub(super) fn tick(
        &mut self,
        now: Time,
        status: &Status<'_>,
        stage: &mut Stage,
    ) -> Option<Result<(), String>> {
        self.go_on(now, status, stage);
        let busy = self.is_busy(stage);
        if busy {
            self.last_news = now;
        }
        let lasts = self.table.lasts.map_or(Duration::ZERO, |lasts| lasts.0);
        let last_act = stage.roster.last_act().unwrap_or(Time::ZERO);
        self.planned = self.planned.max(self.began + lasts).max(last_act);
        if !busy && self.is_fulfilled(now, status, stage) {
            stage.orders.notes.extend(self.gap.as_ref().and_then(Gap::told));
            let failures = stage.tasks.take_failures().into_iter();
            return Some(failures.chain(all_failed(stage)).next().map_or(Ok(()), Err));
        }
        (now >= self.planned + self.table.limit()).then(|| Err(self.why_not(now, status, stage)))
    }

    fn go_on(&mut self, now: Time, status: &Status<'_>, stage: &mut Stage) {
        if let Some(gap) = &mut self.gap {
            for event in status.events {
                gap.hear(event, &mut stage.orders);
            }
        }
        let roster = &stage.roster;
        let (ready, waiting) =
            std::mem::take(&mut self.deleting).into_iter().partition(|&g| roster.alive(g) == 0);
        self.deleting = waiting;
        let ready: Vec<GroupIndex> = ready;
        for group in ready {
            stage.delete_group(group);
        }
        if let Some(roll) = self.table.roll.clone() {
            let mut rolls = std::mem::take(&mut self.rolls);
            for rolling in &mut rolls {
                let settle = self.settle(rolling.group, stage);
                if rolling.go_on(&roll, settle, now, status, stage) {
                    self.planned = now;
                }
            }
            rolls.retain(|rolling| !rolling.is_over());
            self.rolls = rolls;
        }
        self.churn(now, stage);
    }

    /// Whether things are still to be done, whatever ends the phase.
    fn is_busy(&self, stage: &Stage) -> bool {
        stage.roster.is_moving()
            || stage.tasks.are_left()
            || !self.rolls.is_empty()
            || !self.deleting.is_empty()
            || self.gap.as_ref().is_some_and(|gap| !gap.is_over())
    }

    fn is_fulfilled(&self, now: Time, status: &Status<'_>, stage: &Stage) -> bool {
        match (self.table.lasts, self.table.until) {
            (Some(lasts), _) => now >= self.began + lasts.0,
            (None, Some(_)) => self.unstable(now, status, stage).is_empty(),
            (None, None) => true,
        }
    }

    /// Groups with members that have not stood still for long enough.
    fn unstable(&self, now: Time, status: &Status<'_>, stage: &Stage) -> Vec<GroupIndex> {
        let groups = stage.cast.groups().map(|group| group.index);
        let stands = |group| {
            let since = (status.stable_since)(group).map(|since| since.max(self.last_news));
            since.is_some_and(|since| now.since(since) >= self.settle(group, stage))
        };
        let counts = |&g: &GroupIndex| stage.cast.has_members(g) && stage.roster.alive(g) > 0;
        groups.filter(|group| counts(group) && !stands(*group)).collect()
    }

    fn settle(&self, group: GroupIndex, stage: &Stage) -> Duration {
        self.table.settle().max(stage.cast.settles_in(group))
    }

    /// What is missing at the time limit, as one sentence.
    fn why_not(&self, now: Time, status: &Status<'_>, stage: &mut Stage) -> String {
        let limit = humantime::format_duration(self.table.limit());
        if let Some(failure) = stage.tasks.take_failures().into_iter().next() {
            return failure;
        }
        if self.gap.as_ref().is_some_and(|gap| gap.began().is_none()) {
            return format!("no connection broke within {limit}: was the coordinator restarted?");
        }
        if stage.roster.is_moving() || stage.tasks.are_left() {
            return format!("members or tasks were not done {limit} after the last was begun");
        }
        let unstable = self.unstable(now, status, stage);
        let Some(first) = unstable.first() else {
            return format!("it was not through after {limit}");
        };
        let first = stage.cast.group(*first).id.as_str();
        let more = match unstable.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{first}{more} did not become stable within {limit}")
    }

    /// Stops members at the moments of a Poisson process.
    fn churn(&mut self, now: Time, stage: &mut Stage) {
        let (Some(churning), Some(churn)) = (&mut self.churn, &self.table.churn) else { return };
        let until = self.began + self.table.lasts.map_or(Duration::ZERO, |lasts| lasts.0);
        while churning.next <= now && churning.next < until {
            stop_by_lot(churn, &churning.groups, churning.next, stage);
            let wait = -(1.0 - stage.random.f64()).ln() / churn.rate;
            churning.next = churning.next + Duration::from_secs_f64(wait.min(1e6));
        }
    }
}

impl Rolling {
    fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.batch.is_empty()
    }

    /// Whether a batch began.
    fn go_on(
        &mut self,
        roll: &Roll,
        settle: Duration,
        now: Time,
        status: &Status<'_>,
        stage: &mut Stage,
    ) -> bool {
        let there =
            |&member: &MemberIndex| stage.roster.is_up(member) || stage.roster.has_failed(member);
        if !self.batch.iter().all(there) {
            self.back = None;
            return false;
        }
        let back = *self.back.get_or_insert(now);
        let stable = (status.stable_since)(self.group).map(|since| since.max(back));
        let first = self.batch.is_empty();
        if !first && stable.is_none_or(|since| now.since(since) < settle) {
            return false;
        }
        let up = |member: &MemberIndex| stage.roster.is_up(*member);
        self.waiting.retain(up);
        let at_once = self.waiting.len().min(roll.at_once as usize);
        self.batch = self.waiting.drain(..at_once).collect();
        self.back = None;
        stop_batch(roll, self.group, &self.batch, now, stage);
        !self.batch.is_empty()
    }
}

const NOBODY_UP: &str = "no member of its groups is up";
const NEVER_STARTED: &str = "no member of its groups was ever started";

/// A group that stands still because none of its members could go on.
fn all_failed(stage: &Stage) -> Option<String> {
    let failed = |member| stage.roster.has_failed(MemberIndex(member));
    let mut groups = stage.cast.groups().filter(|group| stage.roster.alive(group.index) == 0);
    let lost = groups.find(|group| stage.cast.members(group.index).any(failed))?;
    Some(format!("no member of {} could go on", lost.id))
}

/// Whether there is somebody to start.
fn begin_start(start: &Start, now: Time, stage: &mut Stage) -> bool {
    let mut groups = Vec::new();
    for group in stage.cast.groups_named(&start.groups.0) {
        let count = start.members.of(stage.cast.members(group).len() as u32);
        let mut down = stage.roster.down(&stage.cast, group);
        down.truncate(count as usize);
        let cause = match stage.roster.alive(group) {
            0 => Cause::Formation,
            _ => Cause::Joined(down.len() as u32),
        };
        groups.push(Share { group, cause: Some(cause), members: down });
    }
    let over = start.over.map_or(Duration::ZERO, |over| over.0);
    spread(groups, now, over, stage, |stage, at, member| stage.roster.start(at, member))
}

/// Whether there is somebody to stop.
fn begin_stop(stopping: &Stopping, how: Stop, now: Time, stage: &mut Stage) -> bool {
    let mut groups = Vec::new();
    for group in stage.cast.groups_named(&stopping.groups.0) {
        let count = stopping.members.of(stage.cast.members(group).len() as u32);
        let mut up = stage.roster.up(&stage.cast, group);
        up.retain(|&member| how != Stop::Close || stage.cast.is_static(member));
        stage.random.shuffle(&mut up);
        up.truncate(count as usize);
        // A group that all leave has nobody left to rebalance.
        let some_stay = (up.len() as u32) < stage.roster.alive(group);
        let cause = some_stay.then_some(Cause::of_stop(how, up.len() as u32));
        groups.push(Share { group, cause, members: up });
    }
    let over = stopping.over.map_or(Duration::ZERO, |over| over.0);
    let returns = stopping.return_after.map(|after| after.0);
    spread(groups, now, over, stage, |stage, at, member| {
        stage.roster.stop(at, member, how, returns);
    })
}

/// What happens to members of a group.
struct Share {
    group: GroupIndex,
    cause: Option<Cause>,
    members: Vec<MemberIndex>,
}

/// Gives members moments at equal distances, so that each group's members are spread over all of
/// the time. Each group's first is announced. Whether there are any.
fn spread(
    shares: Vec<Share>,
    now: Time,
    over: Duration,
    stage: &mut Stage,
    put: impl Fn(&mut Stage, Time, MemberIndex),
) -> bool {
    let mut places: Vec<(f64, usize, MemberIndex)> = Vec::new();
    for (at, share) in shares.iter().enumerate() {
        let step = 1.0 / share.members.len() as f64;
        let members = share.members.iter().enumerate();
        places.extend(members.map(|(nth, &member)| (nth as f64 * step, at, member)));
    }
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    let step = over.as_secs_f64() / places.len().max(1) as f64;
    let has_somebody = !places.is_empty();
    for (nth, (place, share, member)) in places.into_iter().enumerate() {
        let at = now + Duration::from_secs_f64(step * nth as f64);
        if place == 0.0
            && let Some(cause) = shares[share].cause
        {
            stage.announce(at, shares[share].group, cause);
        }
        put(stage, at, member);
    }
    has_somebody
}

fn roll_in_step(
    roll: &Roll,
    every: Duration,
    group: GroupIndex,
    waiting: &VecDeque<MemberIndex>,
    now: Time,
    stage: &mut Stage,
) {
    let mut at = now;
    for batch in Vec::from_iter(waiting.iter().copied()).chunks(roll.at_once as usize) {
        stop_batch(roll, group, batch, at, stage);
        at = at + every;
    }
}

fn stop_batch(roll: &Roll, group: GroupIndex, batch: &[MemberIndex], at: Time, stage: &mut Stage) {
    if batch.is_empty() {
        return;
    }
    let how = roll.how.stop();
    stage.announce(at, group, Cause::of_stop(how, batch.len() as u32));
    for &member in batch {
        stage.roster.stop(at, member, how, Some(roll.down.0));
    }
}

/// One member of these groups, in one of the ways that it can take.
fn stop_by_lot(churn: &Churn, groups: &[GroupIndex], at: Time, stage: &mut Stage) {
    let group = group_by_lot(groups, stage);
    let up = stage.roster.up(&stage.cast, group);
    if up.is_empty() {
        return;
    }
    let member = up[stage.random.usize(..up.len())];
    let can = |how: &&How| **how != How::Close || stage.cast.is_static(member);
    let ways: Vec<How> = churn.how.0.iter().filter(can).copied().collect();
    if ways.is_empty() {
        return;
    }
    let how = ways[stage.random.usize(..ways.len())].stop();
    stage.announce(at, group, Cause::of_stop(how, 1));
    stage.roster.stop(at, member, how, Some(churn.down.0));
}

/// Each as likely as it has members, so that all members are equally likely.
fn group_by_lot(groups: &[GroupIndex], stage: &mut Stage) -> GroupIndex {
    let size = |group: &GroupIndex| stage.cast.members(*group).len();
    let members: usize = groups.iter().map(size).sum();
    let mut lot = stage.random.usize(..members);
    let drawn = groups.iter().find(|group| match lot.checked_sub(size(group)) {
        Some(rest) => {
            lot = rest;
            false
        }
        None => true,
    });
    *drawn.unwrap_or(&groups[0])
}

fn begin_growth(add: &AddPartitions, now: Time, stage: &mut Stage) {
    let names = topics_of_tables(&stage.scenario, &stage.settings.run, &add.topics.0);
    let grown = names.into_iter().map(|name| {
        let index = stage.topics.named(&name);
        let before = index.map_or(0, |index| stage.topics.partitions(index));
        let more = add.by.of(before);
        (name, before.saturating_add(more))
    });
    let topics = grown.collect();
    stage.grow(now, topics);
}
