//! A client that consumes, processes and produces exactly once. Each transaction writes the next
//! numbers to all partitions of a topic. As the offset of a group it commits the number that
//! follows. Two clients may have the same transactional id: then each fences the other.
//!
//! These rules hold after any crash and any fencing. In each partition, the committed records of an
//! id are the numbers from 0 on, each exactly once. The committed offset of the group is not lower
//! than the numbers that a reader has seen. No number is missing if its commit was answered.

use super::{NextRequest, Surroundings, each_batch};
use muster_codec::messages::*;
use muster_codec::record_batch::{BatchBuilder, BatchHeader};
use muster_codec::{Bytes, ErrorCode, Response};
use std::collections::BTreeSet;

/// The topic to which all of these clients write, and its number of partitions.
pub(crate) const TRANSACTED: &str = "transacted";
pub(crate) const PARTITIONS: i32 = 3;

/// The last versions of Fetch and of TxnOffsetCommit that name topics, and not their ids.
const FETCH: i16 = 12;
const TXN_OFFSET_COMMIT: i16 = 5;

/// A timestamp in ms, days before the beginning of a run. So it is never in the future, even if the
/// wall clock is set back.
const TIMESTAMP: i64 = 1_749_700_000_000;

/// The time between the timestamps of a number and the next one. It is so long that segments are
/// closed by their age (`segment.ms`), and compaction can run.
const APART_MS: i64 = 1_000;

/// The configs of the topic, if it is compacted.
pub(crate) const COMPACTED: [(&str, &str); 3] =
    [("cleanup.policy", "compact"), ("segment.ms", "3000"), ("delete.retention.ms", "1000")];

/// One in this number of transactions begins with a read of all partitions.
const READS_EVERY: u64 = 3;

/// After this number of lost answers the client begins again. Before that, it repeats the request.
const LOST_MAX: u32 = 3;

#[derive(Debug)]
pub(crate) struct Transactor {
    /// The transactional id, which is also the id of the group.
    id: String,
    /// Whether the client uses the transactions of KIP-890: it gets another epoch with each
    /// transaction, and sends no requests to add partitions.
    is_newer: bool,
    producer: (i64, i16),
    sequences: [i32; PARTITIONS as usize],
    /// The shard to ask for each partition. If this shard is not the leader, the next shard is
    /// asked.
    leaders: [u32; PARTITIONS as usize],
    step: Step,
    /// The numbers of the transaction: the first number, and the number after the last.
    numbers: (i64, i64),
    commits: bool,
    /// Whether the client aborts the transaction if TxnOffsetCommit is not answered. Only clients
    /// without KIP-890 do so. The group may still wait for the answer whether the producer may
    /// commit these offsets. If this answer comes after the abort, it must have no effect.
    gives_up: bool,
    /// The highest offset that answers have shown to be committed. No later answer may show less.
    floor: i64,
    lost: u32,
    committed: u64,
    aborted: u64,
    looks: u64,
}

/// The next request, or the request under way.
#[derive(Debug, Clone)]
enum Step {
    Begin,
    FindOffset,
    Read(Reading),
    AddPartitions,
    Send(i32),
    AddGroup,
    Commit,
    End,
}

/// A read of the committed records of a partition.
#[derive(Debug, Clone, Default)]
struct Reading {
    partition: i32,
    from: i64,
    /// The number that is expected next.
    next: i64,
}

/// The effect of an error on the client.
enum Fate {
    Done,
    Again,
    /// The transaction is lost.
    Begin,
}

impl Transactor {
    pub(crate) fn new(id: String, is_newer: bool) -> Self {
        Self {
            id,
            is_newer,
            producer: (-1, -1),
            sequences: [0; PARTITIONS as usize],
            leaders: [0; PARTITIONS as usize],
            step: Step::Begin,
            numbers: (0, 0),
            commits: true,
            gives_up: false,
            floor: 0,
            lost: 0,
            committed: 0,
            aborted: 0,
            looks: 0,
        }
    }

    /// How many transactions were committed, how many were aborted, and how often all partitions
    /// were read.
    pub(crate) fn counts(&self) -> [u64; 3] {
        [self.committed, self.aborted, self.looks]
    }

    /// The number in the client's id, and the first number that is not certainly committed: all
    /// before it are.
    pub(crate) fn certain(&self) -> (u32, i64) {
        let id = self.id.rsplit('-').next().and_then(|id| id.parse().ok());
        (id.unwrap_or_default(), self.floor)
    }

