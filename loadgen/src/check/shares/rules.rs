//! The rules of share groups, and the sentence for each violation.

use std::time::Duration;

use super::log::Part;
use super::{Fetch, Sharing};
use crate::check::found::Found;
use crate::check::lease::CLOCK_SLACK;
use crate::event::{AcknowledgedBatch, AcquiredBatch, Event, EventKind};
use crate::plan::{MemberIndex, Partition};
use crate::time::Time;

/// The time within which muster-load notices that a broker has given up a connection.
const BROKEN_BY: Duration = Duration::from_secs(60);
/// The maximum number of suspected violations of a kind that wait for their proof. Further ones are
/// not noted.
const WAITING_MAX: usize = 10_000;

/// A record was acquired while another session (`holder`, `session`) had it locked. This is a
/// violation if that session stayed alive.
pub(super) struct Contest {
    pub(super) holder: MemberIndex,
    pub(super) session: u32,
    pub(super) partition: Partition,
    /// The session was still alive if one of its requests was sent after this time and answered.
    after: Time,
    first: Event,
    second: Event,
}

/// A suspected `delivery-count-jumped`: a count that is too high, unless a fetch that acquired the
/// record was lost.
pub(super) struct Jump {
    partition: Partition,
    /// A fetch that was lost at this time or later explains the count.
    from: Time,
    /// When the count is judged. If a fetch was lost that explains the count, muster-load knows of
    /// the loss by then.
    until: Time,
    /// The count of the delivery before the suspected one.
    was: i16,
    event: Event,
}

impl Sharing {
    /// Judges some records of an acquired batch. `before` has these records, with their state
    /// before the acquisition.
    pub(super) fn judge(
        &mut self,
        fetch: &Fetch<'_>,
        opened: Time,
        batch: &AcquiredBatch,
        before: &Part,
        found: &mut Found,
    ) {
        let now = AcquiredBatch { first: before.first, last: before.last, ..*batch };
        self.judge_done(fetch, &now, before, found);
        self.judge_lock(fetch, &now, before);
        self.judge_limit(fetch, &now, found);
        self.judge_count(fetch, opened, &now, before, found);
    }

    fn judge_done(&self, fetch: &Fetch<'_>, now: &AcquiredBatch, before: &Part, found: &mut Found) {
        let Some(done) = before.of.done.filter(|done| *done + self.slack() < fetch.sent) else {
            return;
        };
        found.add("delivered-after-acknowledged", fetch.event.at, &self.group.id, || {
            let what = format!(
                "member {} was delivered {} {:.3} s after the last of them had been accepted or \
                 rejected",
                fetch.event.member.0,
                in_words(now),
                fetch.sent.since(done).as_secs_f64()
            );
            (what, vec![fetch.proof(now)])
        });
    }

    /// Notes a suspected violation if two sessions acquired the records within one lock duration.
    /// It does not matter which acquisition was first: its lock was certainly still in force when
    /// the other one took effect.
    fn judge_lock(&mut self, fetch: &Fetch<'_>, now: &AcquiredBatch, before: &Part) {
        let Some(hold) = before.of.held() else { return };
        let margin = Duration::from_millis(10) + hold.lock / 500;
        let stands = hold.sent.min(fetch.sent) + hold.lock.saturating_sub(margin);
        let both = (hold.member, hold.session) != (fetch.event.member, fetch.session);
        let certain = hold.arrived.max(fetch.arrived) + self.slack() < stands;
        let reloaded = self.logs.get(&now.partition).is_some_and(|it| it.reloaded >= hold.sent);
        if !both || !certain || reloaded || self.contests.len() >= WAITING_MAX {
            return;
        }
        let (member, session) = (hold.member, hold.session);
        let first = AcquiredBatch { deliveries: before.of.deliveries, ..*now };
        let kind = EventKind::Acquired {
            session,
            sent: hold.sent,
            arrived: hold.arrived,
            lock_ms: hold.lock.as_millis() as u32,
            batches: [first].into(),
        };
        self.contests.push(Contest {
            holder: member,
            session,
            partition: now.partition,
            after: fetch.arrived,
            first: Event { at: hold.arrived, group: self.group.index, member, kind },
            second: fetch.proof(now),
        });
    }

