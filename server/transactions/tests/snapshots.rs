//! The ids of a snapshot must be those of the coordinator that wrote it. They are loaded when they
//! are needed.
#![allow(clippy::unwrap_used)]

mod common;

use common::Around;
use common::snapshot::Snapshot;
use muster_codec::messages::{
    DescribeTransactionsRequest, InitProducerIdRequest, ListTransactionsRequest,
};
use muster_codec::records::{
    TransactionLogKey, TransactionLogValue, TransactionPartitions, TransactionRecord,
};
use muster_transactions::message::{FromSlot, Known, OpenIn, Producer, Report, ToSlotBody};
use muster_transactions::{
    Caller, Config, Coordinator, Output, Reason, Request, RequestId, Response, State,
};

const IDS: i64 = 1_000;
const POSITION: u64 = 7;

fn id(number: i64) -> String {
    format!("id-{number:05}")
}

fn state(number: i64) -> State {
    State::ALL[(number % 30 % 6) as usize]
}

/// The record of an id. Of each 30 ids, six have one of the six states each, and the other 24 are
/// in CompleteCommit. One id in a hundred was last updated long ago.
fn record(number: i64) -> TransactionRecord<'static> {
    let state = if number % 30 < 6 { state(number) } else { State::CompleteCommit };
    let topic = TransactionPartitions { topic: "t".into(), partition_ids: vec![number as i32] };
    let is_open = matches!(state, State::Ongoing | State::PrepareCommit | State::PrepareAbort);
    let value = TransactionLogValue {
        producer_id: 5_000 + number,
        producer_epoch: (number % 9) as i16,
        transaction_timeout_ms: 60_000,
        transaction_status: state as i8,
        transaction_partitions: (state != State::Empty)
            .then(|| if is_open { vec![topic] } else { Vec::new() }),
        transaction_last_update_timestamp_ms: if number % 100 == 7 { 0 } else { 1_000_000_000_000 },
        transaction_start_timestamp_ms: if state == State::Empty { -1 } else { 11 },
        previous_producer_id: 5_000 + number,
        client_transaction_version: 2,
        ..Default::default()
    };
    let key = TransactionLogKey { transactional_id: id(number).into() };
    TransactionRecord { key, value: Some(value) }
}

fn original() -> Coordinator {
    let mut coordinator = Coordinator::new(Config::default(), 0);
    (0..IDS).for_each(|number| coordinator.replay(&record(number), POSITION));
    coordinator
}

fn opened(snapshot: &Snapshot) -> Coordinator {
    let mut coordinator = Coordinator::new(Config::default(), 1);
    snapshot.open(&mut coordinator);
    coordinator
}

/// The restored coordinator, and its environment.
fn restored() -> (Coordinator, Around) {
    let mut around = Around::new(1);
    around.position = POSITION;
    (opened(&Snapshot::of(&original(), POSITION)), around)
}

fn request(
    coordinator: &mut Coordinator,
    around: &mut Around,
    request: impl Into<Request<'static>>,
) -> Output {
    let id = RequestId { connection: 1, sequence: 1 };
    let caller = Caller { request: id, api_version: 4, client_host: "/1.2.3.4" };
    around.call(coordinator, |it, context| it.handle(context, caller, request.into()))
}

fn at_rest() -> usize {
    let is_at_rest = |number: &i64| !(number % 30 < 4 && number % 30 > 0);
    (0..IDS).filter(is_at_rest).count()
}

#[test]
fn ids_are_those_that_were_written_and_open_ones_are_loaded() {
    let original = original();
    let restored = opened(&Snapshot::of(&original, POSITION));
    assert_eq!(restored.durable_records(), original.durable_records());
    assert_eq!((restored.held(), restored.unloaded_ids()), (original.held(), at_rest()));
    assert_eq!(restored.written_at(), POSITION);
    let again = opened(&Snapshot::of(&restored, POSITION));
    assert_eq!(again.durable_records(), original.durable_records());
    let empty = opened(&Snapshot::of(&Coordinator::new(Config::default(), 0), POSITION));
    assert_eq!(empty.durable_records(), Vec::new());
}

#[test]
fn a_request_loads_an_id_and_a_record_replaces_it() {
    let (mut coordinator, mut around) = restored();
    let (held, unloaded) = (coordinator.held(), coordinator.unloaded_ids());
    let init = |number| InitProducerIdRequest {
        transactional_id: Some(id(number).into()),
        transaction_timeout_ms: 60_000,
        ..Default::default()
    };
    let output = request(&mut coordinator, &mut around, init(990));
    let Response::InitProducerId(it) = &output.answers[0].response else { panic!("{output:?}") };
    assert_eq!((it.error_code, it.producer_id, it.producer_epoch), (0, 5_990, 1));
    assert_eq!((coordinator.held(), coordinator.unloaded_ids()), (held, unloaded - 1));
    let mut changed = record(10);
    changed.value.as_mut().unwrap().producer_epoch = 77;
    coordinator.replay(&changed, POSITION + 1);
    assert_eq!((coordinator.held(), coordinator.unloaded_ids()), (held, unloaded - 2));
    assert_eq!(coordinator.durable_records()[10], changed);
    let deleted = TransactionRecord { value: None, ..record(11) };
    coordinator.replay(&deleted, POSITION + 2);
    let describe = DescribeTransactionsRequest {
        transactional_ids: vec![id(10).into(), id(11).into(), id(12).into()],
    };
    let output = request(&mut coordinator, &mut around, describe);
    let answer = &output.answers[0];
    let Response::DescribeTransactions(it) = &answer.response else { panic!("{output:?}") };
    let found: Vec<_> =
        it.transaction_states.iter().map(|it| (it.error_code, it.producer_epoch)).collect();
    assert_eq!((found, answer.visible_at), (vec![(0, 77), (105, 0), (0, 3)], POSITION + 2));
    let (ids, id_bytes) = (held.ids - 1, held.id_bytes - id(11).len());
    assert_eq!(coordinator.held(), muster_transactions::Held { ids, id_bytes });
}

