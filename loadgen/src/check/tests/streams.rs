//! Histories of streams groups that break a rule, and histories that do not. Members 0 and 1 are
//! threads of process 0, member 2 is a thread of process 1.

use super::story::{broken, check};

const NONE: [&str; 0] = [];

/// Since epoch 1, member 0 has task 0 as active task and task 1 as standby.
const THREADS: &str = "
    streams session=1000 rebalance=5000 partitions=3
    0 m0 process 0
    0 m1 process 0
    0 m2 process 1
    0 m0 joining
    10 m0 joined 1
    10 m0 alive 1 1
    10 m0 standbys 1 : 1
    10 m0 assigned 1 : 0
    10 m0 settled 1
    20 m1 joining
    30 m1 joined 2
    30 m1 alive 21 2
    20 m2 joining
    30 m2 joined 2
    30 m2 alive 21 2";

fn rules(rest: &str) -> Vec<String> {
    broken(&format!("{THREADS}\n{rest}"))
}

#[test]
fn a_task_that_moves_is_at_one_member_at_a_time() {
    let rest = "
        120 m0 must-rebalance 115
        130 m0 revoked : 0
        130 m0 standbys 1 :
        150 m2 alive 140 3
        150 m2 assigned 3 : 0
        160 m0 alive 131 3
        170 m1 alive 165 3
        170 m1 standbys 3 : 1
        170 m1 assigned 3 : 2";
    assert_eq!(rules(rest), NONE);
}

#[test]
fn an_active_task_at_two_members_is_found_and_named() {
    let rest = "
        150 m2 alive 140 3
        150 m2 assigned 3 : 0
        200 m0 alive 190 1";
    assert_eq!(rules(rest), ["two-owners"]);
    let found = check(&format!("{THREADS}\n{rest}"));
    assert_eq!(
        found.violations[0].what,
        "task 0_0 was assigned to member 2 in epoch 3, while member 0 owned it since epoch 1 and \
         its lease had not run out"
    );
}

#[test]
fn a_standby_task_may_be_at_any_number_of_processes_but_once_at_each() {
    let other = "
        150 m2 alive 140 3
        150 m2 standbys 3 : 0 1
        200 m0 alive 190 1";
    assert_eq!(rules(other), NONE);
    let same = "
        150 m1 alive 140 3
        150 m1 standbys 3 : 1
        200 m0 alive 190 1";
    assert_eq!(rules(same), ["task-twice"]);
    let found = check(&format!("{THREADS}\n{same}"));
    assert_eq!(
        found.violations[0].what,
        "task 0_1 was assigned to member 1 in epoch 3, while member 0 owned it in process 0 since \
         epoch 1 and its lease had not run out"
    );
}

#[test]
fn a_process_has_no_task_as_active_and_standby() {
    let at_two_threads = "
        150 m1 alive 140 3
        150 m1 standbys 3 : 0
        200 m0 alive 190 1";
    assert_eq!(rules(at_two_threads), ["task-twice"]);
    let at_one = "
        150 m0 alive 140 3
        150 m0 assigned 3 : 1";
    assert_eq!(rules(at_one), ["task-twice"]);
    let the_other_way = "
        150 m0 alive 140 3
        150 m0 standbys 3 : 0 1";
    assert_eq!(rules(the_other_way), ["task-twice"]);
    let in_turn = "
        150 m0 revoked : 0
        150 m0 standbys 2 : 0
        150 m0 assigned 2 : 1
        160 m0 alive 155 2";
    assert_eq!(rules(in_turn), NONE);
}

#[test]
fn threads_of_a_process_are_compared_only_within_their_leases() {
    // From 1001 ms on, member 0 may have been removed without its knowledge.
    let late = "
        1100 m1 alive 1050 3
        1100 m1 standbys 3 : 0 1
        1200 m0 fenced 25
        1200 m0 lost : 0";
    assert_eq!(rules(late), NONE);
    let early = "
        900 m1 alive 850 3
        900 m1 standbys 3 : 0
        1200 m0 fenced 25
        1200 m0 lost : 0";
    assert_eq!(rules(early), ["task-twice"]);
}

#[test]
fn a_thread_that_crashed_or_joins_again_has_no_tasks() {
    for ends in ["140 m0 crashed", "140 m0 lost : 0\n 140 m0 fenced 110\n 140 m0 joining"] {
        let rest = format!(
            "{ends}
            150 m1 alive 145 3
            150 m1 standbys 3 : 0 1
            200 m1 alive 190 3"
        );
        assert_eq!(rules(&rest), NONE);
    }
}

#[test]
fn the_epoch_of_a_member_never_goes_back() {
    assert_eq!(rules("150 m1 alive 140 1"), ["epoch-went-back"]);
    assert_eq!(rules("150 m1 alive 25 1"), NONE, "it was on its way");
    let behind_the_group = "
        150 m1 joining
        160 m1 joined 1";
    assert_eq!(rules(behind_the_group), ["epoch-went-back"]);
}

#[test]
fn a_member_is_kept_for_its_session() {
    assert_eq!(rules("900 m0 fenced 25"), ["evicted-early"]);
    assert_eq!(rules("1100 m0 fenced 25"), NONE);
}