    fn judge_limit(&self, fetch: &Fetch<'_>, now: &AcquiredBatch, found: &mut Found) {
        let limit = self.group.delivery_limit;
        if i64::from(now.deliveries) <= i64::from(limit) {
            return;
        }
        found.add("delivery-limit-exceeded", fetch.event.at, &self.group.id, || {
            let what = format!(
                "member {} was delivered {} for the {}th time; the limit is {limit}",
                fetch.event.member.0,
                in_words(now),
                now.deliveries
            );
            (what, vec![fetch.proof(now)])
        });
    }

    fn judge_count(
        &mut self,
        fetch: &Fetch<'_>,
        opened: Time,
        now: &AcquiredBatch,
        before: &Part,
        found: &mut Found,
    ) {
        if before.of.done.is_some() {
            return;
        }
        let was = before.of.deliveries;
        let Some(log) = self.logs.get(&now.partition) else { return };
        let Some(hold) = before.of.hold else {
            if now.deliveries > 1 && log.lost.is_none() {
                self.jumped(fetch, now, was, Time::ZERO);
            }
            return;
        };
        let is_same = (hold.member, hold.session) == (fetch.event.member, fetch.session);
        let kept = is_same || opened + self.slack() < hold.sent;
        if now.deliveries <= was && kept && log.reloaded < hold.sent {
            found.add("delivery-count-stuck", fetch.event.at, &self.group.id, || {
                let what = format!(
                    "member {} was delivered {} with a count of {}, after member {} with {was}",
                    fetch.event.member.0,
                    in_words(now),
                    now.deliveries,
                    hold.member.0
                );
                (what, vec![fetch.proof(now)])
            });
        }
        // If the two deliveries are further apart, muster-load may have missed a delivery between
        // them, whose lock has expired.
        let is_near = fetch.arrived < hold.sent + hold.lock.mul_f64(0.9);
        if now.deliveries > was.saturating_add(1) && is_near {
            self.jumped(fetch, now, was, hold.sent);
        }
    }

    fn jumped(&mut self, fetch: &Fetch<'_>, now: &AcquiredBatch, was: i16, from: Time) {
        if self.jumps.len() < WAITING_MAX {
            let (partition, until) = (now.partition, fetch.event.at + BROKEN_BY);
            self.jumps.push(Jump { partition, from, until, was, event: fetch.proof(now) });
        }
    }

    /// Notes that a request of this session, sent at `sent`, was answered. So the session was still
    /// alive at that time. Reports the suspected violations that are proved by this.
    pub(super) fn confirm(
        &mut self,
        member: MemberIndex,
        session: u32,
        sent: Time,
        found: &mut Found,
    ) {
        let slack = self.slack();
        let proven = |it: &mut Contest| {
            (it.holder, it.session) == (member, session) && it.after + slack < sent
        };
        for contest in self.contests.extract_if(.., proven) {
            let Contest { first, second, .. } = contest;
            found.add("acquired-twice", second.at, &self.group.id, || {
                let what = format!(
                    "member {} acquired records of {} that member {} had locked, in a session \
                     that lived on",
                    second.member.0,
                    of_partition(contest.partition),
                    first.member.0
                );
                (what, vec![first, second])
            });
        }
    }

