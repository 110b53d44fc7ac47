//! The workers of a crash test. Each worker produces records to a partition of its own. It is also
//! the only member of a classic group, and commits offsets in this group.

use super::{Client, Server};
use muster_codec::messages::*;
use muster_codec::record_batch::BatchHeader;
use muster_codec::{Bytes, Response};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::JoinHandle;

/// The maximum number of workers. The topic has a partition for each.
pub const WORKERS: usize = 8;
pub const TOPIC: &str = "crash";

/// The only member of a group, and a producer to its own partition.
pub struct Worker {
    index: usize,
    member_id: String,
    generation_id: i32,
    producer_id: i64,
    producer_epoch: i16,
    /// The last offset whose commit was acknowledged. Each commit has the same offset for all
    /// partitions of the topic.
    pub committed: AtomicI64,
    /// The number of acknowledged records. Their offsets and sequence numbers are below it.
    pub produced: AtomicI64,
}

/// Starts two threads for each worker: one commits, one produces. They run until they are stopped
/// or the server ends.
pub fn start_workers(
    server: &Server,
    workers: &[Arc<Worker>],
    stop: &Arc<AtomicBool>,
) -> Vec<JoinHandle<()>> {
    let mut threads = Vec::new();
    for worker in workers {
        let mut coordinator = server.coordinator(&worker.group());
        let (stop_commits, committer) = (stop.clone(), worker.clone());
        threads.push(std::thread::spawn(move || {
            while !stop_commits.load(Ordering::Relaxed) && committer.commit(&mut coordinator) {}
        }));
        let mut leader = server.client(worker.leader(server));
        let (stop_produce, producer) = (stop.clone(), worker.clone());
        threads.push(std::thread::spawn(move || {
            while !stop_produce.load(Ordering::Relaxed) && producer.produce(&mut leader) {}
        }));
    }
    threads
}

fn group(index: usize) -> String {
    format!("group-{index}")
}

impl Worker {
    /// Joins the worker's group, and gets a producer id.
    pub fn new(server: &Server, index: usize) -> Self {
        let mut coordinator = server.coordinator(&group(index));
        let (member_id, generation_id) = join(&mut coordinator, index);
        let request = InitProducerIdRequest { transactional_id: None, ..Default::default() };
        let response = server.client(index as u16 % server.shards).call(3, request.into());
        let Response::InitProducerId(producer) = response else { panic!("{response:?}") };
        assert_eq!(producer.error_code, 0);
        Self {
            index,
            member_id,
            generation_id,
            producer_id: producer.producer_id,
            producer_epoch: producer.producer_epoch,
            committed: AtomicI64::new(0),
            produced: AtomicI64::new(0),
        }
    }

    fn group(&self) -> String {
        group(self.index)
    }

    /// Commits the next offset for all partitions. Returns false once the server has ended.
    fn commit(&self, client: &mut Client) -> bool {
        let offset = self.committed.load(Ordering::Relaxed) + 1;
        let partition = |partition_index| OffsetCommitRequestPartition {
            partition_index,
            committed_offset: offset,
            ..Default::default()
        };
        let topic = OffsetCommitRequestTopic {
            name: TOPIC.into(),
            partitions: (0..WORKERS as i32).map(partition).collect(),
            ..Default::default()
        };
        let request = OffsetCommitRequest {
            group_id: self.group().into(),
            generation_id_or_member_epoch: self.generation_id,
            member_id: self.member_id.clone().into(),
            topics: vec![topic],
            ..Default::default()
        };
        let Some(response) = client.try_call(9, request.into()) else { return false };
        let Response::OffsetCommit(body) = response else { panic!("{response:?}") };
        assert!(body.topics[0].partitions.iter().all(|partition| partition.error_code == 0));
        self.committed.store(offset, Ordering::Relaxed);
        true
    }

    /// Sends the next record. The server may have it already, if the acknowledgement was lost.
    /// Returns false once the server has ended.
    fn produce(&self, client: &mut Client) -> bool {
        let sequence = self.produced.load(Ordering::Relaxed);
        let records = Some(Bytes::from(self.batch(sequence as i32)));
        let partition = PartitionProduceData { index: self.index as i32, records };
        let topic = TopicProduceData {
            name: TOPIC.into(),
            partition_data: vec![partition],
            ..Default::default()
        };
        let request = ProduceRequest {
            acks: -1,
            timeout_ms: 10_000,
            topic_data: vec![topic],
            ..Default::default()
        };
        let Some(response) = client.try_call(9, request.into()) else { return false };
        let Response::Produce(body) = response else { panic!("{response:?}") };
        let partition = &body.responses[0].partition_responses[0];
        assert_eq!((partition.error_code, partition.base_offset), (0, sequence), "no duplicates");
        self.produced.store(sequence + 1, Ordering::Relaxed);
        true
    }

