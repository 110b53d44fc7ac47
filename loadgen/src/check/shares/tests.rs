//! For each rule, stories that break it and stories that do not. Times are in milliseconds. Members
//! 1, 2 and 3 share partition 0. Locks last 1,000 ms, and a record is delivered at most three
//! times.

use super::*;
use crate::check::Checker;
use crate::event::{Acknowledge, OBSERVER};
use crate::history::Kind;
use crate::plan::TopicIndex;

const NONE: [&str; 0] = [];
const LOCK_MS: u32 = 1_000;
const P: Partition = Partition { topic: TopicIndex(0), number: 0 };
const INVALID_RECORD_STATE: i16 = 121;

struct Story {
    checker: Checker,
    acknowledgements: u32,
}

fn at(millis: u64) -> Time {
    Time::from_micros(millis * 1000)
}

/// A history in which each member has a session from 5 ms on, whose number is the member's number.
fn story() -> Story {
    let mut checker = Checker::default();
    checker.expect_group(Group {
        index: GroupIndex(0),
        id: "g".into(),
        protocol: Kind::Share,
        session_timeout: Duration::from_secs(45),
        rebalance_timeout: Duration::from_secs(60),
        partitions: 1,
        clock_error: Duration::ZERO,
        delivery_limit: 3,
    });
    let mut story = Story { checker, acknowledgements: 0 };
    for member in 1..=3 {
        story.event(0, member, EventKind::Started);
        story.event(4, member, EventKind::Assigned { epoch: 2, partitions: [P].into() });
        story.lives(5, member, 4);
    }
    story
}

impl Story {
    fn event(&mut self, millis: u64, member: u32, kind: EventKind) -> &mut Self {
        let (group, member) = (GroupIndex(0), MemberIndex(member));
        self.checker.observe(&Event { at: at(millis), group, member, kind });
        self
    }

    /// A fetch that was sent at `sent` returns the records at these offsets, with the delivery
    /// count `deliveries`.
    fn gets(
        &mut self,
        millis: u64,
        member: u32,
        sent: u64,
        offsets: (i64, i64),
        deliveries: i16,
    ) -> &mut Self {
        let (first, last) = offsets;
        let batch = AcquiredBatch { partition: P, first, last, deliveries };
        let kind = EventKind::Acquired {
            session: member,
            sent: at(sent),
            arrived: at(millis),
            lock_ms: LOCK_MS,
            batches: [batch].into(),
        };
        self.event(millis, member, kind)
    }

    /// A fetch that was sent at `sent` returns no records.
    fn lives(&mut self, millis: u64, member: u32, sent: u64) -> &mut Self {
        self.event(millis, member, EventKind::SessionAnswered { session: member, sent: at(sent) })
    }

    fn ends(&mut self, millis: u64, member: u32, closed: bool) -> &mut Self {
        self.event(millis, member, EventKind::SessionEnded { session: member, closed })
    }

    fn sends(&mut self, millis: u64, member: u32, how: Acknowledge, offsets: (i64, i64)) -> u32 {
        self.acknowledgements += 1;
        let id = self.acknowledgements;
        let batch = AcknowledgedBatch { partition: P, first: offsets.0, last: offsets.1, how };
        let batches = [batch].into();
        self.event(millis, member, EventKind::AcknowledgeSent { id, session: member, batches });
        id
    }

    /// Sends an acknowledgement, which is answered without error 2 ms later.
    fn does(&mut self, millis: u64, member: u32, how: Acknowledge, to: (i64, i64)) -> &mut Self {
        let id = self.sends(millis, member, how, to);
        self.event(millis + 2, member, EventKind::Acknowledged { id, refused: [].into() })
    }

    fn starts_at(&mut self, millis: u64, sent: u64, offset: i64) -> &mut Self {
        let kind = EventKind::StartOffsets { sent: at(sent), offsets: [(P, offset)].into() };
        self.event(millis, OBSERVER.0, kind)
    }

    fn again(&mut self) -> Vec<(Freed, u64, u64)> {
        let all = self.checker.take_redelivered().into_iter();
        all.map(|it| (it.after, it.took.as_millis() as u64, it.records)).collect()
    }

    fn rules(&mut self) -> Vec<String> {
        let found = std::mem::take(&mut self.checker).finish();
        found.violations.into_iter().map(|violation| violation.rule).collect()
    }
}

use Acknowledge::{Accept, Gap, Reject, Release};

