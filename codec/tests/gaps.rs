//! Tests of answers with gaps, into which the sender inserts records from files.

#![allow(clippy::unwrap_used)]

use muster_codec::header::write_response;
use muster_codec::messages::*;
use muster_codec::{ApiKey, Records, Response};

fn response(records: impl Fn(usize) -> Option<Records<'static>>) -> Response<'static> {
    let partition = |at: usize| PartitionData {
        partition_index: at as i32,
        records: records(at),
        ..Default::default()
    };
    let topic = |name: &'static str, from: usize| FetchableTopicResponse {
        topic: name.into(),
        partitions: (from..from + 3).map(partition).collect(),
        ..Default::default()
    };
    let responses = vec![topic("a", 0), topic("b", 3)];
    FetchResponse { responses, ..Default::default() }.into()
}

#[test]
fn an_answer_with_its_gaps_filled_is_the_answer_with_the_records_in_it() {
    let bytes = |at: usize| vec![at as u8; [0, 5, 300, 100_000, 1, 70][at]];
    for version in ApiKey::Fetch.versions() {
        let mut whole = Vec::new();
        write_response(7, version, &response(|at| Some(bytes(at).into())), &mut whole).unwrap();

        let gapped = response(|at| match at {
            4 => Some(bytes(at).into()),
            _ => Some(Records::elsewhere(bytes(at).len() as u32)),
        });
        let mut out = b"before".to_vec();
        write_response(7, version, &gapped, &mut out).unwrap();
        let Response::Fetch(body) = &gapped else { panic!() };
        let mut filled = Vec::new();
        let mut from = b"before".len();
        for (gap, at) in body.gaps().zip([0, 1, 2, 3, 5]) {
            filled.extend_from_slice(&out[from..gap.at.get()]);
            filled.extend(bytes(at));
            from = gap.at.get();
        }
        filled.extend_from_slice(&out[from..]);
        assert!(filled == whole, "version {version}");
    }
}