    pub(super) fn next_request(&mut self, around: &mut Surroundings<'_>) -> NextRequest {
        let (random, placement) = (&mut *around.random, around.placement);
        let coordinator = placement.id_shard(&self.id);
        let of_group = placement.group_shard(&self.id);
        let of = |shard, version, request| NextRequest { shard, version, request };
        let leader = |partition: i32| self.leaders[partition as usize] % placement.shards;
        match &self.step {
            Step::Begin => {
                let timeout = random.pick(&[1_000, 10_000, 60_000]);
                of(coordinator, 4, self.begin(timeout).into())
            }
            Step::FindOffset => {
                (self.commits, self.numbers.1) = (random.chance(0.7), random.between(1, 3) as i64);
                self.gives_up = random.chance(0.8);
                of(of_group, 8, self.find_offset().into())
            }
            Step::Read(reading) => of(leader(reading.partition), FETCH, fetch(reading).into()),
            Step::AddPartitions => of(coordinator, 3, self.add_partitions().into()),
            Step::Send(partition) => {
                let version = if self.is_newer { 12 } else { 11 };
                of(leader(*partition), version, self.produce(*partition).into())
            }
            Step::AddGroup => of(coordinator, 3, self.add_group().into()),
            Step::Commit => {
                let version = if self.is_newer { TXN_OFFSET_COMMIT } else { 3 };
                of(of_group, version, self.commit().into())
            }
            Step::End => of(coordinator, if self.is_newer { 5 } else { 4 }, self.end().into()),
        }
    }

    /// # Errors
    /// The answer contradicts earlier answers.
    pub(super) fn answered(&mut self, response: Option<&Response<'_>>) -> Result<(), String> {
        let Some(response) = response else {
            self.lost += 1;
            if matches!(self.step, Step::Commit) && self.gives_up && !self.is_newer {
                (self.step, self.commits) = (Step::End, false);
            } else if self.lost.is_multiple_of(LOST_MAX) {
                self.step = Step::Begin;
            }
            return Ok(());
        };
        let (fate, step) = (fate(error_of(response))?, self.step.clone());
        match (fate, response, step) {
            (Fate::Begin, ..) => self.step = Step::Begin,
            (Fate::Again, Response::Produce(_), Step::Send(partition))
            | (Fate::Again, Response::Fetch(_), Step::Read(Reading { partition, .. })) => {
                self.leaders[partition as usize] += 1;
            }
            (Fate::Again, ..) => {}
            (Fate::Done, Response::InitProducerId(body), _) => {
                self.identify(body.producer_id, body.producer_epoch);
                self.step = Step::FindOffset;
            }
            (Fate::Done, Response::OffsetFetch(body), _) => return self.offset_found(body),
            (Fate::Done, Response::Fetch(body), Step::Read(reading)) => {
                return self.read(reading, body);
            }
            (Fate::Done, Response::AddPartitionsToTxn(_), _) => self.step = Step::Send(0),
            (Fate::Done, Response::Produce(_), Step::Send(partition)) => self.sent(partition),
            (Fate::Done, Response::AddOffsetsToTxn(_), _) => self.step = Step::Commit,
            (Fate::Done, Response::TxnOffsetCommit(_), _) => self.step = Step::End,
            (Fate::Done, Response::EndTxn(body), _) => self.ended(body),
            (Fate::Done, response, step) => {
                return Err(format!("{response:?} is no answer to {step:?}"));
            }
        }
        Ok(())
    }

    fn identify(&mut self, id: i64, epoch: i16) {
        self.producer = (id, epoch);
        self.sequences = [0; PARTITIONS as usize];
    }

    fn offset_found(&mut self, body: &OffsetFetchResponse<'_>) -> Result<(), String> {
        let partitions = body.groups.iter().flat_map(|group| &group.topics);
        let partition = partitions.flat_map(|topic| &topic.partitions).next();
        let found = partition.map_or(-1, |it| it.committed_offset).max(0);
        if found < self.floor {
            return Err(format!("offset {found} is committed, which was {} before", self.floor));
        }
        self.floor = found;
        self.numbers = (found, found + self.numbers.1);
        let reads = (self.committed + self.aborted).is_multiple_of(READS_EVERY);
        self.step = if reads { Step::Read(Reading::default()) } else { self.first_write() };
        Ok(())
    }

    fn first_write(&self) -> Step {
        if self.is_newer { Step::Send(0) } else { Step::AddPartitions }
    }

    fn sent(&mut self, partition: i32) {
        self.sequences[partition as usize] += (self.numbers.1 - self.numbers.0) as i32;
        self.step = match (partition + 1 < PARTITIONS, self.is_newer) {
            (true, _) => Step::Send(partition + 1),
            (false, true) => Step::Commit,
            (false, false) => Step::AddGroup,
        };
    }

    fn ended(&mut self, body: &EndTxnResponse) {
        if self.is_newer {
            self.identify(body.producer_id, body.producer_epoch);
        }
        if self.commits {
            self.floor = self.numbers.1;
            self.committed += 1;
        } else {
            self.aborted += 1;
        }
        self.step = Step::FindOffset;
    }