#[test]
fn lists_and_expiry_visit_unloaded_ids_and_load_none() {
    let (mut coordinator, mut around) = restored();
    let unloaded = coordinator.unloaded_ids();
    let list = ListTransactionsRequest { duration_filter: -1, ..Default::default() };
    let output = request(&mut coordinator, &mut around, list);
    let Response::ListTransactions(it) = &output.answers[0].response else { panic!("{output:?}") };
    let ids: Vec<_> = it.transaction_states.iter().map(|it| it.transactional_id.clone()).collect();
    assert!(ids.iter().map(|it| it.to_string()).eq((0..IDS).map(id)));
    around.wall = 1_000_000_000_000;
    let _loaded = around.call(&mut coordinator, Coordinator::loaded);
    let expired = expired(&mut coordinator, &mut around);
    assert!(expired.iter().cloned().eq((0..IDS).filter(|it| it % 100 == 7).map(id)), "{expired:?}");
    assert_eq!(coordinator.unloaded_ids(), unloaded - expired.len());
    assert_eq!(coordinator.held().ids, IDS as usize - expired.len());
}

/// The ids that the first sweep removes.
fn expired(coordinator: &mut Coordinator, around: &mut Around) -> Vec<String> {
    let mut expired = Vec::new();
    while expired.is_empty() {
        let (at, reason) = coordinator.next_timer().unwrap();
        around.now = at;
        let output = around.call(coordinator, Coordinator::expire);
        if reason == Reason::Expiry {
            expired.extend(output.records.iter().map(|it| it.key.transactional_id.to_string()));
            output.records.iter().for_each(|record| coordinator.replay(record, POSITION + 1));
        }
    }
    expired
}

#[test]
fn a_report_loads_the_ids_of_its_producers() {
    let (mut coordinator, mut around) = restored();
    let unloaded = coordinator.unloaded_ids();
    let producer = Producer { id: 5_000 + 40, epoch: 3 };
    let open = [OpenIn { producer, topic: "t".into(), partition: 1 }].into();
    let report = Report {
        slot: 0,
        session: 1,
        coordinator_epoch: 1,
        number: 0,
        may_have_lost_writes: false,
        is_whole: true,
        open,
    };
    let output =
        around.call(&mut coordinator, |it, context| it.receive(context, FromSlot::Report(report)));
    let reported = output.messages.iter().find_map(|it| match &it.body {
        ToSlotBody::Reported(reported) => Some(reported.known.clone()),
        _ => None,
    });
    let outcome = muster_codec::record_batch::TransactionOutcome::Commit;
    let marker = Producer { epoch: 4, ..producer };
    let decided = Known::Decided { producer: marker, outcome, version: 2 };
    assert_eq!(reported, Some(vec![(producer, decided)]));
    assert_eq!(coordinator.unloaded_ids(), unloaded - 1);
}

/// A snapshot with one changed byte must be refused when it is opened. Otherwise the damage must be
/// found before the affected ids are used.
#[test]
fn no_changed_byte_is_taken_for_state() {
    let original = original();
    let mut snapshot = Snapshot::of(&original, POSITION);
    let (from, end) = (snapshot.part.at as usize, snapshot.bytes.len());
    assert_eq!(end as u64, snapshot.part.at + snapshot.part.len);
    let (mut refused, mut found) = (0, 0);
    for at in (from..end).filter(|at| at % 61 == 0 || *at > end - 100) {
        snapshot.bytes[at] ^= 1 << (at % 8);
        let mut coordinator = Coordinator::new(Config::default(), 1);
        let opened = snapshot.try_open(&mut coordinator);
        snapshot.bytes[at] ^= 1 << (at % 8);
        if opened.is_err() {
            refused += 1;
            continue;
        }
        let records = coordinator.durable_records();
        assert!(coordinator.damage().is_some(), "byte {at}: {} ids", records.len());
        found += 1;
        let mut walk = muster_transactions::IdsWalk::new(0);
        let written = (0..100).map(|_| coordinator.write_snapshot(&mut walk, 1_000, &mut vec![]));
        assert!(written.into_iter().any(|it| it.is_err()));
    }
    assert!(refused > 100 && found > 500, "{refused}, {found}");
}

#[test]
fn an_index_that_is_cut_off_is_refused() {
    let mut cut = Snapshot::of(&original(), POSITION);
    let len = cut.part.len;
    for less in [1, 24, 25, 500, len] {
        cut.part.len = len - less;
        assert!(cut.try_open(&mut Coordinator::new(Config::default(), 1)).is_err());
    }
}
