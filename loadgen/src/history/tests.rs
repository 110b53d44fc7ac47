//! Histories are read back as written. Histories by other programs are read, or refused with a line
//! number.

use std::io::{BufReader, Cursor, Read};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::event::{Event, EventKind, Returned, Stop, Written};
use crate::plan::{GroupIndex, Isolation, MemberIndex, Partition, TopicIndex};
use crate::time::Time;

const RUN: &str = r#"{"line":"run","format":1,"tool":"t","scenario":"s","seed":7}"#;

fn read(text: &str) -> Vec<Result<Line, String>> {
    Reader::new(Cursor::new(text)).map(|line| line.map_err(|error| error.to_string())).collect()
}

fn last_error(text: &str) -> String {
    read(text).pop().unwrap().unwrap_err()
}

#[test]
fn the_example_of_the_documentation_is_a_history() {
    let text = include_str!("../../HISTORY.md");
    let example = text.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let lines: Vec<_> = read(example).into_iter().map(Result::unwrap).collect();
    assert_eq!(lines.len(), 10);
    for (line, text) in lines.iter().zip(example.lines()) {
        assert_eq!(serde_json::to_string(line).unwrap(), text);
    }
}

#[test]
fn every_kind_of_event_is_documented() {
    let text = include_str!("../../HISTORY.md");
    for event in every_kind() {
        let json = serde_json::to_value(&event).unwrap();
        let fields = json.as_object().unwrap();
        let name = fields["event"].as_str().unwrap();
        let row = text.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("{name} is missing"));
        for field in fields.keys().filter(|f| !["at", "group", "member", "event"].contains(&&***f))
        {
            assert!(row.contains(&format!("`{field}`")), "{field} of {name} is missing");
        }
    }
}

#[test]
fn text_that_is_no_history_is_refused_with_a_reason() {
    assert_eq!(last_error(""), "the history is empty");
    assert!(last_error("{}\n").starts_with("line 1 of the history: missing field"));
    let phase = "{\"line\":\"phase\",\"at\":1,\"name\":\"x\"}\n";
    assert!(last_error(phase).starts_with("not a history of muster-load"));
    let newer = RUN.replace("\"format\":1", "\"format\":2");
    assert_eq!(
        last_error(&format!("{newer}\n")),
        "the history has format 2, this program reads format 1"
    );
    assert!(
        last_error(&format!("{RUN}\nnonsense\n")).starts_with("line 2 of the history: expected")
    );
    let unknown = r#"{"at":1,"group":0,"member":0,"event":"exploded"}"#;
    assert!(last_error(&format!("{RUN}\n\n{unknown}\n")).starts_with("line 2 of the history"));
    let error = last_error(&format!("{RUN}\n{unknown}\n"));
    assert!(error.contains("unknown variant `exploded`"), "{error}");
    let negative = r#"{"at":-1,"group":0,"member":0,"event":"started"}"#;
    assert!(last_error(&format!("{RUN}\n{negative}\n")).starts_with("line 2 of the history"));
}

#[test]
fn after_an_error_nothing_more_is_read() {
    let lines = read(&format!("{RUN}\nnonsense\n{RUN}\n"));
    assert_eq!(lines.len(), 2);
}

#[test]
fn a_last_line_that_is_cut_off_has_an_error_of_its_own() {
    let cut = format!("{RUN}\n{{\"at\":1,\"gro");
    let error = Reader::new(Cursor::new(cut)).last().unwrap().unwrap_err();
    assert!(matches!(error, HistoryError::CutOff { number: 2 }));
}

#[test]
fn a_line_without_end_is_not_read_into_memory() {
    let endless = BufReader::new(Cursor::new(format!("{RUN}\n")).chain(std::io::repeat(b'x')));
    let error = Reader::new(endless).last().unwrap().unwrap_err();
    assert!(matches!(error, HistoryError::TooLong { number: 2 }));
}

#[test]
fn a_file_that_cannot_be_created_or_opened_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing/history.jsonl");
    let error = Writer::create(&path).err().unwrap().to_string();
    assert!(error.starts_with("can't create the history ") && error.contains("missing"), "{error}");
    let error = Reader::open(&path).err().unwrap().to_string();
    assert!(error.starts_with("can't open the history "), "{error}");
}

#[test]
fn a_full_disk_is_an_error() {
    let mut writer = Writer::create(Path::new("/dev/full")).unwrap();
    let event = &every_kind()[0];
    let error = (0..100_000).find_map(|_| writer.event(event).err()).unwrap().to_string();
    assert!(error.starts_with("can't write the history /dev/full: "), "{error}");
}

