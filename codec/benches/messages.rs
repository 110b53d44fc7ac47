//! Benchmark: decodes and encodes a coordinator's most frequent requests with this codec and with
//! the crate `kafka-protocol`, in the same run. Both read the same bytes and reuse their output
//! buffer.

#![allow(clippy::unwrap_used)]

use bytes::{Bytes, BytesMut};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use kafka_protocol::messages as theirs;
use kafka_protocol::protocol::{Decodable, Encodable};
use muster_codec::messages as ours;
use muster_codec::{Reader, Request};
use std::hint::black_box;

const GROUP: &str = "payments-reconciliation";
const MEMBER: &str = "consumer-1-2b1c5f0e-6a0b-4f0e-9a53-1d6f4f7f0b11";
const TOPIC: &str = "payments.settled.v2";

/// Benchmarks one request, in one version, with both codecs.
fn compare<T: Decodable + Encodable>(
    criterion: &mut Criterion,
    name: &str,
    version: i16,
    request: Request<'_>,
) {
    let mut body = Vec::new();
    request.write(version, &mut body).unwrap();
    decode::<T>(criterion.benchmark_group(format!("{name}/decode")), &request, version, &body);
    encode::<T>(criterion.benchmark_group(format!("{name}/encode")), &request, version, &body);
}

fn decode<T: Decodable>(
    mut group: BenchmarkGroup<'_, WallTime>,
    request: &Request<'_>,
    version: i16,
    body: &[u8],
) {
    let api = request.api_key();
    assert_eq!(Request::read(api, version, &mut Reader::new(body)).as_ref(), Ok(request));
    group.bench_function("muster", |bench| {
        bench.iter(|| Request::read(api, version, &mut Reader::new(black_box(body))));
    });
    let bytes = Bytes::copy_from_slice(body);
    group.bench_function("kafka-protocol", |bench| {
        bench.iter(|| T::decode(&mut black_box(&bytes).clone(), version).unwrap());
    });
}

fn encode<T: Decodable + Encodable>(
    mut group: BenchmarkGroup<'_, WallTime>,
    request: &Request<'_>,
    version: i16,
    body: &[u8],
) {
    let mut out = Vec::new();
    group.bench_function("muster", |bench| {
        bench.iter(|| {
            out.clear();
            black_box(request).write(version, &mut out).unwrap();
            black_box(out.len())
        });
    });
    let message = T::decode(&mut Bytes::copy_from_slice(body), version).unwrap();
    let mut buffer = BytesMut::new();
    group.bench_function("kafka-protocol", |bench| {
        bench.iter(|| {
            buffer.clear();
            black_box(&message).encode(&mut buffer, version).unwrap();
            black_box(buffer.len())
        });
    });
    assert_eq!(out, buffer, "both wrote the same");
}

fn heartbeat() -> Request<'static> {
    ours::HeartbeatRequest {
        group_id: GROUP.into(),
        generation_id: 7,
        member_id: MEMBER.into(),
        group_instance_id: None,
    }
    .into()
}

fn offset_commit(partitions: i32) -> Request<'static> {
    let partition = |index| ours::OffsetCommitRequestPartition {
        partition_index: index,
        committed_offset: 1_000_000_007 + i64::from(index),
        committed_leader_epoch: 3,
        ..Default::default()
    };
    let topic = ours::OffsetCommitRequestTopic {
        name: TOPIC.into(),
        partitions: (0..partitions).map(partition).collect(),
        ..Default::default()
    };
    ours::OffsetCommitRequest {
        group_id: GROUP.into(),
        generation_id_or_member_epoch: 7,
        member_id: MEMBER.into(),
        topics: vec![topic],
        ..Default::default()
    }
    .into()
}

/// The JoinGroup that a Java client sends by default: two assignors, each with one topic.
fn join_group() -> Request<'static> {
    let metadata = subscription();
    let protocol = |name: &'static str| ours::JoinGroupRequestProtocol {
        name: name.into(),
        metadata: metadata.clone().into(),
    };
    ours::JoinGroupRequest {
        group_id: GROUP.into(),
        session_timeout_ms: 45_000,
        rebalance_timeout_ms: 300_000,
        member_id: MEMBER.into(),
        protocol_type: "consumer".into(),
        protocols: vec![protocol("range"), protocol("cooperative-sticky")],
        ..Default::default()
    }
    .into()
}

fn subscription() -> Vec<u8> {
    let mut out = Vec::new();
    let topics = vec![TOPIC.into()];
    let subscription = muster_codec::consumer_protocol::ConsumerProtocolSubscription {
        topics,
        ..Default::default()
    };
    subscription.write(3, &mut out);
    out
}

/// The OffsetFetch of a member that has started and owns 50 partitions.
fn offset_fetch() -> Request<'static> {
    let topic = ours::OffsetFetchRequestTopics {
        name: TOPIC.into(),
        partition_indexes: (0..50).collect(),
        ..Default::default()
    };
    let group = ours::OffsetFetchRequestGroup {
        group_id: GROUP.into(),
        topics: Some(vec![topic]),
        ..Default::default()
    };
    ours::OffsetFetchRequest { groups: vec![group], require_stable: true, ..Default::default() }
        .into()
}

fn messages(criterion: &mut Criterion) {
    compare::<theirs::HeartbeatRequest>(criterion, "Heartbeat v4", 4, heartbeat());
    for partitions in [1, 100] {
        let name = format!("OffsetCommit v9, {partitions} partitions");
        let request = offset_commit(partitions);
        compare::<theirs::OffsetCommitRequest>(criterion, &name, 9, request);
    }
    compare::<theirs::JoinGroupRequest>(criterion, "JoinGroup v9", 9, join_group());
    let name = "OffsetFetch v9, 50 partitions";
    compare::<theirs::OffsetFetchRequest>(criterion, name, 9, offset_fetch());
}

criterion_group!(benches, messages);
criterion_main!(benches);
