//! A transactional producer whose requests a test sends one by one, and a consumer of committed
//! records.

use super::{Client, PATIENCE, Server};
use muster_codec::messages::*;
use muster_codec::record_batch::{BatchHeader, Batches};
use muster_codec::{Bytes, ErrorCode, Response};
use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

/// The transaction version of a producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The producer adds partitions by separate requests, and keeps its epoch.
    One,
    /// Produce requests add partitions, and each transaction has a new epoch (KIP-890).
    Two,
}

/// A producer with a transactional id.
#[derive(Debug, Clone)]
pub struct Producer {
    pub id: String,
    pub producer_id: i64,
    pub epoch: i16,
    version: Version,
    topic: &'static str,
    sequences: HashMap<i32, i32>,
}

impl Producer {
    /// Initializes a transactional id. If another producer with this id has an open transaction,
    /// this ends it.
    pub fn begin(server: &Server, id: &str, version: Version, topic: &'static str) -> Self {
        Self::begin_with_timeout(server, id, version, topic, 60_000)
    }

    pub fn begin_with_timeout(
        server: &Server,
        id: &str,
        version: Version,
        topic: &'static str,
        transaction_timeout_ms: i32,
    ) -> Self {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let request = InitProducerIdRequest {
                transactional_id: Some(id.to_owned().into()),
                transaction_timeout_ms,
                ..Default::default()
            };
            let response = coordinator(server, id).call(4, request.into());
            let Response::InitProducerId(body) = response else { panic!("{response:?}") };
            let InitProducerIdResponse { error_code, producer_id, producer_epoch: epoch, .. } =
                body;
            match ErrorCode::from_code(error_code) {
                Some(ErrorCode::None) => {
                    let (id, sequences) = (id.to_owned(), HashMap::new());
                    return Self { id, producer_id, epoch, version, topic, sequences };
                }
                Some(ErrorCode::ConcurrentTransactions | ErrorCode::CoordinatorLoadInProgress) => {}
                error => panic!("InitProducerId: {error:?}"),
            }
            assert!(Instant::now() < deadline, "{id} cannot begin");
        }
    }

    /// Adds partitions to the transaction, as clients of version 1 do. Returns the error codes.
    pub fn add(&self, server: &Server, partitions: &[i32]) -> Vec<i16> {
        let partitions = partitions.to_vec();
        let topic = AddPartitionsToTxnTopic { name: self.topic.into(), partitions };
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: self.id.clone().into(),
            v3_and_below_producer_id: self.producer_id,
            v3_and_below_producer_epoch: self.epoch,
            v3_and_below_topics: vec![topic],
            ..Default::default()
        };
        let response = coordinator(server, &self.id).call(3, request.into());
        let Response::AddPartitionsToTxn(body) = response else { panic!("{response:?}") };
        let topics = body.results_by_topic_v3_and_below.into_iter();
        let partitions = topics.flat_map(|topic| topic.results_by_partition);
        partitions.map(|partition| partition.partition_error_code).collect()
    }

    /// Produces a record in the transaction. Returns the error code.
    pub fn send(&mut self, server: &Server, partition: i32, value: &str) -> i16 {
        if self.version == Version::One {
            assert_eq!(self.add(server, &[partition]), [0], "{self:?}");
        }
        self.send_only(server, partition, value)
    }

    /// Produces a record, but does not add its partition before. Retries, as clients do, while the
    /// previous transaction is being ended or the server is starting.
    pub fn send_only(&mut self, server: &Server, partition: i32, value: &str) -> i16 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let error = self.send_once(server, partition, value);
            let again = [ErrorCode::ConcurrentTransactions, ErrorCode::NotEnoughReplicas];
            if !again.map(ErrorCode::code).contains(&error) {
                return error;
            }
            assert!(Instant::now() < deadline, "{self:?} cannot produce");
        }
    }

    fn send_once(&mut self, server: &Server, partition: i32, value: &str) -> i16 {
        let sequence = self.sequences.entry(partition).or_default();
        let batch = batch((self.producer_id, self.epoch), *sequence, value);
        let data = PartitionProduceData { index: partition, records: Some(Bytes::from(batch)) };
        let topic = TopicProduceData {
            name: self.topic.into(),
            partition_data: vec![data],
            ..Default::default()
        };
        let request = ProduceRequest {
            transactional_id: Some(self.id.clone().into()),
            acks: -1,
            timeout_ms: 10_000,
            topic_data: vec![topic],
        };
        let version = if self.version == Version::One { 9 } else { 12 };
        let mut leader = server.client(leader(server, self.topic, partition));
        let response = leader.call(version, request.into());
        let Response::Produce(body) = response else { panic!("{response:?}") };
        let error = body.responses[0].partition_responses[0].error_code;
        *sequence += i32::from(error == 0);
        error
    }

    /// Adds the offsets of a group to the transaction, as clients of version 1 do. Returns the
    /// error code.
    pub fn add_offsets(&self, server: &Server, group: &str) -> i16 {
        let request = AddOffsetsToTxnRequest {
            transactional_id: self.id.clone().into(),
            producer_id: self.producer_id,
            producer_epoch: self.epoch,
            group_id: group.to_owned().into(),
        };
        let response = coordinator(server, &self.id).call(3, request.into());
        let Response::AddOffsetsToTxn(body) = response else { panic!("{response:?}") };
        body.error_code
    }

    /// Commits an offset of a group for partition 0, as a part of the transaction. Returns the
    /// error code.
    pub fn commit(&self, server: &Server, group: &str, offset: i64) -> i16 {
        if self.version == Version::One {
            assert_eq!(self.add_offsets(server, group), 0, "{self:?}");
        }
        self.commit_only(server, group, offset)
    }

    /// Commits an offset, but does not add its group before. Retries, as clients do, while the
    /// previous transaction is being ended or the server is starting.
    pub fn commit_only(&self, server: &Server, group: &str, offset: i64) -> i16 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let error = self.commit_once(server, group, offset);
            let again = [ErrorCode::ConcurrentTransactions, ErrorCode::CoordinatorLoadInProgress];
            if !again.map(ErrorCode::code).contains(&error) {
                return error;
            }
            assert!(Instant::now() < deadline, "{self:?} cannot commit");
        }
    }

    fn commit_once(&self, server: &Server, group: &str, committed_offset: i64) -> i16 {
        let partition = TxnOffsetCommitRequestPartition { committed_offset, ..Default::default() };
        let topic = TxnOffsetCommitRequestTopic {
            name: self.topic.into(),
            partitions: vec![partition],
            ..Default::default()
        };
        let request = TxnOffsetCommitRequest {
            transactional_id: self.id.clone().into(),
            group_id: group.to_owned().into(),
            producer_id: self.producer_id,
            producer_epoch: self.epoch,
            topics: vec![topic],
            ..Default::default()
        };
        let version = if self.version == Version::One { 3 } else { 5 };
        let response = server.coordinator(group).call(version, request.into());
        let Response::TxnOffsetCommit(body) = response else { panic!("{response:?}") };
        body.topics[0].partitions[0].error_code
    }

    /// Ends the transaction. Returns the error code.
    pub fn end(&mut self, server: &Server, committed: bool) -> i16 {
        let request = EndTxnRequest {
            transactional_id: self.id.clone().into(),
            producer_id: self.producer_id,
            producer_epoch: self.epoch,
            committed,
        };
        let version = if self.version == Version::One { 4 } else { 5 };
        let response = coordinator(server, &self.id).call(version, request.into());
        let Response::EndTxn(body) = response else { panic!("{response:?}") };
        if self.version == Version::Two && body.error_code == 0 {
            (self.producer_id, self.epoch) = (body.producer_id, body.producer_epoch);
            self.sequences.clear();
        }
        body.error_code
    }
}

