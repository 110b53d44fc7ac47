//! For each rule, histories that break it and histories that do not.

use super::story::{broken, check};

const NONE: [&str; 0] = [];

/// Two consumers are in the group. The first owns partition 0 in epoch 1.
const CONSUMERS: &str = "
    consumer session=1000 rebalance=5000 partitions=2
    0 m0 joining
    10 m0 joined 1
    10 m0 alive 1 1
    10 m0 assigned 1 : 0
    10 m0 settled 1
    100 m1 joining
    110 m1 joined 2
    110 m1 alive 101 2";

/// Both members are in generation 1 of a classic group. The first owns partition 0, the second
/// owns partition 1.
const CLASSICS: &str = "
    classic session=1000 rebalance=5000 partitions=2
    0 m0 joining
    0 m1 joining
    10 m0 joined 1
    10 m0 alive 1 1
    10 m1 joined 1
    10 m1 alive 1 1
    20 m0 alive 11 1
    20 m0 assigned 1 : 0
    20 m0 settled 1
    20 m1 alive 11 1
    20 m1 assigned 1 : 1
    20 m1 settled 1
    40 m0 alive 30 1
    40 m1 alive 30 1";

fn story(start: &str, rest: &str) -> String {
    format!("{start}\n{rest}")
}

#[test]
fn a_partition_that_is_revoked_before_it_is_assigned_has_one_owner() {
    let rest = "
        120 m0 alive 115 1
        120 m0 must-rebalance 115
        130 m0 revoked : 0
        150 m1 alive 140 2
        150 m1 assigned 2 : 0
        160 m0 alive 131 2";
    assert_eq!(broken(&story(CONSUMERS, rest)), NONE);
}

