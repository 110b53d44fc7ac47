//! Transactional producers, and the logs of partitions that consumers read.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::fetch_response::{
    AbortedTransaction, FetchableTopicResponse, PartitionData,
};
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, EndTxnRequest, EndTxnResponse,
    FetchRequest, FetchResponse, InitProducerIdRequest, InitProducerIdResponse, ListOffsetsRequest,
    ListOffsetsResponse, ProduceRequest, ProduceResponse, ProducerId,
};
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::{
    Compression, NO_SEQUENCE, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};

use super::Bug;
use super::broker::Broker;
use super::reply::Reply;

#[derive(Default)]
pub(super) struct Transactions {
    /// The number of producer ids that were assigned.
    producers: i64,
    logs: BTreeMap<(StrBytes, i32), Log>,
    waiting: Vec<Waiting>,
}

/// A Fetch that waits for records.
struct Waiting {
    request: FetchRequest,
    reply: Reply<FetchRequest>,
    until: Instant,
}

#[derive(Default)]
struct Log {
    batches: Vec<Batch>,
    end: i64,
    /// For each producer with an open transaction, the offset of the transaction's first record.
    open: BTreeMap<i64, i64>,
    aborted: Vec<AbortedTransaction>,
}

struct Batch {
    base: i64,
    producer: i64,
    bytes: Bytes,
}

impl Log {
    /// The offset up to which consumers can read.
    fn stable(&self, bug: Option<Bug>) -> i64 {
        match bug {
            Some(Bug::ShowsOpenTransactions) => self.end,
            _ => self.open.values().copied().min().unwrap_or(self.end),
        }
    }

    /// Appends a batch, which has `records` records. Returns its offset.
    fn append(&mut self, bytes: &[u8], producer: i64, records: i64) -> i64 {
        let base = self.end;
        let mut bytes = BytesMut::from(bytes);
        bytes[..8].copy_from_slice(&base.to_be_bytes());
        self.batches.push(Batch { base, producer, bytes: bytes.freeze() });
        self.end += records;
        base
    }

    /// Ends the producer's transaction in this partition. Returns whether it had one.
    fn finish(&mut self, producer: i64, committed: bool, loses: bool) -> bool {
        let Some(first) = self.open.remove(&producer) else { return false };
        if loses {
            self.batches.retain(|batch| batch.producer != producer || batch.base < first);
        }
        if !committed {
            let aborted = AbortedTransaction::default().with_first_offset(first);
            self.aborted.push(aborted.with_producer_id(ProducerId(producer)));
        }
        self.append(&marker(producer, committed), producer, 1);
        true
    }

    fn read(&self, from: i64, bug: Option<Bug>) -> PartitionData {
        let stable = self.stable(bug);
        let read = self.batches.iter().filter(|batch| (from..stable).contains(&batch.base));
        let records: Vec<u8> = read.flat_map(|batch| batch.bytes.to_vec()).collect();
        let aborted = match bug {
            Some(Bug::ShowsAbortedTransactions) => Vec::new(),
            _ => self.aborted.iter().filter(|one| one.first_offset >= from).cloned().collect(),
        };
        PartitionData::default()
            .with_high_watermark(self.end)
            .with_last_stable_offset(stable)
            .with_aborted_transactions(Some(aborted))
            .with_records(Some(records.into()))
    }
}

fn marker(producer: i64, committed: bool) -> Bytes {
    let record = Record {
        transactional: true,
        control: true,
        delete_horizon: false,
        partition_leader_epoch: 0,
        producer_id: producer,
        producer_epoch: 0,
        timestamp_type: TimestampType::Creation,
        offset: 0,
        sequence: NO_SEQUENCE,
        timestamp: 0,
        key: Some(Bytes::from(vec![0, 0, 0, u8::from(committed)])),
        value: Some(Bytes::from_static(&[0; 6])),
        headers: Default::default(),
    };
    let options = RecordEncodeOptions { version: 2, compression: Compression::None };
    let mut bytes = BytesMut::new();
    RecordBatchEncoder::encode(&mut bytes, &[record], &options).unwrap();
    bytes.freeze()
}

impl Broker {
    pub(super) fn init_producer_id(
        &mut self,
        (_, reply): (InitProducerIdRequest, Reply<InitProducerIdRequest>),
    ) {
        self.transactions.producers += 1;
        let id = ProducerId(self.transactions.producers);
        reply.send(InitProducerIdResponse::default().with_producer_id(id));
    }