    /// Takes the committed records of a fetch.
    fn read(&mut self, mut reading: Reading, body: &FetchResponse<'_>) -> Result<(), String> {
        let mut partitions = body.responses.iter().flat_map(|topic| &topic.partitions);
        let Some(data) = partitions.next() else { return Err("no partition".to_owned()) };
        let from = reading.from;
        self.take_records(&mut reading, data)?;
        let (stable, end) = (data.last_stable_offset, data.high_watermark);
        if reading.from > from && reading.from < stable {
            self.step = Step::Read(reading);
            return Ok(());
        }
        // The read has reached the end of the partition, and no transaction is open there. So it
        // must have returned all committed numbers.
        if reading.from >= stable && stable == end && reading.next < self.numbers.0 {
            let Reading { partition, next, .. } = reading;
            let committed = self.numbers.0;
            return Err(format!("partition {partition} has {next} of {committed} numbers"));
        }
        self.floor = self.floor.max(reading.next);
        let partition = reading.partition + 1;
        self.looks += u64::from(partition == PARTITIONS);
        // Another client with the same id may have committed numbers meanwhile. These must not be
        // written again, so the client looks up the offset first.
        let is_behind = self.floor > self.numbers.0;
        self.step = if partition < PARTITIONS {
            Step::Read(Reading { partition, ..Reading::default() })
        } else if is_behind {
            Step::FindOffset
        } else {
            self.first_write()
        };
        Ok(())
    }

    /// Takes the records of one answer. The answer must list all aborted transactions of its
    /// records, even those that an earlier answer has listed: clients keep no list (Kafka's
    /// `CompletedFetch`), and compaction may have removed a marker meanwhile.
    fn take_records(&self, reading: &mut Reading, data: &PartitionData<'_>) -> Result<(), String> {
        let mut aborted = data.aborted_transactions.clone().unwrap_or_default();
        aborted.sort_by_key(|it| it.first_offset);
        // The producers with an open transaction, at this point of the records, that is aborted
        // later.
        let mut skipped = BTreeSet::new();
        each_batch(data.records.as_deref().unwrap_or_default(), |batch| {
            let header = &batch.header;
            if header.base_offset >= data.last_stable_offset || header.base_offset < reading.from {
                return Ok(());
            }
            reading.from = header.next_offset();
            let begun = aborted.iter().take_while(|it| it.first_offset <= header.last_offset());
            let begun = begun.count();
            skipped.extend(aborted.drain(..begun).map(|it| it.producer_id));
            if header.is_control() {
                skipped.remove(&header.producer_id);
            } else if !skipped.contains(&header.producer_id) {
                for record in batch.records().map_err(|error| error.to_string())? {
                    let record = record.map_err(|error| error.to_string())?;
                    self.take_record(reading, record.key, record.value)?;
                }
            }
            Ok(())
        })
    }

    fn take_record(
        &self,
        reading: &mut Reading,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<(), String> {
        if key.and_then(id_of) != Some(self.id.as_bytes()) {
            return Ok(());
        }
        let value = value.and_then(|value| value.first_chunk::<8>());
        let number = value.map(|value| i64::from_be_bytes(*value));
        if number != Some(reading.next) {
            let Reading { partition, next, .. } = reading;
            return Err(format!("partition {partition} has {number:?} where {next} was due"));
        }
        reading.next += 1;
        Ok(())
    }

    fn begin(&self, transaction_timeout_ms: i32) -> InitProducerIdRequest<'static> {
        let transactional_id = Some(self.id.clone().into());
        InitProducerIdRequest { transactional_id, transaction_timeout_ms, ..Default::default() }
    }