    /// Judges the suspected violations that have waited for long enough.
    pub(super) fn settle(&mut self, now: Time, found: &mut Found) {
        let due = |jump: &mut Jump| jump.until <= now;
        for jump in self.jumps.extract_if(.., due) {
            let log = self.logs.get(&jump.partition);
            if log.and_then(|log| log.lost).is_some_and(|lost| lost >= jump.from) {
                continue;
            }
            found.add("delivery-count-jumped", jump.event.at, &self.group.id, || {
                let what = format!(
                    "member {} was delivered records of {} whose count was {} before, and no fetch \
                     was lost since",
                    jump.event.member.0,
                    of_partition(jump.partition),
                    jump.was
                );
                (what, vec![jump.event])
            });
        }
    }

    pub(super) fn judge_acknowledged(
        &self,
        event: &Event,
        batch: &AcknowledgedBatch,
        stolen: Vec<Part>,
        found: &mut Found,
    ) {
        for part in stolen {
            let Some(hold) = part.of.hold else { continue };
            // If the record may have reached the delivery limit, it may be archived. The start
            // offset may then have passed it, and an acknowledgement has no effect.
            if part.of.may_be_at(self.group.delivery_limit, self.lost(batch.partition)) {
                continue;
            }
            found.add("acknowledged-without-lock", event.at, &self.group.id, || {
                let what = format!(
                    "member {} acknowledged offsets {} to {} of {} without error, which member {} \
                     had acquired before",
                    event.member.0,
                    part.first,
                    part.last,
                    of_partition(batch.partition),
                    hold.member.0
                );
                (what, vec![event.clone()])
            });
        }
    }

    /// Judges the start offset that a request sent at `sent` has read, and keeps it.
    pub(super) fn starts_at(
        &mut self,
        event: &Event,
        sent: Time,
        partition: Partition,
        start: i64,
        found: &mut Found,
    ) {
        let (limit, slack) = (self.group.delivery_limit, self.slack());
        let log = self.logs.entry(partition).or_default();
        let before = log.start.replace((start, event.at));
        let lost = log.unfinished(start, limit);
        if let Some((before, at)) = before.filter(|(it, at)| *it > start && *at + slack < sent) {
            found.add("start-offset-went-back", event.at, &self.group.id, || {
                let what = format!(
                    "the start offset of {} was {start}, after {before} at {at}",
                    of_partition(partition)
                );
                (what, vec![start_of(event, partition)])
            });
        }
        for part in lost {
            found.add("record-lost", event.at, &self.group.id, || {
                let what = format!(
                    "offsets {} to {} of {} are before the start offset {start}: no member \
                     has accepted or rejected them, and they were delivered {} times of {limit}",
                    part.first,
                    part.last,
                    of_partition(partition),
                    part.of.deliveries
                );
                (what, vec![start_of(event, partition)])
            });
        }
    }

    fn lost(&self, partition: Partition) -> u32 {
        self.logs.get(&partition).map_or(0, |log| log.lost_count)
    }

    fn slack(&self) -> Duration {
        CLOCK_SLACK + self.group.clock_error
    }
}

impl Fetch<'_> {
    /// The event of the batch, limited to these records.
    fn proof(&self, records: &AcquiredBatch) -> Event {
        let kind = EventKind::Acquired {
            session: self.session,
            sent: self.sent,
            arrived: self.arrived,
            lock_ms: self.lock.as_millis() as u32,
            batches: [*records].into(),
        };
        Event { kind, ..self.event.clone() }
    }
}

fn start_of(event: &Event, partition: Partition) -> Event {
    let EventKind::StartOffsets { sent, offsets } = &event.kind else { return event.clone() };
    let offsets = offsets.iter().copied().filter(|(of, _)| *of == partition).collect();
    Event { kind: EventKind::StartOffsets { sent: *sent, offsets }, ..event.clone() }
}

fn in_words(records: &AcquiredBatch) -> String {
    let AcquiredBatch { partition, first, last, .. } = *records;
    format!("offsets {first} to {last} of {}", of_partition(partition))
}

fn of_partition(partition: Partition) -> String {
    format!("partition {} of topic {}", partition.number, partition.topic.0)
}
