//! 1,000,000 idle transactional ids must take less than 400 MB.
#![allow(clippy::unwrap_used)]

mod common;

use common::Around;
use common::snapshot::Snapshot;
use muster_codec::messages::InitProducerIdRequest;
use muster_codec::records::{TransactionLogKey, TransactionLogValue, TransactionRecord};
use muster_transactions::{Caller, Config, Coordinator, RequestId};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

const IDS: i64 = 1_000_000;
const BYTES_MAX: usize = 400_000_000;
const UNLOADED_BYTES_MAX: usize = 2_000_000;

/// A name like those of Kafka Streams.
fn id(number: i64) -> String {
    let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) as u64;
    format!("payments-{scattered:016x}-6b3a-4d1e-9c55-0a8f6f4b8b3d-{}", number % 8)
}

fn record(number: i64) -> TransactionRecord<'static> {
    let value = TransactionLogValue {
        producer_id: number,
        producer_epoch: 7,
        transaction_timeout_ms: 60_000,
        transaction_status: 5,
        transaction_partitions: Some(Vec::new()),
        transaction_last_update_timestamp_ms: 1,
        transaction_start_timestamp_ms: 1,
        previous_producer_id: number,
        client_transaction_version: 2,
        ..Default::default()
    };
    let key = TransactionLogKey { transactional_id: id(number).into() };
    TransactionRecord { key, value: Some(value) }
}

#[test]
fn a_million_idle_ids_take_less_than_400_mb() {
    let before = ALLOCATED.current_usage();
    let mut coordinator = Coordinator::new(Config::default(), 0);
    for number in 0..IDS {
        coordinator.replay(&record(number), number as u64);
    }
    let bytes = ALLOCATED.current_usage() - before;
    println!("{IDS} ids of {} bytes take {bytes} bytes", id(1).len());
    assert_eq!(coordinator.held().ids, IDS as usize);
    assert!(bytes < BYTES_MAX, "{bytes} bytes");
    unloaded_ids_take_little(&coordinator);
    a_new_id_is_refused(&mut coordinator);
}

fn unloaded_ids_take_little(coordinator: &Coordinator) {
    let snapshot = Snapshot::of(coordinator, IDS as u64);
    let (file, mut opened) = (snapshot.bytes.len(), Coordinator::new(Config::default(), 1));
    let before = ALLOCATED.current_usage();
    snapshot.open(&mut opened);
    let bytes = ALLOCATED.current_usage() - before - file;
    println!("{} unloaded ids take {bytes} bytes, and {file} of a file", opened.unloaded_ids());
    assert_eq!((opened.unloaded_ids(), opened.held()), (IDS as usize, coordinator.held()));
    assert!(bytes < UNLOADED_BYTES_MAX, "{bytes} bytes");
}

/// Beyond the limit, existing ids must still be served.
fn a_new_id_is_refused(coordinator: &mut Coordinator) {
    let mut around = Around::new(1);
    for (transactional_id, records) in [("another".to_owned(), 0), (id(0), 1)] {
        let request = InitProducerIdRequest {
            transactional_id: Some(transactional_id.into()),
            transaction_timeout_ms: 60_000,
            ..Default::default()
        };
        let request_id = RequestId { connection: 1, sequence: 1 };
        let caller = Caller { request: request_id, api_version: 4, client_host: "/1.2.3.4" };
        let output =
            around.call(coordinator, |it, context| it.handle(context, caller, request.into()));
        assert_eq!(output.records.len(), records);
    }
}