    pub(super) fn add_partitions(
        &mut self,
        (request, reply): (AddPartitionsToTxnRequest, Reply<AddPartitionsToTxnRequest>),
    ) {
        let added =
            |number: i32| AddPartitionsToTxnPartitionResult::default().with_partition_index(number);
        let topics = request.v3_and_below_topics.into_iter().map(|topic| {
            AddPartitionsToTxnTopicResult::default()
                .with_name(topic.name)
                .with_results_by_partition(topic.partitions.into_iter().map(added).collect())
        });
        let response = AddPartitionsToTxnResponse::default();
        reply.send(response.with_results_by_topic_v3_and_below(topics.collect()));
    }

    pub(super) fn produce(&mut self, (request, reply): (ProduceRequest, Reply<ProduceRequest>)) {
        let mut responses = Vec::new();
        for topic in request.topic_data {
            let mut partitions = Vec::new();
            for data in topic.partition_data {
                let records = data.records.unwrap_or_default();
                let producer = i64::from_be_bytes(records[43..51].try_into().unwrap());
                let count = i32::from_be_bytes(records[57..61].try_into().unwrap());
                let key = (topic.name.0.clone(), data.index);
                let log = self.transactions.logs.entry(key).or_default();
                let base = log.append(&records, producer, count.into());
                log.open.entry(producer).or_insert(base);
                let answer = PartitionProduceResponse::default().with_index(data.index);
                partitions.push(answer.with_base_offset(base));
            }
            let answer = TopicProduceResponse::default().with_name(topic.name);
            responses.push(answer.with_partition_responses(partitions));
        }
        reply.send(ProduceResponse::default().with_responses(responses));
        self.answer_waiting();
    }

    pub(super) fn end_txn(&mut self, (request, reply): (EndTxnRequest, Reply<EndTxnRequest>)) {
        let (producer, committed) = (request.producer_id.0, request.committed);
        let mut loses = self.config.bug == Some(Bug::LosesAPartition) && committed;
        for log in self.transactions.logs.values_mut() {
            let has_ended = log.finish(producer, committed, loses);
            loses &= !has_ended;
        }
        reply.send(EndTxnResponse::default());
        self.answer_waiting();
    }

    pub(super) fn list_offsets(
        &mut self,
        (request, reply): (ListOffsetsRequest, Reply<ListOffsetsRequest>),
    ) {
        let topics = request.topics.into_iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|one| {
                let log = self.transactions.logs.get(&(topic.name.0.clone(), one.partition_index));
                ListOffsetsPartitionResponse::default()
                    .with_partition_index(one.partition_index)
                    .with_offset(log.map_or(0, |log| log.stable(None)))
            });
            let partitions = partitions.collect();
            ListOffsetsTopicResponse::default().with_name(topic.name).with_partitions(partitions)
        });
        reply.send(ListOffsetsResponse::default().with_topics(topics.collect()));
    }

    pub(super) fn read_records(&mut self, (request, reply): (FetchRequest, Reply<FetchRequest>)) {
        let wait = Duration::from_millis(request.max_wait_ms as u64);
        self.transactions.waiting.push(Waiting { request, reply, until: self.now + wait });
        self.answer_waiting();
    }

    /// Answers the fetches that now have records, or have waited for long enough.
    pub(super) fn answer_waiting(&mut self) {
        for waiting in std::mem::take(&mut self.transactions.waiting) {
            let response = self.fetched(&waiting.request);
            let all = response.responses.iter().flat_map(|topic| &topic.partitions);
            let is_empty = all.flat_map(|data| &data.records).all(Bytes::is_empty);
            if is_empty && self.now < waiting.until {
                self.transactions.waiting.push(waiting);
            } else {
                waiting.reply.send(response);
            }
        }
    }

    fn fetched(&self, request: &FetchRequest) -> FetchResponse {
        let of_topic = |topic: &kafka_protocol::messages::fetch_request::FetchTopic| {
            let name = self.topics.with_id(topic.topic_id).cloned();
            let name = name.unwrap_or_else(|| topic.topic.0.clone());
            let partitions = topic.partitions.iter().map(|one| {
                let log = self.transactions.logs.get(&(name.clone(), one.partition));
                let read = log.map(|log| log.read(one.fetch_offset, self.config.bug));
                read.unwrap_or_default().with_partition_index(one.partition)
            });
            let answer = FetchableTopicResponse::default().with_partitions(partitions.collect());
            answer.with_topic(topic.topic.clone()).with_topic_id(topic.topic_id)
        };
        FetchResponse::default().with_responses(request.topics.iter().map(of_topic).collect())
    }
}
