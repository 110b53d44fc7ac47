//! A request that names millions of partitions must take little more memory than itself and its
//! answer.
#![allow(clippy::unwrap_used)]

mod common;

use common::Around;
use muster_codec::ErrorCode;
use muster_codec::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnTopic};
use muster_transactions::{Caller, Config, Coordinator, RequestId, Response};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

const PARTITIONS: i32 = 3_000_000;
/// A result takes 8 bytes for each partition.
const BYTES_MAX: usize = 8 * PARTITIONS as usize + (1 << 20);

#[test]
fn millions_of_partitions_are_refused_before_they_are_sorted() {
    let mut coordinator = Coordinator::new(Config::default(), 0);
    let mut around = Around::new(1);
    let topic = AddPartitionsToTxnTopic {
        name: "t".into(),
        partitions: (0..PARTITIONS).map(|number| number % 7).collect(),
    };
    let request = AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: "t".into(),
        v3_and_below_topics: vec![topic],
        ..Default::default()
    };
    let id = RequestId { connection: 1, sequence: 1 };
    let caller = Caller { request: id, api_version: 3, client_host: "/1.2.3.4" };
    ALLOCATED.reset_peak_usage();
    let before = ALLOCATED.current_usage();
    let output =
        around.call(&mut coordinator, |it, context| it.handle(context, caller, request.into()));
    let bytes = ALLOCATED.peak_usage() - before;
    let Response::AddPartitionsToTxn(response) = &output.answers[0].response else { panic!() };
    let results = &response.results_by_topic_v3_and_below[0].results_by_partition;
    let error = ErrorCode::UnknownServerError as i16;
    assert!(results.iter().all(|it| it.partition_error_code == error));
    assert_eq!(results.len(), PARTITIONS as usize);
    assert!(bytes < BYTES_MAX, "{bytes} bytes");
}