    /// A batch with one record of the producer.
    fn batch(&self, sequence: i32) -> Vec<u8> {
        let mut batch = super::batch(b"value");
        let mut header = BatchHeader::read(&batch).unwrap();
        header.producer_id = self.producer_id;
        header.producer_epoch = self.producer_epoch;
        header.base_sequence = sequence;
        header.write(&mut batch);
        batch
    }

    /// The shard that leads the worker's partition, from Metadata.
    fn leader(&self, server: &Server) -> u16 {
        let topic = MetadataRequestTopic { name: Some(TOPIC.into()), ..Default::default() };
        let request = MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
        let response = server.client(0).call(9, request.into());
        let Response::Metadata(body) = response else { panic!("{response:?}") };
        let partitions = &body.topics[0].partitions;
        let is_own = |p: &&MetadataResponsePartition| p.partition_index == self.index as i32;
        partitions.iter().find(is_own).unwrap().leader_id as u16
    }

    /// Expects that all acknowledged data are there exactly once.
    pub fn check(&self, server: &Server, kill: u64) {
        let worker = format!("kill {kill}, worker {}", self.index);
        assert_eq!(self.heartbeat(server), 0, "{worker} is still a member");
        // One more commit may have been written, whose acknowledgement was lost.
        let acknowledged = self.committed.load(Ordering::Relaxed);
        let committed = self.committed_offsets(server);
        assert!(committed.iter().all(|it| *it == committed[0]), "{worker}: {committed:?}");
        let range = acknowledged..=acknowledged + 1;
        assert!(range.contains(&committed[0]), "{worker}: {range:?}, {committed:?}");
        self.committed.store(committed[0], Ordering::Relaxed);
        let acknowledged = self.produced.load(Ordering::Relaxed);
        let (end, range) = (self.end_offset(server), acknowledged..=acknowledged + 1);
        assert!(range.contains(&end), "{worker}: {range:?}, {end}");
    }

    fn heartbeat(&self, server: &Server) -> i16 {
        let request = HeartbeatRequest {
            group_id: self.group().into(),
            generation_id: self.generation_id,
            member_id: self.member_id.clone().into(),
            ..Default::default()
        };
        let response = server.coordinator(&self.group()).call(4, request.into());
        let Response::Heartbeat(body) = response else { panic!("{response:?}") };
        body.error_code
    }

    /// The committed offset of each partition. 0 if there is none.
    fn committed_offsets(&self, server: &Server) -> Vec<i64> {
        let topic = OffsetFetchRequestTopics {
            name: TOPIC.into(),
            partition_indexes: (0..WORKERS as i32).collect(),
            ..Default::default()
        };
        let group = OffsetFetchRequestGroup {
            group_id: self.group().into(),
            topics: Some(vec![topic]),
            ..Default::default()
        };
        let mut client = server.coordinator(&group.group_id);
        let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
        let response = client.call(9, request.into());
        let Response::OffsetFetch(body) = response else { panic!("{response:?}") };
        assert_eq!(body.groups[0].error_code, 0);
        let partitions = &body.groups[0].topics[0].partitions;
        partitions.iter().map(|partition| partition.committed_offset.max(0)).collect()
    }

    fn end_offset(&self, server: &Server) -> i64 {
        let partition = ListOffsetsPartition {
            partition_index: self.index as i32,
            timestamp: -1,
            ..Default::default()
        };
        let topic = ListOffsetsTopic { name: TOPIC.into(), partitions: vec![partition] };
        let request =
            ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
        let response = server.client(self.leader(server)).call(7, request.into());
        let Response::ListOffsets(body) = response else { panic!("{response:?}") };
        let partition = &body.topics[0].partitions[0];
        assert_eq!(partition.error_code, 0);
        partition.offset
    }
}

/// Creates a stable group with one member. Returns the member id and the generation.
fn join(coordinator: &mut Client, index: usize) -> (String, i32) {
    let protocol = JoinGroupRequestProtocol { name: "range".into(), ..Default::default() };
    let request = JoinGroupRequest {
        group_id: group(index).into(),
        // Sessions are long, so that no member expires only because the disk stalls.
        session_timeout_ms: 600_000,
        rebalance_timeout_ms: 600_000,
        protocol_type: "test".into(),
        protocols: vec![protocol],
        ..Default::default()
    };
    let response = coordinator.call(3, request.into());
    let Response::JoinGroup(joined) = response else { panic!("{response:?}") };
    assert_eq!(joined.error_code, 0);
    let (member_id, generation_id) = (joined.member_id.to_string(), joined.generation_id);
    let assignment =
        SyncGroupRequestAssignment { member_id: member_id.clone().into(), ..Default::default() };
    let request = SyncGroupRequest {
        group_id: group(index).into(),
        generation_id,
        member_id: member_id.clone().into(),
        assignments: vec![assignment],
        ..Default::default()
    };
    let response = coordinator.call(3, request.into());
    let Response::SyncGroup(synced) = response else { panic!("{response:?}") };
    assert_eq!(synced.error_code, 0);
    (member_id, generation_id)
}
