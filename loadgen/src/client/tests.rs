//! Tests of the lines of clients, and of the ends of processes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::line::{Said, understood};
use super::*;
use crate::topics::Topic;

const TOO_LONG: Duration = Duration::from_secs(30);

fn said(line: &str) -> Option<Said> {
    match understood(line)? {
        What::Said(said) => Some(said),
        What::Slip(_) | What::Ended(_) => None,
    }
}

fn named(partitions: &[(&str, u32)]) -> Vec<Named> {
    partitions.iter().map(|(topic, number)| ((*topic).to_owned(), *number)).collect()
}

#[test]
fn lines_of_both_forms_are_understood() {
    let two = named(&[("a-b", 0), ("a-b", 7)]);
    let lines = [
        (r#"{"event":"assigned","partitions":[["a-b",0],["a-b",7]]}"#, Said::Assigned(two.clone())),
        (r#"{"partitions":[],"event":"revoked","more":1}"#, Said::Revoked(vec![])),
        (r#"{"event":"lost","partitions":[["a-b",0],["a-b",7]]}"#, Said::Lost(two.clone())),
        (r#"{"event":"alive"}"#, Said::Alive),
        (
            "% Group g 1 rebalanced (memberid rdkafka-1f): assigned: a-b [0], a-b [7]",
            Said::Assigned(two.clone()),
        ),
        ("% Group g rebalanced (memberid m): revoked: a-b [0], a-b [7]", Said::Revoked(two)),
        ("% Group g rebalanced (memberid m): assigned: ", Said::Assigned(vec![])),
    ];
    for (line, expected) in lines {
        assert_eq!(said(line), Some(expected), "{line}");
    }
}

#[test]
fn other_lines_are_ignored_and_slips_are_reported() {
    for line in ["", "{", "hello", "17", r#"{"event":"polled"}"#, r#"{"level":"info"}"#, "% x"] {
        assert!(understood(line).is_none(), "{line}");
    }
    for line in [r#"{"event":"assigned","partitions":[0]}"#, r#"{"event":"lost"}"#] {
        assert!(matches!(understood(line), Some(What::Slip(_))), "{line}");
    }
}

/// Runs a script as a client until it has ended. Unless `stop` is `None`, a signal ends the client
/// after its first line: SIGKILL for `Some(true)`, SIGTERM for `Some(false)`.
fn events_of(script: &str, stop: Option<bool>) -> (Vec<EventKind>, Vec<String>) {
    let began = Instant::now();
    let mut topics = Topics::default();
    topics.learn(Topic {
        name: "t".to_owned().into(),
        id: muster_codec::Uuid::ZERO,
        partitions: 3,
    });
    let mut clients = Clients::new("b:1".into());
    let command = ["sh", "-c", script].map(str::to_owned).to_vec();
    let (index, group) = (MemberIndex(5), GroupIndex(0));
    let plan = Arc::new(ClientPlan { index, group, name: "c".into(), command });
    clients.order(ClientOrder::Start(plan));
    let (mut kinds, mut notes) = (Vec::new(), Vec::new());
    while !matches!(kinds.last(), Some(EventKind::ClientEnded { .. })) {
        assert!(began.elapsed() < TOO_LONG, "{kinds:?}");
        let now = Time::ZERO + began.elapsed();
        let news = clients.news(now, &topics);
        if let Some(kill) = stop.filter(|_| kinds.len() < 2 && kinds.len() + news.events.len() > 1)
        {
            clients.order(ClientOrder::Stop { client: index, kill });
        }
        kinds.extend(news.events.into_iter().map(|event| event.kind));
        notes.extend(news.notes);
        std::thread::yield_now();
    }
    assert!(!clients.are_running());
    (kinds, notes)
}

fn ended(how: &str) -> EventKind {
    EventKind::ClientEnded { how: how.into() }
}

#[test]
fn a_client_that_ends_by_itself_is_reported_with_its_last_line() {
    let script = r#"
        echo '{"event":"assigned","partitions":[["t",2],["other",0]]}'
        echo "{bootstrap} is not there" >&2
        exit 3"#;
    let (kinds, notes) = events_of(script, None);
    let partitions = Arc::from([Partition { topic: crate::plan::TopicIndex(0), number: 2 }]);
    let expected = [
        EventKind::ClientStarted { name: "c".into() },
        EventKind::ClientAssigned { partitions },
        ended("exit status 3: b:1 is not there"),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(notes, ["client c: the run has no topic \"other\""]);
}

#[test]
fn a_client_is_asked_to_end_and_its_last_lines_count() {
    let script = r#"
        trap 'echo "{\"event\":\"revoked\",\"partitions\":[]}"; exit 0' TERM
        echo '{"event":"alive"}'
        while read line; do :; done"#;
    let (kinds, _) = events_of(script, Some(false));
    let revoked = EventKind::ClientRevoked { partitions: Arc::from([]) };
    assert_eq!(kinds[1..], [EventKind::ClientAlive, revoked, ended("exit status 0")]);
}

#[test]
fn a_client_is_killed_with_all_that_it_started() {
    let script = r#"
        trap '' TERM
        tail -f /dev/null &
        echo '{"event":"alive"}'
        wait"#;
    let (kinds, _) = events_of(script, Some(true));
    assert_eq!(kinds[1..], [EventKind::ClientAlive, ended("signal 9")]);
}

#[test]
fn a_long_line_is_skipped_to_its_end() {
    let script = r#"head -c 3000000 /dev/zero; echo; echo '{"event":"alive"}'"#;
    let (kinds, notes) = events_of(script, None);
    assert_eq!(kinds[1..], [EventKind::ClientAlive, ended("exit status 0")]);
    assert_eq!(notes, ["client c: a line is longer than 1048576 bytes"]);
}

#[test]
fn a_program_that_is_not_there_ends_at_once() {
    let plan = ClientPlan {
        index: MemberIndex(1),
        group: GroupIndex(0),
        name: "c".into(),
        command: vec!["/none".into()],
    };
    let mut clients = Clients::new(String::new());
    clients.order(ClientOrder::Start(Arc::new(plan)));
    let news = clients.news(Time::ZERO, &Topics::default());
    let Some(EventKind::ClientEnded { how }) = news.events.last().map(|event| &event.kind) else {
        panic!("{:?}", news.events);
    };
    assert!(how.starts_with("it could not be started: "), "{how}");
}
