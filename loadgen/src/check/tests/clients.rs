//! Claims of real clients beside those of members.

use super::story::{broken, check};

/// A story with two partitions. Member 0 owns partition 0, and is alive up to 60 s. The client is
/// `m9`.
fn story(rest: &str) -> String {
    let mut lines: Vec<(u64, String)> = Vec::new();
    let mut add = |line: &str| {
        let at = line.split_whitespace().next().unwrap().parse().unwrap();
        lines.push((at, line.to_owned()));
    };
    add("5 m0 joining");
    add("9 m0 joined 1");
    add("10 m0 assigned 1 : 0");
    add("11 m0 settled 1");
    for at in (1000..=60_000).step_by(1000) {
        add(&format!("{at} m0 alive {} 1", at - 5));
    }
    add("100 m9 client python");
    rest.lines().map(str::trim).filter(|line| !line.is_empty()).for_each(&mut add);
    lines.sort_by_key(|(at, _)| *at);
    let lines = Vec::from_iter(lines.into_iter().map(|(_, line)| line)).join("\n");
    format!("consumer session=45000 rebalance=60000 partitions=2\n{lines}")
}

#[test]
fn a_partition_of_a_member_is_not_assigned_to_a_client() {
    let found = check(&story("2000 m9 client-assigned : 0 1\n30000 m9 client-alive"));
    let violation = &found.violations[0];
    assert_eq!((violation.rule.as_str(), found.total()), ("two-owners", 1));
    assert_eq!(
        violation.what,
        "partition 0 of topic 0 was assigned to client python, while member 0 owned it since \
         epoch 1 and its lease had not run out"
    );
    let events: Vec<_> = violation.events.iter().map(|event| &event["event"]).collect();
    assert_eq!(events, ["assigned", "client-assigned", "alive"]);
}

#[test]
fn nor_is_one_of_a_client_to_a_member() {
    let found = check(&story("2000 m9 client-assigned : 1\n20000 m0 assigned 1 : 1"));
    assert_eq!(
        found.violations[0].what,
        "partition 1 of topic 0 was assigned to member 0 in epoch 1, while client python owned it \
         since 2.000 s and its lease had not run out"
    );
}

#[test]
fn a_client_that_takes_over_is_no_second_owner() {
    let cases = [
        "1500 m0 revoked : 0\n2000 m9 client-assigned : 0",
        // A line is read late, and a client learns late that it has lost a partition.
        "2000 m9 client-assigned : 1\n19000 m0 assigned 1 : 1\n25000 m9 client-revoked : 1",
        "2000 m9 client-assigned : 1\n19000 m0 assigned 1 : 1\n25000 m9 client-lost : 1",
        "2000 m9 client-assigned : 1\n19000 m0 assigned 1 : 1\n25000 m9 client-ended",
        // The client printed nothing for a session timeout.
        "2000 m9 client-assigned : 1\n46000 m0 assigned 1 : 1",
        // The coordinator moved, which the client may not know.
        "2000 m9 client-assigned : 1\n9000 m0 refused 12 16\n10000 m0 assigned 1 : 1",
        "2000 m9 client-assigned : 1\n9000 restarted\n10000 m0 assigned 1 : 1",
    ];
    for case in cases {
        assert_eq!(broken(&story(case)), Vec::<String>::new(), "{case}");
    }
    // The client's last line is long after its assignment, which shows that it polls.
    let alive = "2000 m9 client-assigned : 1\n40000 m9 client-alive\n50000 m0 assigned 1 : 1";
    assert_eq!(broken(&story(alive)), ["two-owners"]);
}