#[test]
fn a_partition_that_is_assigned_twice_is_reported_with_both_assignments() {
    let rest = "
        150 m1 alive 140 2
        150 m1 assigned 2 : 0
        200 m0 alive 190 1";
    let found = check(&story(CONSUMERS, rest));
    assert_eq!(super::story::rules(&found), ["two-owners"]);
    let violation = &found.violations[0];
    assert!(violation.what.contains("partition 0 of topic 0"), "{}", violation.what);
    let kinds: Vec<_> = violation.events.iter().map(|e| e["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["assigned", "assigned", "alive", "alive"]);
    assert_eq!(violation.events[0]["member"], 0);
    assert_eq!(violation.events[1]["member"], 1);
}

#[test]
fn an_owner_holds_its_partitions_for_certain_only_within_its_session() {
    // m0 sent its last request at 1 ms. From 1001 ms on it may have been removed without its
    // knowledge.
    let late = "
        1100 m1 alive 1050 3
        1100 m1 assigned 3 : 0
        1200 m0 fenced 25
        1200 m0 lost : 0";
    assert_eq!(broken(&story(CONSUMERS, late)), NONE);
    let early = "
        900 m1 alive 850 3
        900 m1 assigned 3 : 0
        1200 m0 lost : 0";
    assert_eq!(broken(&story(CONSUMERS, early)), ["two-owners"]);
}

#[test]
fn a_later_answered_heartbeat_shows_that_the_owner_was_never_removed() {
    let rest = "
        1100 m1 alive 1050 3
        1100 m1 assigned 3 : 0
        1300 m0 alive 1200 1";
    assert_eq!(broken(&story(CONSUMERS, rest)), ["two-owners"]);
}

#[test]
fn an_owner_that_comes_back_is_compared_with_all_later_owners_of_its_partition() {
    let rest = "
        120 m2 joining
        130 m2 joined 3
        130 m2 alive 121 3
        1100 m1 alive 1050 3
        1100 m1 assigned 3 : 0
        2200 m2 alive 2150 4
        2200 m2 assigned 4 : 0
        2300 m0 alive 2290 1";
    let found = check(&story(CONSUMERS, rest));
    assert_eq!(super::story::rules(&found), ["two-owners"]);
    assert_eq!(found.violations[0].events[0]["member"], 0);
}

#[test]
fn an_assignment_that_arrives_after_its_own_lease_makes_no_owner() {
    // m1 gets its answer only after its session timeout. m0 could be assigned the partition by
    // then.
    let rest = "
        120 m0 revoked : 0
        1900 m0 alive 1800 4
        1900 m0 assigned 4 : 0
        2000 m1 assigned 2 : 0
        2000 m1 alive 130 2
        2100 m1 fenced 25
        2100 m1 lost : 0";
    assert_eq!(broken(&story(CONSUMERS, rest)), NONE);
}

#[test]
fn a_member_that_does_not_revoke_in_time_may_be_removed_after_the_rebalance_timeout() {
    let alive: String =
        (1..60).map(|n| format!("{} m0 alive {} 1\n", 200 + n * 100, 190 + n * 100)).collect();
    let rest = |at: u32| {
        let asked = "120 m0 alive 115 1\n 120 m0 must-rebalance 115\n";
        let given = format!("{} m1 alive {} 3\n {at} m1 assigned 3 : 0\n", at, at - 10);
        let lines = story(asked, &alive);
        let before: String =
            lines.lines().filter(|l| at_of(l) < at).map(|l| format!("{l}\n")).collect();
        story(CONSUMERS, &format!("{before}{given}{} m0 lost : 0", at + 50))
    };
    assert_eq!(broken(&rest(5300)), NONE);
    assert_eq!(broken(&rest(4800)), ["two-owners"]);
}

fn at_of(line: &str) -> u32 {
    line.split_whitespace().next().map_or(0, |at| at.parse().unwrap())
}

#[test]
fn a_crashed_member_owns_nothing_and_a_static_one_owns_again_when_it_returns() {
    let rest = "
        120 m0 lost : 0
        120 m0 crashed
        150 m1 alive 140 2
        150 m1 assigned 2 : 0
        200 m1 alive 190 2";
    assert_eq!(broken(&story(CONSUMERS, rest)), NONE);
    let closed = "
        120 m0 closed
        150 m0 started
        150 m0 joining
        160 m0 joined 2
        160 m0 alive 151 2
        160 m0 assigned 2 : 0
        200 m0 alive 190 2";
    assert_eq!(broken(&story(CONSUMERS, closed)), NONE);
}

#[test]
fn a_classic_generation_without_the_owner_takes_the_rebalance_timeout() {
    // m0 keeps its session by heartbeats that are refused (REBALANCE_IN_PROGRESS), and never joins.
    let rest = |at: u32| {
        story(
            CLASSICS,
            &format!(
                "500 m0 alive 490 1
                520 m1 must-rebalance 510
                530 m1 joining
                {at} m1 joined 2
                {at} m1 alive 531 2
                {at} m1 alive {at} 2
                {at} m1 assigned 2 : 0
                {} m1 alive {} 2
                {} m0 lost : 0",
                at + 50,
                at + 40,
                at + 100
            ),
        )
    };
    assert_eq!(broken(&rest(1200)), ["two-owners"]);
    // If the session timeout is longer, the lease lasts until the rebalance timeout has passed.
    let long = |at: u32| rest(at).replace("session=1000", "session=9000");
    assert_eq!(broken(&long(5400)), ["two-owners"]);
    assert_eq!(broken(&long(5600)), NONE);
}

#[test]
fn one_generation_has_one_owner_of_each_partition() {
    let rest = "
        100 m0 alive 90 1
        100 m1 alive 90 1
        100 m1 assigned 1 : 0
        120 m0 alive 110 1";
    assert_eq!(broken(&story(CLASSICS, rest)), ["two-owners"]);
}

#[test]
fn a_static_member_that_missed_a_generation_has_no_lease_from_joining_the_next() {
    let rest = "
        5600 m1 joined 2
        5600 m1 alive 520 2
        5600 m1 alive 5599 2
        5600 m1 assigned 2 : 0
        5700 m0 joining
        5700 m1 joining
        5800 m0 joined 3
        5800 m0 alive 5701 3
        5800 m1 joined 3
        5800 m1 alive 5701 3
        5900 m0 alive 5801 3
        5900 m0 assigned 3 : 1
        5910 m0 revoked : 0";
    assert_eq!(broken(&story(CLASSICS, rest)), NONE);
}

#[test]
fn a_generation_that_a_member_has_binds_later_requests() {
    let back = "
        100 m1 alive 90 4
        100 m1 assigned 4 : 1
        200 m0 alive 190 3";
    assert_eq!(broken(&story(CLASSICS, back)), ["epoch-went-back"]);
    let in_flight = back.replace("190", "95");
    assert_eq!(broken(&story(CLASSICS, &in_flight)), NONE);
}

#[test]
fn a_generation_that_was_only_joined_may_be_used_again_after_a_restart() {
    let rest = "
        90 m1 joining
        100 m1 joined 2
        100 m1 alive 90 2
        110 m1 disconnected
        200 m0 alive 190 1";
    assert_eq!(broken(&story(CLASSICS, rest)), NONE);
}

#[test]
fn each_consumer_has_its_own_epoch() {
    let behind = "
        200 m1 alive 190 5
        210 m0 alive 201 1";
    assert_eq!(broken(&story(CONSUMERS, behind)), NONE);
    let back = "
        200 m1 alive 190 5
        210 m1 alive 201 4";
    assert_eq!(broken(&story(CONSUMERS, back)), ["epoch-went-back"]);
    let joined_behind = "
        200 m1 alive 190 5
        210 m2 joining
        220 m2 joined 4";
    assert_eq!(broken(&story(CONSUMERS, joined_behind)), ["epoch-went-back"]);
}

#[test]
fn a_group_that_all_have_left_begins_again() {
    let rest = "
        200 m0 left
        210 m1 left
        300 m0 joining
        310 m0 joined 1
        310 m0 alive 301 1";
    assert_eq!(broken(&story(CONSUMERS, rest)), NONE);
}

#[test]
fn a_commit_of_an_older_epoch_is_refused_once_a_newer_owner_has_committed() {
    let rest = "
        1050 m1 alive 1040 3
        1050 m1 assigned 3 : 0
        1060 m1 commit 1 3 : 0=50
        1070 m1 answered 1
        1080 m0 commit 1 1 : 0=40
        1090 m0 answered 1";
    assert_eq!(broken(&story(CONSUMERS, rest)), ["fenced-commit-accepted"]);
    let refused = format!("{rest} : 0=25");
    assert_eq!(broken(&story(CONSUMERS, &refused)), NONE);
    let sent_before = rest.replace("1080 m0 commit", "1065 m0 commit");
    assert_eq!(broken(&story(CONSUMERS, &sent_before)), NONE);
    let classic = rest.replace("1050 m1 alive 1040 3", "1050 m1 alive 1040 3\n1050 m0 lost : 0");
    assert_eq!(broken(&story(CLASSICS, &classic)), ["fenced-commit-accepted"]);
}

#[test]
fn a_read_returns_the_last_acknowledged_commit() {
    let manual = "manual session=0 rebalance=0 partitions=1
        10 m0 commit 1 -1 : 0=5
        20 m0 answered 1
        30 m0 commit 2 -1 : 0=6
        40 m0 answered 2";
    let read = |line: &str| broken(&story(manual, line));
    assert_eq!(read("60 obs read 50 : 0=6"), NONE);
    assert_eq!(read("60 obs read 50 : 0=5"), ["commit-lost"]);
    assert_eq!(read("60 obs read 50 : 0=-1"), ["commit-lost"]);
    assert_eq!(read("60 obs read 50 : 0=7"), ["commit-lost"]);
    assert_eq!(read("60 obs read 35 : 0=5"), NONE, "the second commit was still under way");
    assert_eq!(read("60 obs read 15 : 0=-1"), NONE, "nothing was acknowledged yet");
}

#[test]
fn what_is_within_the_error_of_the_clocks_has_no_order() {
    let read_with = |error: u32| {
        broken(&format!(
            "manual session=0 rebalance=0 partitions=1 clock_error={error}
            10 m0 commit 1 -1 : 0=5
            20 m0 answered 1
            30 m0 commit 2 -1 : 0=6
            40 m0 answered 2
            60 obs read 50 : 0=5"
        ))
    };
    assert_eq!(read_with(0), ["commit-lost"]);
    assert_eq!(read_with(5), ["commit-lost"]);
    assert_eq!(read_with(12), NONE);
}

/// In a closed loop a commit is sent in the same moment in which the previous one was answered.
#[test]
fn a_commit_that_is_sent_when_the_last_one_was_answered_follows_it() {
    let manual = "manual session=0 rebalance=0 partitions=1
        10 m0 commit 1 -1 : 0=5
        20 m0 answered 1
        20 m0 commit 2 -1 : 0=6
        30 m0 answered 2";
    assert_eq!(broken(&story(manual, "50 obs read 40 : 0=5")), ["commit-lost"]);
    assert_eq!(broken(&story(manual, "50 obs read 40 : 0=6")), NONE);
    let before_the_answer = "manual session=0 rebalance=0 partitions=1
        10 m0 commit 1 -1 : 0=5
        20 m0 commit 2 -1 : 0=6
        20 m0 answered 1
        30 m0 answered 2";
    assert_eq!(broken(&story(before_the_answer, "50 obs read 40 : 0=5")), NONE);
    let of_another = manual.replace("20 m0 commit 2", "20 m1 commit 2").replace("30 m0", "30 m1");
    assert_eq!(broken(&story(&of_another, "50 obs read 40 : 0=5")), NONE);
}

#[test]
fn a_commit_without_an_answer_may_or_may_not_be_read() {
    let manual = "manual session=0 rebalance=0 partitions=1
        10 m0 commit 1 -1 : 0=5
        20 m0 answered 1
        30 m0 commit 2 -1 : 0=6
        40 m0 unknown 2";
    let read = |line: &str| broken(&story(manual, line));
    assert_eq!(read("60 obs read 50 : 0=6"), NONE);
    assert_eq!(read("60 obs read 50 : 0=5"), NONE);
    assert_eq!(read("60 obs read 50 : 0=4"), ["commit-lost"]);
    let refused = manual.replace("unknown 2", "answered 2 : 0=22");
    assert_eq!(broken(&story(&refused, "60 obs read 50 : 0=6")), ["commit-lost"]);
    let perhaps = manual.replace("unknown 2", "answered 2 : 0=16");
    assert_eq!(broken(&story(&perhaps, "60 obs read 50 : 0=6")), NONE);
}

#[test]
fn many_commits_leave_a_bounded_register_that_still_judges() {
    let mut story = String::from("manual session=0 rebalance=0 partitions=1\n");
    for n in 1..200 {
        story += &format!("{0}0 m0 commit {n} -1 : 0={n}\n{0}5 m0 answered {n}\n", n);
    }
    assert_eq!(broken(&format!("{story} 2010 obs read 2000 : 0=199")), NONE);
    assert_eq!(broken(&format!("{story} 2010 obs read 2000 : 0=198")), ["commit-lost"]);
    assert_eq!(broken(&format!("{story} 2010 obs read 2000 : 0=20")), ["commit-lost"]);
}

#[test]
fn a_deleted_group_has_no_offsets_and_no_members() {
    let rest = "
        20 m0 commit 1 1 : 0=5
        30 m0 answered 1
        40 m0 left
        45 m1 left
        60 obs deleted 50";
    let after = |line: &str| broken(&story(CONSUMERS, &format!("{rest}\n{line}")));
    assert_eq!(after("80 obs read 70 : 0=-1 1=-1"), NONE);
    assert_eq!(after("80 obs read 70 : 0=5"), ["deleted-group-came-back"]);
    assert_eq!(after("80 obs read 55 : 0=5"), NONE, "the deletion was under way");
    assert_eq!(after("80 m0 alive 70 1"), ["deleted-group-came-back"]);
    assert_eq!(after("70 m0 joining\n80 m0 joined 1\n80 m0 alive 71 1"), NONE);
}

#[test]
fn late_answers_to_members_of_a_deleted_group_prove_nothing_of_the_next_group() {
    let late = "
        60 obs deleted 60
        70 m0 assigned 2 0
        75 m0 joining
        80 m0 joined 1";
    assert_eq!(broken(&story(CLASSICS, late)), NONE);
    let in_the_next = format!("{late}\n85 m0 assigned 1 0\n90 m0 joining\n95 m0 joined 0");
    assert_eq!(broken(&story(CLASSICS, &in_the_next)), ["epoch-went-back"]);
}

#[test]
fn a_member_is_not_removed_within_its_session() {
    assert_eq!(broken(&story(CONSUMERS, "900 m0 fenced 25")), ["evicted-early"]);
    assert_eq!(broken(&story(CONSUMERS, "1100 m0 fenced 25")), NONE);
    assert_eq!(broken(&story(CONSUMERS, "900 m0 fenced 110")), NONE);
    assert_eq!(broken(&story(CLASSICS, "900 m0 fenced 25")), ["evicted-early"]);
    assert_eq!(broken(&story(CLASSICS, "800 restarted\n900 m0 fenced 25")), NONE);
    assert_eq!(broken(&story(CLASSICS, "800 m1 refused 12 16\n900 m0 fenced 25")), NONE);
}

#[test]
fn a_repeated_request_with_a_different_answer_is_reported() {
    assert_eq!(broken(&story(CLASSICS, "900 m0 differed 11")), ["repeat-differed"]);
}

#[test]
fn violations_are_kept_up_to_a_limit_and_counted_beyond() {
    let lines: String = (0..50).map(|_| "900 m0 differed 11\n").collect();
    let found = check(&story(CLASSICS, &lines));
    assert_eq!((found.violations.len(), found.omitted, found.total()), (20, 30, 50));
}

/// A classic member and a member of the consumer protocol are in one group.
#[test]
fn partitions_of_a_group_that_is_migrated_have_one_owner() {
    let classic = "
        migrating session=1000 rebalance=5000 partitions=2
        0 m0 joining
        10 m0 joined 1
        20 m0 alive 11 1
        20 m0 assigned 1 : 0
        20 m0 settled 1
        40 m0 alive 30 1
        100 m1 joining
        110 m1 joined 2
        110 m1 alive 101 2";
    let handed_over = "
        120 m0 must-rebalance 115
        130 m0 revoked : 0
        131 m0 joining
        140 m0 joined 2
        150 m1 assigned 2 : 0
        150 m1 settled 2
        160 m1 alive 151 2
        200 m1 alive 190 2";
    assert_eq!(broken(&story(classic, handed_over)), NONE);
    let joins_again_to_give_up = "
        150 m1 settled 2
        160 m1 alive 151 2
        200 m0 must-rebalance 190
        201 m0 joining
        210 m0 joined 1
        211 m0 revoked : 0
        212 m0 joining
        220 m0 joined 2";
    assert_eq!(broken(&story(classic, joins_again_to_give_up)), NONE);
    let joins_behind = "
        150 m1 settled 2
        160 m1 alive 151 2
        200 m2 joining
        210 m2 joined 1";
    assert_eq!(broken(&story(classic, joins_behind)), ["epoch-went-back"]);
    let twice = "
        150 m1 assigned 2 : 0
        150 m1 settled 2
        160 m1 alive 151 2
        200 m0 alive 190 1";
    assert_eq!(broken(&story(classic, twice)), ["two-owners"]);
    let went_back = "
        200 m0 alive 190 5
        200 m0 assigned 5 : 1
        210 m0 alive 201 5
        300 m0 alive 250 4";
    assert_eq!(broken(&story(classic, went_back)), ["epoch-went-back"]);
}