/// A batch with one transactional record.
fn batch((producer_id, epoch): (i64, i16), sequence: i32, value: &str) -> Vec<u8> {
    let mut batch = super::batch(value.as_bytes());
    let mut header = BatchHeader::read(&batch).unwrap();
    header.set_transaction(producer_id, epoch);
    header.base_sequence = sequence;
    header.write(&mut batch);
    batch
}

/// The coordinator of a transactional id.
pub fn coordinator(server: &Server, id: &str) -> Client {
    let key = id.to_owned().into();
    let request = FindCoordinatorRequest { key, key_type: 1, ..Default::default() };
    let response = server.client(0).call(3, request.into());
    let Response::FindCoordinator(body) = response else { panic!("{response:?}") };
    assert_eq!(body.error_code, 0, "{:?}", body.error_message);
    server.client(body.port as u16 - server.port)
}

/// The shard that leads a partition.
pub fn leader(server: &Server, topic: &'static str, partition: i32) -> u16 {
    let named = MetadataRequestTopic { name: Some(topic.into()), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![named]), ..Default::default() };
    let response = server.client(0).call(9, request.into());
    let Response::Metadata(body) = response else { panic!("{response:?}") };
    let mut partitions = body.topics[0].partitions.iter();
    partitions.find(|it| it.partition_index == partition).unwrap().leader_id as u16
}