#[test]
fn records_go_from_member_to_member_until_they_are_done() {
    let mut story = story();
    story.gets(20, 1, 10, (0, 9), 1).does(30, 1, Accept, (0, 4)).does(40, 1, Release, (5, 9));
    story.gets(50, 2, 35, (5, 9), 2).does(60, 2, Reject, (5, 5));
    assert_eq!(story.again(), [(Freed::Release, 10, 5)]);
    story.event(70, 2, EventKind::Stopped { how: Stop::Crash });
    story.gets(80, 3, 75, (6, 9), 3).does(90, 3, Gap, (6, 8)).does(95, 3, Release, (9, 9));
    assert_eq!(story.again(), [(Freed::Crash, 10, 4)]);
    story.starts_at(110, 100, 10);
    assert_eq!(story.rules(), NONE, "all are done, the last one as it reached the limit");
}

#[test]
fn an_expired_lock_frees_the_record() {
    let mut story = story();
    story.gets(20, 1, 10, (0, 0), 1).gets(1_030, 2, 1_000, (0, 0), 2);
    story.lives(1_500, 1, 1_100);
    assert_eq!((story.again(), story.rules()), (vec![(Freed::Expiry, 10, 1)], vec![]));
}

#[test]
fn a_record_is_not_acquired_twice_if_the_first_session_lives_on() {
    let mut story = story();
    story.gets(20, 1, 10, (0, 9), 1).gets(50, 2, 40, (3, 4), 2).lives(90, 1, 60);
    assert_eq!(story.rules(), ["acquired-twice"]);
}

#[test]
fn which_of_two_acquisitions_was_first_does_not_matter() {
    let mut story = story();
    story.gets(20, 2, 10, (0, 0), 2).gets(21, 1, 9, (0, 0), 1).lives(90, 2, 60);
    assert!(story.rules().contains(&"acquired-twice".to_owned()));
}

#[test]
fn a_record_of_a_session_that_may_have_ended_may_be_acquired() {
    let mut lost = story();
    lost.gets(20, 1, 10, (0, 0), 1).gets(50, 2, 40, (0, 0), 2).ends(60, 1, false);
    assert_eq!(lost.rules(), NONE, "the broker noticed first");
    let mut unproven = story();
    unproven.gets(20, 1, 10, (0, 0), 1).gets(50, 2, 40, (0, 0), 2).lives(55, 1, 49);
    assert_eq!(unproven.rules(), NONE, "that request may have been answered before");
}

#[test]
fn a_record_whose_acknowledgement_is_under_way_may_be_acquired() {
    let mut story = story();
    story.gets(20, 1, 10, (0, 0), 1);
    story.sends(30, 1, Release, (0, 0));
    story.gets(50, 2, 40, (0, 0), 2).lives(90, 1, 60);
    assert_eq!(story.rules(), NONE);
}

#[test]
fn what_a_moved_leader_had_locked_may_be_acquired() {
    let mut story = story();
    story.gets(20, 1, 10, (0, 0), 1).gets(50, 2, 40, (0, 0), 1);
    story.event(55, 1, EventKind::LeaderLost { partitions: [P].into() }).lives(90, 1, 60);
    assert_eq!(story.rules(), ["delivery-count-stuck"], "only the count was judged before");
}

#[test]
fn nothing_is_delivered_after_it_was_accepted_or_rejected() {
    for how in [Accept, Reject] {
        let mut story = story();
        story.gets(20, 1, 10, (0, 9), 1).does(30, 1, how, (0, 9)).gets(60, 2, 40, (9, 12), 1);
        assert_eq!(story.rules(), ["delivered-after-acknowledged"]);
    }
}

#[test]
fn what_was_fetched_while_it_was_accepted_is_no_proof() {
    let mut story = story();
    story.gets(20, 1, 10, (0, 0), 1).does(30, 1, Accept, (0, 0)).gets(60, 2, 31, (0, 0), 2);
    assert_eq!(story.rules(), NONE);
}

#[test]
fn what_was_refused_may_be_delivered() {
    let mut story = story();
    story.gets(20, 1, 10, (0, 0), 1);
    let id = story.sends(1_100, 1, Accept, (0, 0));
    let refused = [(P, INVALID_RECORD_STATE)].into();
    story.event(1_102, 1, EventKind::Acknowledged { id, refused });
    story.gets(1_200, 2, 1_150, (0, 0), 2);
    assert_eq!((story.again(), story.rules()), (vec![(Freed::Expiry, 180, 1)], vec![]));
}

#[test]
fn a_member_cannot_acknowledge_what_another_one_has_acquired() {
    let mut story = story();
    story.gets(20, 1, 10, (0, 1), 1).gets(1_100, 2, 1_050, (0, 1), 2);
    story.does(1_200, 1, Accept, (0, 1));
    assert_eq!(story.rules(), ["acknowledged-without-lock"]);
}

