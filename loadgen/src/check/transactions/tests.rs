//! For each rule, stories that break it and stories that do not. Times are in milliseconds.
//! Producer 1 writes two records each to partitions 0 and 1. The readers are 8 and 9.

use super::*;
use crate::check::Checker;
use crate::event::Stop;
use crate::plan::{GroupIndex, Isolation, TopicIndex};

const NONE: [&str; 0] = [];
const PRODUCER: u32 = 1;
const READER: u32 = 8;

struct Story {
    checker: Checker,
    visible: Vec<Visible>,
}

fn group(index: u32, protocol: Kind, clock_error: u64) -> Group {
    Group {
        index: GroupIndex(index),
        id: "g".into(),
        protocol,
        session_timeout: Duration::from_secs(45),
        rebalance_timeout: Duration::from_secs(60),
        partitions: 0,
        clock_error: Duration::from_millis(clock_error),
        delivery_limit: 0,
    }
}

fn at(millis: u64) -> Time {
    Time::from_micros(millis * 1000)
}

fn partition(number: u32) -> Partition {
    Partition { topic: TopicIndex(0), number }
}

/// A reader of both partitions began at 10.
fn story() -> Story {
    reading(Isolation::ReadCommitted, 0)
}

fn reading(isolation: Isolation, clock_error: u64) -> Story {
    let mut checker = Checker::default();
    checker.expect_group(group(0, Kind::Producer, clock_error));
    checker.expect_group(group(1, Kind::Reader, clock_error));
    let mut story = Story { checker, visible: Vec::new() };
    story.begins(10, READER, isolation);
    story
}

impl Story {
    fn event(&mut self, millis: u64, group: u32, member: u32, kind: EventKind) -> &mut Self {
        let (group, member) = (GroupIndex(group), MemberIndex(member));
        self.checker.observe(&Event { at: at(millis), group, member, kind });
        self.visible.append(&mut self.checker.take_visible());
        self
    }

    fn begins(&mut self, millis: u64, reader: u32, isolation: Isolation) -> &mut Self {
        let positions = [(partition(0), 0), (partition(1), 0)].into();
        self.event(millis, 1, reader, EventKind::ReadingFrom { isolation, positions })
    }

    /// EndTxn is called. The transaction has batches at this offset in partitions 0 and 1.
    fn ending(&mut self, millis: u64, number: u64, committed: bool, offset: i64) -> &mut Self {
        let written = |number| Written { partition: partition(number), offset, records: 2 };
        let batches = [written(0), written(1)].into();
        let kind = EventKind::TransactionEnding { number, committed, batches };
        self.event(millis, 0, PRODUCER, kind)
    }

    fn ended(&mut self, millis: u64, number: u64, committed: bool) -> &mut Self {
        self.event(millis, 0, PRODUCER, EventKind::TransactionEnded { number, committed })
    }

    /// The reader gets both records of a transaction in one partition, and the marker.
    fn read(&mut self, millis: u64, number: u64, of: u32, offset: i64) -> &mut Self {
        self.read_by(millis, READER, number, of, offset)
    }

    fn read_by(&mut self, millis: u64, by: u32, number: u64, of: u32, offset: i64) -> &mut Self {
        let record = Returned {
            partition: partition(of),
            offset,
            producer: MemberIndex(PRODUCER),
            number,
            first: 0,
            count: 2,
        };
        let (records, positions) = ([record].into(), [(partition(of), offset + 3)].into());
        self.event(millis, 1, by, EventKind::Read { arrived: at(millis), records, positions })
    }

    /// The reader passes a partition up to this offset.
    fn pass(&mut self, millis: u64, of: u32, to: i64) -> &mut Self {
        let (records, positions) = ([].into(), [(partition(of), to)].into());
        self.event(millis, 1, READER, EventKind::Read { arrived: at(millis), records, positions })
    }

    fn crash(&mut self, millis: u64, group: u32, member: u32) -> &mut Self {
        self.event(millis, group, member, EventKind::Stopped { how: Stop::Crash })
    }

    fn broken(&mut self) -> Vec<String> {
        let found = std::mem::take(&mut self.checker).finish();
        found.violations.into_iter().map(|violation| violation.rule).collect()
    }

    /// For each transaction, the time from the call of EndTxn until it was read completely or the
    /// reader ended, and whether it was read.
    fn took(&self) -> Vec<(u128, bool)> {
        let took = |it: &Visible| (it.at.since(it.called).as_millis(), it.was_read);
        self.visible.iter().map(took).collect()
    }

    fn forgotten(&self) -> bool {
        let transactions = &self.checker.transactions;
        transactions.open.is_empty() && transactions.ends.values().all(BTreeMap::is_empty)
    }
}

#[test]
fn a_transaction_is_visible_when_the_last_of_its_records_arrived() {
    let mut story = story();
    story.ending(20, 5, true, 0).read(23, 5, 0, 0).ended(24, 5, true).read(27, 5, 1, 0);
    story.ending(30, 6, true, 3).read(32, 6, 1, 3).read(33, 6, 0, 3).ended(40, 6, true);
    assert_eq!(story.took(), [(7, true), (3, true)]);
    assert!(story.forgotten());
    assert_eq!(story.broken(), NONE);
}

#[test]
fn a_committed_transaction_of_which_a_batch_is_passed_is_torn() {
    let mut story = story();
    story.ending(20, 5, true, 0).ended(22, 5, true).read(23, 5, 0, 0).pass(30, 1, 2);
    assert_eq!(story.broken(), ["transaction-torn"]);
}