/// The last stable offset of a partition, and its high watermark.
pub fn ends(server: &Server, topic: &'static str, partition: i32) -> (i64, i64) {
    let body = fetch(server, topic, partition, 0);
    (body.last_stable_offset, body.high_watermark)
}

/// The values of the records that a consumer of committed records sees in a partition.
pub fn committed(server: &Server, topic: &'static str, partition: i32) -> Vec<String> {
    let body = fetch(server, topic, partition, 0);
    let bytes = body.records.map(|records| records.to_vec()).unwrap_or_default();
    let mut aborted = body.aborted_transactions.unwrap_or_default();
    aborted.sort_by_key(|it| it.first_offset);
    let (mut skipped, mut seen) = (BTreeSet::new(), Vec::new());
    for batch in Batches::new(&bytes) {
        let batch = batch.unwrap();
        let header = &batch.header;
        if header.base_offset >= body.last_stable_offset {
            break;
        }
        let begun = aborted.iter().take_while(|it| it.first_offset <= header.last_offset());
        let begun = begun.count();
        skipped.extend(aborted.drain(..begun).map(|it| it.producer_id));
        if header.is_control() {
            skipped.remove(&header.producer_id);
        } else if !header.is_transactional() || !skipped.contains(&header.producer_id) {
            let value = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
            let records = batch.records().unwrap();
            seen.extend(records.map(|record| value(record.unwrap().value.unwrap())));
        }
    }
    seen
}

/// Waits until a partition has no open transaction. Returns its committed records.
pub fn settled(server: &Server, topic: &'static str, partition: i32) -> Vec<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (stable, end) = ends(server, topic, partition);
        if stable == end {
            return committed(server, topic, partition);
        }
        assert!(Instant::now() < deadline, "{topic}-{partition} stays open at {stable} of {end}");
    }
}

/// The committed offset of a group for partition 0. An error if an open transaction has committed
/// another one.
pub fn stable_offset(server: &Server, group: &str, topic: &'static str) -> Result<i64, i16> {
    let topic = OffsetFetchRequestTopics {
        name: topic.into(),
        partition_indexes: vec![0],
        ..Default::default()
    };
    let wanted = OffsetFetchRequestGroup {
        group_id: group.to_owned().into(),
        topics: Some(vec![topic]),
        ..Default::default()
    };
    let request =
        OffsetFetchRequest { groups: vec![wanted], require_stable: true, ..Default::default() };
    let response = server.coordinator(group).call(8, request.into());
    let Response::OffsetFetch(body) = response else { panic!("{response:?}") };
    let partition = &body.groups[0].topics[0].partitions[0];
    match partition.error_code {
        0 => Ok(partition.committed_offset),
        error => Err(error),
    }
}

/// Waits until the committed offset of partition 0 in a group is stable. Returns it.
pub fn settled_offset(server: &Server, group: &str, topic: &'static str) -> i64 {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match stable_offset(server, group, topic) {
            Ok(offset) => return offset,
            Err(error) => assert_eq!(error, ErrorCode::UnstableOffsetCommit.code()),
        }
        assert!(Instant::now() < deadline, "the offset of {group} stays unstable");
    }
}

/// Fetches committed records. If there are none, it waits for a short time.
fn fetch(
    server: &Server,
    topic: &'static str,
    partition: i32,
    from: i64,
) -> PartitionData<'static> {
    let asked = FetchPartition {
        partition,
        fetch_offset: from,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    };
    let topic_of =
        FetchTopic { topic: topic.into(), partitions: vec![asked], ..Default::default() };
    let request = FetchRequest {
        replica_id: -1,
        max_wait_ms: 1,
        min_bytes: 1,
        max_bytes: 1 << 20,
        isolation_level: 1,
        topics: vec![topic_of],
        session_epoch: -1,
        ..Default::default()
    };
    let response = server.client(leader(server, topic, partition)).call(11, request.into());
    let Response::Fetch(mut body) = response else { panic!("{response:?}") };
    assert_eq!(body.error_code, 0);
    let data = body.responses[0].partitions.remove(0);
    assert_eq!(data.error_code, 0);
    data
}