proptest! {
    #[test]
    fn a_written_history_is_read_back(events in prop::collection::vec(event(), 0..20)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        let headers = headers();
        let mut writer = Writer::create(&path).unwrap();
        headers.iter().for_each(|header| writer.header(header).unwrap());
        events.iter().for_each(|event| writer.event(event).unwrap());
        writer.finish().unwrap();
        let lines: Vec<_> = Reader::open(&path).unwrap().map(Result::unwrap).collect();
        let written = headers.into_iter().map(Line::Header);
        let written: Vec<_> = written.chain(events.into_iter().map(Line::Event)).collect();
        prop_assert_eq!(lines, written);
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
        let _ = Reader::new(Cursor::new([RUN.as_bytes(), b"\n", &bytes].concat())).count();
        let _ = Reader::new(Cursor::new(bytes)).count();
    }
}

fn headers() -> Vec<Header> {
    let run = Run { format: FORMAT, tool: "t".into(), scenario: "s".into(), seed: u64::MAX };
    let group = Group {
        index: GroupIndex(3),
        id: "group \"\u{1F980}\"\n".into(),
        protocol: Kind::Classic,
        session_timeout: Duration::from_millis(45_000),
        rebalance_timeout: Duration::from_millis(300_000),
        partitions: 12,
        clock_error: Duration::from_micros(1_250),
        delivery_limit: 0,
    };
    vec![
        Header::Run(run),
        Header::Topic(Topic { index: TopicIndex(1), name: "t".into(), partitions: 3 }),
        Header::Group(group),
        Header::Phase { at: Time::from_micros(4), name: "p".into() },
        Header::CoordinatorRestarted { at: Time::from_micros(5) },
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let kinds = prop::sample::select(every_kind());
    (any::<u64>(), any::<u32>(), any::<u32>(), kinds, any::<String>()).prop_map(
        |(at, group, member, event, text)| {
            let kind = match event.kind {
                EventKind::Failed { .. } => EventKind::Failed { reason: text.into() },
                EventKind::Joined { epoch, .. } => {
                    EventKind::Joined { member_id: text.into(), epoch }
                }
                other => other,
            };
            let (group, member) = (GroupIndex(group), MemberIndex(member));
            Event { at: Time::from_micros(at), group, member, kind }
        },
    )
}

/// One event of each kind. A new kind has to be added here, and to HISTORY.md.
fn every_kind() -> Vec<Event> {
    let sent = Time::from_micros(u64::MAX);
    let epoch = i32::MIN;
    let partition = |number| Partition { topic: TopicIndex(u32::MAX), number };
    let partitions: Arc<[Partition]> = Arc::from([partition(0), partition(u32::MAX)]);
    let offsets: Arc<[(Partition, i64)]> =
        Arc::from([(partition(1), i64::MIN), (partition(2), i64::MAX), (partition(3), -1)]);
    let kinds = [
        EventKind::Started,
        EventKind::Joining,
        EventKind::Joined { member_id: "m".into(), epoch },
        EventKind::Epoch { epoch },
        EventKind::Alive { sent, epoch },
        EventKind::Assigned { epoch, partitions: partitions.clone() },
        EventKind::MustRebalance { sent },
        EventKind::Revoked { partitions: Arc::from([]) },
        EventKind::Lost { partitions },
        EventKind::Settled { epoch },
        EventKind::Fenced { error: -1 },
        EventKind::Stopped { how: Stop::Leave },
        EventKind::Stopped { how: Stop::Close },
        EventKind::Stopped { how: Stop::Crash },
        EventKind::Failed { reason: "r".into() },
        EventKind::CommitSent { id: u32::MAX, epoch, offsets: offsets.clone() },
        EventKind::CommitAnswered { id: 0, refused: Arc::from([(partition(0), i16::MIN)]) },
        EventKind::CommitUnknown { id: 1 },
        EventKind::TransactionEnding {
            number: 3,
            committed: true,
            batches: Arc::from([Written { partition: partition(0), offset: -1, records: 2 }]),
        },
        EventKind::TransactionEnded { number: 3, committed: true },
        EventKind::ReadingFrom {
            isolation: Isolation::ReadUncommitted,
            positions: offsets.clone(),
        },
        EventKind::Read {
            arrived: sent,
            records: Arc::from([Returned {
                partition: partition(0),
                offset: 7,
                producer: MemberIndex(1),
                number: 3,
                first: 0,
                count: 2,
            }]),
            positions: offsets.clone(),
        },
        EventKind::Fetched { sent, offsets },
        EventKind::Refused { api: 9, error: 16 },
        EventKind::Disconnected,
        EventKind::Reached,
        EventKind::GroupDeleted { sent },
        EventKind::PartitionsGrew { partitions: 7 },
        EventKind::RepeatDiffered { api: 1, first: "a".into(), second: "b".into() },
        EventKind::ClientStarted { name: "c".into() },
        EventKind::ClientAssigned { partitions: Arc::from([partition(4)]) },
        EventKind::ClientRevoked { partitions: Arc::from([partition(4)]) },
        EventKind::ClientLost { partitions: Arc::from([]) },
        EventKind::ClientAlive,
        EventKind::ClientEnded { how: "exit status 0".into() },
    ];
    let event = |kind| Event { at: Time::ZERO, group: GroupIndex(0), member: MemberIndex(0), kind };
    kinds.into_iter().map(event).collect()
}
