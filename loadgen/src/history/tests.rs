//! Histories are read back as written. Histories by other programs are read, or refused with a line
//! number.

use std::collections::BTreeSet;
use std::io::{BufReader, Cursor, Read};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::event::{
    Acknowledge, AcknowledgedBatch, AcquiredBatch, ConsumedBatch, Event, EventKind, Returned, Stop,
    Written,
};
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
    let named = |event: &Event| serde_json::to_value(event).unwrap()["event"].to_string();
    let kinds: BTreeSet<_> = every_kind().iter().map(named).collect();
    assert_eq!(kinds, known_kinds());
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

/// The names of all kinds of events, each in quotation marks. Serde lists them in its error for an
/// unknown kind.
fn known_kinds() -> BTreeSet<String> {
    let unknown = r#"{"at":1,"group":0,"member":0,"event":"exploded"}"#;
    let error = last_error(&format!("{RUN}\n{unknown}\n"));
    let known = error.split_once("expected one of ").unwrap().1;
    let names = known.split('`').skip(1).step_by(2);
    names.map(|name| format!("{name:?}")).collect()
}

/// At least one event of each kind.
fn every_kind() -> Vec<Event> {
    let event = |kind| Event { at: Time::ZERO, group: GroupIndex(0), member: MemberIndex(0), kind };
    kinds_of_members()
        .into_iter()
        .chain(kinds_of_records())
        .chain(other_kinds())
        .map(event)
        .collect()
}

const MAX: Time = Time::from_micros(u64::MAX);
const PARTITION: Partition = Partition { topic: TopicIndex(u32::MAX), number: 0 };

fn partitions() -> Arc<[Partition]> {
    Arc::from([PARTITION, Partition { number: u32::MAX, ..PARTITION }])
}

fn offsets() -> Arc<[(Partition, i64)]> {
    let at = |number, offset| (Partition { number, ..PARTITION }, offset);
    Arc::from([at(1, i64::MIN), at(2, i64::MAX), at(3, -1)])
}

fn kinds_of_members() -> Vec<EventKind> {
    let (sent, epoch) = (MAX, i32::MIN);
    vec![
        EventKind::Started,
        EventKind::Joining,
        EventKind::Joined { member_id: "m".into(), epoch },
        EventKind::Epoch { epoch },
        EventKind::Alive { sent, epoch },
        EventKind::Reached,
        EventKind::Assigned { epoch, partitions: partitions() },
        EventKind::MustRebalance { sent },
        EventKind::Revoked { partitions: Arc::from([]) },
        EventKind::Lost { partitions: partitions() },
        EventKind::InProcess { process: u32::MAX },
        EventKind::Standbys { epoch, partitions: partitions() },
        EventKind::Statuses { codes: Arc::from([0, i8::MAX]) },
        EventKind::Settled { epoch },
        EventKind::Fenced { error: -1 },
        EventKind::Stopped { how: Stop::Leave },
        EventKind::Stopped { how: Stop::Close },
        EventKind::Stopped { how: Stop::Shutdown },
        EventKind::Stopped { how: Stop::Crash },
        EventKind::Failed { reason: "r".into() },
        EventKind::CommitSent { id: u32::MAX, epoch, offsets: offsets() },
        EventKind::CommitAnswered { id: 0, refused: Arc::from([(PARTITION, i16::MIN)]) },
        EventKind::CommitUnknown { id: 1 },
    ]
}

fn kinds_of_records() -> Vec<EventKind> {
    let (first, last) = (i64::MIN, i64::MAX);
    let (sent, arrived, session) = (MAX, MAX, 1);
    let written = Written { partition: PARTITION, offset: -1, records: 2 };
    let producer = MemberIndex(1);
    let returned =
        Returned { partition: PARTITION, offset: 7, producer, number: 3, first: 0, count: 2 };
    let consumed = ConsumedBatch { partition: PARTITION, first, last, due: None };
    let acquired = AcquiredBatch { partition: PARTITION, first, last, deliveries: 2 };
    let how = Acknowledge::Release;
    let acknowledged = AcknowledgedBatch { partition: PARTITION, first, last, how };
    let (number, committed, isolation) = (3, true, Isolation::ReadUncommitted);
    vec![
        EventKind::TransactionEnding { number, committed, batches: Arc::from([written]) },
        EventKind::TransactionEnded { number, committed },
        EventKind::ReadingFrom { isolation, positions: offsets() },
        EventKind::Read { arrived, records: Arc::from([returned]), positions: offsets() },
        EventKind::Consumed { arrived, batches: Arc::from([consumed]) },
        EventKind::Acquired {
            session,
            sent,
            arrived,
            lock_ms: u32::MAX,
            batches: Arc::from([acquired]),
        },
        EventKind::SessionAnswered { session, sent },
        EventKind::SessionEnded { session, closed: false },
        EventKind::LeaderLost { partitions: partitions() },
        EventKind::AcknowledgeSent { id: 1, session, batches: Arc::from([acknowledged]) },
        EventKind::Acknowledged { id: 1, refused: Arc::from([(PARTITION, i16::MIN)]) },
        EventKind::AcknowledgeUnknown { id: 2 },
        EventKind::StartOffsets { sent, offsets: offsets() },
        EventKind::Fetched { sent, offsets: offsets() },
    ]
}

fn other_kinds() -> Vec<EventKind> {
    vec![
        EventKind::Refused { api: 9, error: 16 },
        EventKind::Disconnected,
        EventKind::GroupDeleted { sent: MAX },
        EventKind::PartitionsGrew { partitions: 7 },
        EventKind::RepeatDiffered { api: 1, first: "a".into(), second: "b".into() },
        EventKind::ClientStarted { name: "c".into() },
        EventKind::ClientAssigned { partitions: partitions() },
        EventKind::ClientRevoked { partitions: partitions() },
        EventKind::ClientLost { partitions: Arc::from([]) },
        EventKind::ClientAlive,
        EventKind::ClientEnded { how: "exit status 0".into() },
    ]
}
