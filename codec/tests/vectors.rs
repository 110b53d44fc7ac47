//! Reads golden bytes, which Kafka's own serializer wrote (in `data/`). Written again, they must be
//! the same bytes.

#![allow(clippy::unwrap_used)]

mod kafka_vectors;

use kafka_vectors::{Vector, bodies, unhex, vectors};
use muster_codec::records::GroupRecord;
use muster_codec::{ApiKey, Reader, Request, Response};
use std::collections::BTreeSet;

/// Reads a body and writes it again. Also returns the number of bytes read.
fn rewrite(vector: &Vector) -> (Vec<u8>, usize) {
    let Vector { api, version, .. } = *vector;
    let mut reader = Reader::new(&vector.body);
    let mut out = Vec::new();
    if vector.is_request {
        let request = Request::read(api, version, &mut reader).unwrap();
        request.write(version, &mut out).unwrap();
    } else {
        let response = Response::read(api, version, &mut reader).unwrap();
        response.write(version, &mut out).unwrap();
    }
    (out, vector.body.len() - reader.remaining())
}

#[test]
fn messages_match_kafkas_golden_bytes() {
    let vectors = vectors();
    for vector in &vectors {
        let (written, read) = rewrite(vector);
        assert_eq!(read, vector.body.len(), "{vector}: bytes left over");
        assert_eq!(written, vector.body, "{vector}");
    }
    let covered: BTreeSet<_> = vectors.iter().map(|v| (v.api, v.version, v.is_request)).collect();
    assert_eq!(covered.len(), bodies(), "each version of each API has a vector");
}

#[test]
fn a_cut_body_is_an_error_and_never_a_panic() {
    for vector in vectors() {
        for end in 0..vector.body.len() {
            let mut reader = Reader::new(&vector.body[..end]);
            let error = if vector.is_request {
                Request::read(vector.api, vector.version, &mut reader).is_err()
            } else {
                Response::read(vector.api, vector.version, &mut reader).is_err()
            };
            assert!(error, "{vector} cut at {end}");
        }
    }
}

#[test]
fn an_array_that_claims_two_billion_elements_is_refused() {
    let claim = [0xff, 0xff, 0xff, 0xff, 0x07, 0, 0, 0];
    let mut reader = Reader::new(&claim);
    assert!(Request::read(ApiKey::Metadata, 12, &mut reader).is_err());
}

#[test]
fn coordinator_records_match_kafkas_golden_bytes() {
    let text = std::fs::read_to_string("tests/data/record-vectors.tsv").unwrap();
    let mut seen = 0;
    for line in text.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let version: i16 = columns[2].parse().unwrap();
        let (key, value) = (unhex(columns[4]), unhex(columns[5]));
        if columns[0] != "group" {
            continue;
        }
        let Some(record) = GroupRecord::read(&key, Some(&value)).unwrap() else { continue };
        seen += 1;
        let (mut written_key, mut written_value) = (Vec::new(), Vec::new());
        record.write_key(&mut written_key);
        assert!(record.write_value(&mut written_value));
        let kafka_writes_it = key[1] > 2 || [(1, 4), (1, 1), (2, 3)].contains(&(key[1], version));
        if kafka_writes_it {
            assert_eq!((written_key, written_value), (key, value), "{line}");
        } else {
            let again = GroupRecord::read(&written_key, Some(&written_value)).unwrap().unwrap();
            assert_eq!(again.group_id(), record.group_id());
        }
    }
    assert_eq!(
        seen,
        2 + 10 + 10 + 14 + 12 + 12 + 12,
        "offsets of both kinds, groups, seven of consumer groups, six of share and streams groups, \
         and what Kafka 4.4 added"
    );
}

/// Compares those records that Kafka 4.4 writes differently than earlier versions do. Leaves out
/// the vectors with epochs of topology descriptions.
#[test]
fn coordinator_records_match_the_golden_bytes_of_kafka_4_4() {
    const OF_DESCRIPTIONS: [&str; 4] = ["4.4 uncertain", "4.4 stored", "4.4 failed", "4.4 both"];
    let text = std::fs::read_to_string("tests/data/record-vectors-4.4.tsv").unwrap();
    let mut kinds = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("group\t")) {
        let columns: Vec<&str> = line.split('\t').collect();
        if OF_DESCRIPTIONS.contains(&columns[3]) {
            continue;
        }
        let (key, value) = (unhex(columns[4]), unhex(columns[5]));
        let record = GroupRecord::read(&key, Some(&value)).unwrap().unwrap();
        let (mut written_key, mut written_value) = (Vec::new(), Vec::new());
        record.write_key(&mut written_key);
        assert!(record.write_value(&mut written_value));
        assert_eq!((written_key, written_value), (key, value), "{line}");
        kinds.push(columns[1].parse::<u16>().unwrap());
    }
    assert_eq!(kinds, [17, 17, 1, 6, 12, 20, 19, 22]);
}