#[test]
fn an_acknowledgement_of_what_another_member_may_have_done_has_no_effect() {
    let mut story = story();
    story.gets(20, 1, 10, (0, 1), 1).gets(1_100, 2, 1_050, (0, 1), 2);
    story.sends(1_150, 2, Accept, (0, 1));
    story.does(1_200, 1, Accept, (0, 1));
    assert_eq!(story.rules(), NONE, "they may be before the start offset");
}

#[test]
fn an_acknowledgement_of_what_may_be_archived_has_no_effect() {
    let mut story = story();
    story.gets(20, 1, 10, (0, 1), 1).gets(1_100, 1, 1_050, (0, 1), 2);
    story.gets(2_200, 2, 2_150, (0, 1), 3).does(3_300, 1, Accept, (0, 1));
    assert_eq!(story.rules(), NONE, "the last lock has expired");
}

#[test]
fn a_record_is_not_delivered_beyond_the_limit() {
    let mut story = story();
    for deliveries in 1..=4 {
        let now = u64::try_from(deliveries).unwrap() * 100;
        story.gets(now, 1, now - 10, (0, 0), deliveries).does(now + 10, 1, Release, (0, 0));
    }
    assert_eq!(story.rules(), ["delivery-limit-exceeded"]);
}

#[test]
fn the_delivery_count_rises_while_the_broker_remembers() {
    let mut stuck = story();
    stuck.gets(20, 1, 10, (0, 0), 1).does(30, 1, Release, (0, 0)).gets(60, 2, 40, (0, 0), 1);
    assert_eq!(stuck.rules(), ["delivery-count-stuck"]);
    let mut new = story();
    new.gets(20, 1, 10, (0, 0), 1).event(30, 1, EventKind::Stopped { how: Stop::Crash });
    new.event(35, 4, EventKind::Started).gets(60, 4, 40, (0, 0), 1);
    assert_eq!(new.rules(), NONE, "a session that began later proves nothing");
}

#[test]
fn the_delivery_count_rises_by_one() {
    let mut first = story();
    first.gets(20, 1, 10, (0, 0), 2);
    assert_eq!(first.rules(), ["delivery-count-jumped"]);
    let mut second = story();
    second.gets(20, 1, 10, (0, 0), 1).does(30, 1, Release, (0, 0)).gets(60, 2, 40, (0, 0), 3);
    assert_eq!(second.rules(), ["delivery-count-jumped"]);
}

#[test]
fn a_lost_fetch_may_have_raised_the_delivery_count() {
    for learned in [15, 90] {
        let mut story = story();
        story.gets(12, 1, 10, (0, 0), 1).does(13, 1, Release, (0, 0));
        let ends = |story: &mut Story| {
            story.ends(learned, 3, false);
        };
        if learned < 60 {
            ends(&mut story);
        }
        story.gets(60, 2, 40, (0, 0), 3);
        if learned > 60 {
            ends(&mut story);
        }
        assert_eq!(story.rules(), NONE, "the member learned of it at {learned}");
    }
}

#[test]
fn no_record_before_the_start_offset_is_left() {
    let mut skipped = story();
    skipped.gets(20, 1, 10, (0, 3), 1).does(30, 1, Accept, (0, 3));
    skipped.gets(40, 1, 35, (5, 9), 1).does(50, 1, Accept, (5, 9)).starts_at(70, 60, 10);
    assert_eq!(skipped.rules(), ["record-lost"], "offset 4 was never delivered");
    let mut released = story();
    released.gets(20, 1, 10, (0, 0), 1).does(30, 1, Release, (0, 0)).starts_at(70, 60, 1);
    assert_eq!(released.rules(), ["record-lost"]);
    let mut unknown = story();
    unknown.gets(20, 1, 10, (0, 0), 1);
    let id = unknown.sends(30, 1, Accept, (0, 0));
    unknown.event(40, 1, EventKind::AcknowledgeUnknown { id }).starts_at(70, 60, 1);
    assert_eq!(unknown.rules(), NONE, "the acceptance may have taken effect");
}

#[test]
fn the_start_offset_does_not_go_back() {
    let mut story = story();
    story.gets(20, 1, 10, (0, 9), 1).does(30, 1, Accept, (0, 9));
    story.starts_at(70, 60, 10).starts_at(90, 80, 9);
    assert_eq!(story.rules(), ["start-offset-went-back"]);
}

#[test]
fn records_that_were_done_take_little_memory() {
    let mut story = story();
    for offset in 0..1_000 {
        let now = 100 + u64::try_from(offset).unwrap();
        story.gets(now, 1, now - 1, (offset, offset), 1).does(now, 1, Accept, (offset, offset));
    }
    let sharing = &story.checker.shares.groups[&GroupIndex(0)];
    assert!(sharing.logs[&P].runs() <= 3, "{}", sharing.logs[&P].runs());
}