#[test]
fn a_committed_transaction_that_is_passed_as_a_whole_is_torn_too() {
    let mut story = story();
    story.ending(20, 5, true, 0).pass(23, 0, 3).pass(24, 1, 3);
    story.ended(25, 5, true);
    assert_eq!(story.broken(), ["transaction-torn"]);
}

#[test]
fn without_an_answer_a_transaction_may_be_either_but_not_half() {
    for (seen, rules) in [(0, vec![]), (1, vec!["transaction-torn"]), (2, vec![])] {
        let mut story = story();
        story.ending(20, 5, true, 0).crash(21, 0, PRODUCER);
        for of in 0..2 {
            if of < seen {
                story.read(30, 5, of, 0);
            } else {
                story.pass(30, of, 3);
            }
        }
        assert!(seen == 1 || story.forgotten());
        assert_eq!(story.broken(), rules, "{seen}");
    }
}

#[test]
fn an_aborted_transaction_is_never_read() {
    let mut story = story();
    story.ending(20, 5, false, 0).ended(22, 5, false).pass(30, 0, 3).pass(31, 1, 3);
    assert!(story.forgotten());
    story.ending(40, 6, false, 3).ended(42, 6, false).read(44, 6, 0, 3);
    assert_eq!(story.broken(), ["aborted-read"]);
}

#[test]
fn an_aborted_transaction_is_not_read_later_either() {
    let mut story = story();
    story.ending(20, 5, false, 0).ended(22, 5, false).pass(30, 0, 3).pass(31, 1, 3);
    story.read(50, 5, 0, 7);
    assert_eq!(story.broken(), ["aborted-read"]);
}

#[test]
fn a_transaction_whose_producer_crashed_before_its_end_is_never_read() {
    let mut story = story();
    story.read(20, 5, 0, 0).crash(21, 0, PRODUCER);
    assert_eq!(story.broken(), ["aborted-read"]);
}

#[test]
fn a_record_before_endtxn_was_sent_is_reported() {
    let mut story = story();
    story.read(20, 5, 0, 0).ending(25, 5, true, 0).ended(26, 5, true).read(27, 5, 1, 0);
    assert_eq!(story.broken(), ["read-before-commit"]);
}

#[test]
fn clocks_that_differ_put_nothing_before_endtxn() {
    let mut story = reading(Isolation::ReadCommitted, 6);
    story.read(20, 5, 0, 0).ending(25, 5, true, 0).ended(26, 5, true).read(27, 5, 1, 0);
    assert_eq!(story.took(), [(2, true)]);
    assert!(story.forgotten());
    assert_eq!(story.broken(), NONE);
}

#[test]
fn records_that_are_returned_again_or_in_another_order_are_reported() {
    let whole = |story: &mut Story, number, offset: i64, millis| {
        story.ending(millis, number, true, offset).ended(millis + 1, number, true);
        story.read(millis + 2, number, 0, offset).read(millis + 3, number, 1, offset);
    };
    let mut twice = story();
    whole(&mut twice, 5, 0, 20);
    twice.read(40, 5, 0, 3);
    assert_eq!(twice.broken(), ["read-out-of-order"]);
    let mut swapped = story();
    swapped.ending(20, 5, true, 3).ended(21, 5, true).ending(22, 6, true, 0).ended(23, 6, true);
    swapped.read(30, 6, 0, 0).read(31, 5, 0, 3);
    assert_eq!(swapped.broken()[0], "read-out-of-order");
}

#[test]
fn readers_of_uncommitted_records_see_all_but_lose_nothing() {
    let mut story = reading(Isolation::ReadUncommitted, 0);
    story.read(20, 5, 0, 0).ending(25, 5, true, 0).ended(26, 5, true).read(27, 5, 1, 0);
    story.read(28, 6, 0, 3).ending(30, 6, false, 3).ended(31, 6, false).pass(32, 1, 6);
    assert!(story.forgotten() && story.visible.is_empty());
    story.ending(40, 7, true, 6).ended(41, 7, true).pass(50, 0, 9);
    assert_eq!(story.broken(), ["transaction-torn"]);
}

#[test]
fn a_reader_is_not_judged_by_what_ended_before_it_began() {
    let mut story = story();
    story.ending(20, 5, true, 0).ended(21, 5, true).read(22, 5, 0, 0).read(23, 5, 1, 0);
    story.begins(24, 9, Isolation::ReadCommitted).read_by(25, 9, 5, 1, 0);
    story.ending(30, 6, true, 3).ended(31, 6, true);
    story.read(32, 6, 0, 3).read(33, 6, 1, 3).read_by(36, 9, 6, 0, 3).read_by(37, 9, 6, 1, 3);
    assert_eq!(story.took(), [(3, true), (3, true), (7, true)]);
    assert!(story.forgotten());
    assert_eq!(story.broken(), NONE);
}

#[test]
fn what_a_reader_did_not_read_before_it_ended_counts_with_its_age() {
    let mut story = story();
    story.ending(20, 5, true, 0).ended(21, 5, true);
    assert_eq!(story.checker.unread(at(30)), [Duration::from_millis(10)]);
    story.crash(50, 1, READER);
    assert_eq!(story.took(), [(30, false)]);
    assert!(story.forgotten());
    assert_eq!(story.broken(), NONE);
}

#[test]
fn a_commit_that_was_refused_and_then_aborted_is_never_read() {
    let mut story = story();
    story.ending(20, 5, true, 0).ending(22, 5, false, 0).ended(23, 5, false);
    story.pass(30, 0, 3).pass(31, 1, 3);
    assert!(story.forgotten());
    assert_eq!(story.broken(), NONE);
}