    fn find_offset(&self) -> OffsetFetchRequest<'static> {
        let topic = OffsetFetchRequestTopics {
            name: TRANSACTED.into(),
            partition_indexes: vec![0],
            ..Default::default()
        };
        let group = OffsetFetchRequestGroup {
            group_id: self.id.clone().into(),
            topics: Some(vec![topic]),
            ..Default::default()
        };
        OffsetFetchRequest { groups: vec![group], require_stable: true, ..Default::default() }
    }

    fn add_partitions(&self) -> AddPartitionsToTxnRequest<'static> {
        let partitions = (0..PARTITIONS).collect();
        let topic = AddPartitionsToTxnTopic { name: TRANSACTED.into(), partitions };
        AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: self.id.clone().into(),
            v3_and_below_producer_id: self.producer.0,
            v3_and_below_producer_epoch: self.producer.1,
            v3_and_below_topics: vec![topic],
            ..Default::default()
        }
    }

    fn produce(&self, index: i32) -> ProduceRequest<'static> {
        let mut builder = BatchBuilder::default();
        for number in self.numbers.0..self.numbers.1 {
            let value = number.to_be_bytes();
            let (time, key) = (TIMESTAMP + number * APART_MS, key(&self.id, number));
            builder.append(time, &(&key[..], Some(&value[..])));
        }
        let mut batch = builder.seal(0, -1).to_vec();
        if let Ok(mut header) = BatchHeader::read(&batch) {
            header.set_transaction(self.producer.0, self.producer.1);
            header.base_sequence = self.sequences[index as usize];
            header.write(&mut batch);
        }
        let data = PartitionProduceData { index, records: Some(Bytes::from(batch)) };
        let topic = TopicProduceData {
            name: TRANSACTED.into(),
            partition_data: vec![data],
            ..Default::default()
        };
        ProduceRequest {
            transactional_id: Some(self.id.clone().into()),
            acks: -1,
            timeout_ms: 1_000,
            topic_data: vec![topic],
        }
    }

    fn add_group(&self) -> AddOffsetsToTxnRequest<'static> {
        AddOffsetsToTxnRequest {
            transactional_id: self.id.clone().into(),
            producer_id: self.producer.0,
            producer_epoch: self.producer.1,
            group_id: self.id.clone().into(),
        }
    }

    fn commit(&self) -> TxnOffsetCommitRequest<'static> {
        let partition = TxnOffsetCommitRequestPartition {
            committed_offset: self.numbers.1,
            ..Default::default()
        };
        let topic = TxnOffsetCommitRequestTopic {
            name: TRANSACTED.into(),
            partitions: vec![partition],
            ..Default::default()
        };
        TxnOffsetCommitRequest {
            transactional_id: self.id.clone().into(),
            group_id: self.id.clone().into(),
            producer_id: self.producer.0,
            producer_epoch: self.producer.1,
            topics: vec![topic],
            ..Default::default()
        }
    }

    fn end(&self) -> EndTxnRequest<'static> {
        EndTxnRequest {
            transactional_id: self.id.clone().into(),
            producer_id: self.producer.0,
            producer_epoch: self.producer.1,
            committed: self.commits,
        }
    }
}

/// The key of a number. Each number has its own key, so that compaction removes no committed
/// number.
fn key(id: &str, number: i64) -> Vec<u8> {
    [id.as_bytes(), &number.to_be_bytes()].concat()
}

/// The id in such a key.
pub(super) fn id_of(key: &[u8]) -> Option<&[u8]> {
    key.split_last_chunk::<8>().map(|(id, _)| id)
}

fn fetch(reading: &Reading) -> FetchRequest<'static> {
    let partition = FetchPartition {
        partition: reading.partition,
        fetch_offset: reading.from,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    };
    let topic =
        FetchTopic { topic: TRANSACTED.into(), partitions: vec![partition], ..Default::default() };
    FetchRequest {
        min_bytes: 1,
        max_bytes: 1 << 20,
        isolation_level: 1,
        topics: vec![topic],
        session_epoch: -1,
        ..Default::default()
    }
}

/// The first error of an answer.
fn error_of(response: &Response<'_>) -> i16 {
    let mut error = 0;
    let mut first = |code| error = if error == 0 { code } else { error };
    response.errors(&mut first);
    if let Response::AddPartitionsToTxn(body) = response {
        let topics = body.results_by_topic_v3_and_below.iter();
        let partitions = topics.flat_map(|topic| &topic.results_by_partition);
        partitions.for_each(|it| first(it.partition_error_code));
    }
    error
}

fn fate(error: i16) -> Result<Fate, String> {
    let Some(error) = ErrorCode::from_code(error) else {
        return Err(format!("error {error} is unknown"));
    };
    match error {
        ErrorCode::None => Ok(Fate::Done),
        ErrorCode::NotCoordinator
        | ErrorCode::CoordinatorLoadInProgress
        | ErrorCode::CoordinatorNotAvailable
        | ErrorCode::ConcurrentTransactions
        | ErrorCode::NotEnoughReplicas
        | ErrorCode::NotLeaderOrFollower
        | ErrorCode::UnknownTopicOrPartition
        | ErrorCode::RequestTimedOut
        | ErrorCode::UnstableOffsetCommit => Ok(Fate::Again),
        ErrorCode::InvalidProducerEpoch
        | ErrorCode::ProducerFenced
        | ErrorCode::InvalidTxnState
        | ErrorCode::TransactionAbortable
        | ErrorCode::InvalidProducerIdMapping
        | ErrorCode::OutOfOrderSequenceNumber
        | ErrorCode::OffsetOutOfRange
        | ErrorCode::KafkaStorageError => Ok(Fate::Begin),
        error => Err(format!("it is refused with {error:?}")),
    }
}
