//! A shard's partitions on a file system in memory, with a clock that the test sets.

use super::super::layout;
use super::super::{Call, Effects, FailedRead, Identity, Outcome, PartitionId, Partitions, Reply};
use crate::clock::Times;
use crate::cluster::{ClusterImage, Endpoint};
use crate::config::Config;
pub(super) use crate::config::ListenerIndex;
use crate::disk_space::DiskSpace;
use crate::placement::Placement;
use muster_codec::messages::*;
use muster_codec::record_batch::{BatchBuilder, BatchHeader, TimestampType, set_max_timestamp};
use muster_codec::records::{ClusterRecord, ConfigKey, ConfigValue, TopicKey, TopicValue};
use muster_codec::{Bytes, ErrorCode, Response, Uuid, Wall};
use muster_coordinator::RequestId;
use muster_fairness::Address;
use muster_storage::{FileDone, FileId, FileOp, FileRange};
use muster_transactions::message::{FromSlot, Question};
use std::collections::VecDeque;
use test_disk::Disk;

pub(super) const NOW: i64 = 1_700_000_000_000;
pub(super) const TOPIC: &str = "orders";
const TOKEN_TAG: u8 = 7;

/// Everything around the partitions.
pub(super) struct World {
    pub partitions: Partitions,
    pub config: Config,
    pub image: ClusterImage,
    pub now: i64,
    /// The wall clock. It advances with `now`, but a test may also change it without `now`.
    pub wall: Wall,
    pub disk: Disk,
    /// The address of the client that calls.
    pub address: Address,
    /// Completions that have not been passed to the partitions yet.
    pub done: VecDeque<FileDone>,
    pub replies: Vec<Reply>,
    /// How far the wall clock has just jumped, in ms.
    pub jumped_ms: i64,
    pub failed_reads: Vec<FailedRead>,
    pub questions: Vec<Question>,
    /// Messages to the coordinators of transactions.
    pub messages: Vec<(u32, FromSlot)>,
    pub sequence: u64,
}

impl World {
    /// A world with one shard, and a topic of two partitions.
    pub(super) fn new() -> Self {
        Self::with_shards(1)
    }

    pub(super) fn with_shards(shards: u32) -> Self {
        // Looks are off: tests of lost files switch them on.
        let mut config = Config::default();
        config.state_check_max_bytes_per_second = 0;
        let mut world = Self {
            partitions: Partitions::new(config.clone(), identity(shards)),
            image: ClusterImage::new(&config),
            config,
            now: NOW,
            wall: Wall(NOW),
            disk: Disk::default(),
            address: Address::of("/127.0.0.1"),
            done: VecDeque::new(),
            replies: Vec::new(),
            jumped_ms: 0,
            failed_reads: Vec::new(),
            questions: Vec::new(),
            messages: Vec::new(),
            sequence: 0,
        };
        world.add_topic(TOPIC, topic_id(), 2);
        world
    }

    pub(super) fn add_topic(&mut self, name: &str, id: Uuid, partitions: i32) {
        let value = TopicValue { name: name.into(), partitions, ..Default::default() };
        self.image.apply(&ClusterRecord::Topic(TopicKey { topic_id: id }, Some(value)));
        self.image_changed();
    }

    pub(super) fn remove_topic(&mut self, id: Uuid) {
        self.image.apply(&ClusterRecord::Topic(TopicKey { topic_id: id }, None));
        self.image_changed();
    }

    /// Sets a config of the topic.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        let key = ConfigKey { resource_type: 2, resource_name: TOPIC.into(), name: name.into() };
        let value = ConfigValue { value: value.into() };
        self.image.apply(&ClusterRecord::Config(key, Some(value)));
        self.image_changed();
    }

    fn image_changed(&mut self) {
        let mut out = Effects::default();
        self.partitions.image_changed(self.times(), &self.config, &self.image, &mut out);
        self.perform(out);
    }

    /// Stops this process and starts a new one, which opens the same files.
    pub(super) fn reopen(&mut self) {
        self.settle();
        let directory = tempfile::tempdir().unwrap();
        self.disk.save(directory.path());
        self.disk.close_all();
        self.partitions = Partitions::new(self.config.clone(), identity(1));
        let mut out = Effects::default();
        self.partitions.open(self.times(), directory.path(), &self.image, &mut out).unwrap();
        self.perform(out);
        self.settle();
    }

    /// Makes a call. Performs its file operations, but keeps their completions until `settle` is
    /// called.
    pub(super) fn call<T>(
        &mut self,
        version: i16,
        body: &T,
        handle: impl FnOnce(&mut Partitions, Call<'_>, &T, &mut Effects),
    ) -> RequestId {
        self.sequence += 1;
        let request = RequestId { connection: 1, sequence: self.sequence };
        let mut out = Effects::default();
        let call = Call {
            now: self.now,
            wall: self.wall,
            request,
            version,
            listener: ListenerIndex::FIRST,
            address: self.address,
            image: &self.image,
        };
        handle(&mut self.partitions, call, body, &mut out);
        self.perform(out);
        request
    }

    /// Runs a clean stop. Returns the number of syncs.
    pub(super) fn sync_all(&mut self) -> usize {
        let before = self.disk.syncs;
        self.partitions.upkeep_mut().sync_from_the_first();
        loop {
            let mut out = Effects::default();
            let are_left = self.partitions.sync_next(&mut out);
            assert!(out.ops.iter().filter(|op| matches!(op, FileOp::Sync { .. })).count() <= 64);
            self.perform(out);
            self.settle();
            if !are_left {
                return self.disk.syncs - before;
            }
        }
    }

    /// Passes all completions to the partitions. The operations that these cause are completed,
    /// too.
    pub(super) fn settle(&mut self) {
        while self.settle_one() {}
    }

    /// Passes one completion to the partitions. Returns false if there is none.
    pub(super) fn settle_one(&mut self) -> bool {
        let Some(done) = self.done.pop_front() else { return false };
        let mut out = Effects::default();
        self.partitions.file_done(done, &mut out);
        self.perform(out);
        true
    }

    pub(super) fn times(&self) -> Times {
        Times { wall: self.wall, jumped_ms: self.jumped_ms, ..Times::both(self.now) }
    }

    /// Lets this time pass.
    pub(super) fn pass(&mut self, ms: i64) {
        self.now += ms;
        self.wall.0 += ms;
        let mut out = Effects::default();
        self.partitions.expire(self.times(), &mut out);
        self.perform(out);
        self.settle();
    }

    pub(super) fn perform(&mut self, out: Effects) {
        for op in out.ops {
            if let FileOp::Write { token, .. } = &op {
                assert_eq!(token.0 >> 56, u64::from(TOKEN_TAG), "the token has the tag");
            }
            self.done.extend(self.disk.perform(op));
        }
        self.replies.extend(out.replies);
        self.failed_reads.extend(out.failed_reads);
        self.questions.extend(out.questions);
        self.messages.extend(out.messages);
    }

    /// The outcome of a request, if it has ended.
    pub(super) fn outcome(&mut self, request: RequestId) -> Option<Outcome> {
        let at = self.replies.iter().position(|reply| reply.request == request)?;
        Some(self.replies.remove(at).outcome)
    }

    pub(super) fn response(&mut self, request: RequestId) -> Option<Response<'static>> {
        match self.outcome(request)? {
            Outcome::Send(response) | Outcome::Throttle(response, _) => Some(response),
            Outcome::SendFiles(response, files) => Some(self.sent(response, &files)),
            other => panic!("not a response: {other:?}"),
        }
    }

    /// Puts the records from parts of files into an answer, and releases the parts.
    fn sent(&mut self, response: Response<'static>, files: &[FileRange]) -> Response<'static> {
        let Response::Fetch(mut body) = response else { panic!("not a fetch") };
        let partitions = body.responses.iter_mut().flat_map(|topic| &mut topic.partitions);
        let gaps = partitions.filter(|it| it.records.as_ref().is_some_and(|it| it.gap().is_some()));
        let mut ops = Vec::new();
        for (data, range) in gaps.zip(files) {
            let FileRange { file, offset, len } = *range;
            let path = self.partitions.held_path(file).unwrap();
            let (start, end) = (offset as usize, offset as usize + len as usize);
            data.records = Some(self.disk.live[&path][start..end].to_vec().into());
            self.partitions.release(file, &mut ops);
        }
        assert!(body.gaps().next().is_none());
        ops.into_iter().for_each(|op| self.done.extend(self.disk.perform(op)));
        body.into()
    }

    pub(super) fn start_produce(&mut self, partition: i32, batch: &[u8]) -> RequestId {
        self.call(9, &produce_request(-1, partition, batch), Partitions::produce)
    }

    pub(super) fn produced(
        &mut self,
        request: RequestId,
    ) -> Option<PartitionProduceResponse<'static>> {
        let Response::Produce(response) = self.response(request)? else { panic!("not a produce") };
        response.responses.into_iter().next()?.partition_responses.into_iter().next()
    }

    /// Produces a batch and waits for the answer.
    pub(super) fn produce(
        &mut self,
        partition: i32,
        batch: &[u8],
    ) -> PartitionProduceResponse<'static> {
        let request = self.start_produce(partition, batch);
        self.settle();
        self.produced(request).unwrap()
    }

    /// Produces a batch that must be accepted, and returns its base offset.
    pub(super) fn append(&mut self, partition: i32, batch: &[u8]) -> i64 {
        let answer = self.produce(partition, batch);
        assert_eq!(error(answer.error_code), ErrorCode::None, "{answer:?}");
        answer.base_offset
    }

    pub(super) fn start_fetch(&mut self, request: &FetchRequest<'_>) -> RequestId {
        self.call(12, request, Partitions::fetch)
    }

    pub(super) fn fetched(&mut self, request: RequestId) -> Option<FetchResponse<'static>> {
        let Response::Fetch(response) = self.response(request)? else { panic!("not a fetch") };
        Some(response)
    }

    /// Fetches one partition without waiting.
    pub(super) fn fetch(&mut self, partition: i32, offset: i64) -> PartitionData<'static> {
        let request = self.start_fetch(&fetch_request(0, &[(partition, offset)]));
        self.settle();
        only(self.fetched(request).unwrap())
    }

    pub(super) fn list(&mut self, partition: i32, timestamp: i64) -> ListOffsetsPartitionResponse {
        let topic = ListOffsetsTopic {
            name: TOPIC.into(),
            partitions: vec![ListOffsetsPartition {
                partition_index: partition,
                current_leader_epoch: -1,
                timestamp,
            }],
        };
        let body = ListOffsetsRequest { topics: vec![topic], ..Default::default() };
        let request = self.call(11, &body, Partitions::list_offsets);
        self.settle();
        match self.response(request) {
            Some(Response::ListOffsets(response)) => response.topics[0].partitions[0].clone(),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn delete_before(&mut self, partition: i32, offset: i64) -> (i64, ErrorCode) {
        let partitions = vec![DeleteRecordsPartition { partition_index: partition, offset }];
        let topic = DeleteRecordsTopic { name: TOPIC.into(), partitions };
        let body = DeleteRecordsRequest { topics: vec![topic], timeout_ms: 1 };
        let request = self.call(2, &body, Partitions::delete_records);
        self.settle();
        match self.response(request) {
            Some(Response::DeleteRecords(response)) => {
                let result = &response.topics[0].partitions[0];
                (result.low_watermark, error(result.error_code))
            }
            other => panic!("{other:?}"),
        }
    }
}

impl World {
    /// The bytes of the first segment of a partition.
    pub(super) fn segment(&mut self, partition: i32) -> &mut Vec<u8> {
        let name = self.segments(partition)[0].clone();
        let id = PartitionId { topic: topic_id(), index: partition };
        self.disk.live.get_mut(&layout::directory(id).join(name)).unwrap()
    }

    /// The content of the file with the recovery points.
    pub(super) fn points(&mut self) -> Option<&mut Vec<u8>> {
        let [path, _] = layout::recovery_points(0);
        self.disk.live.get_mut(&path)
    }

    /// The names of the segment files of one partition.
    pub(super) fn segments(&self, partition: i32) -> Vec<String> {
        let id = PartitionId { topic: topic_id(), index: partition };
        let directory = layout::directory(id);
        let files = self.disk.live.keys().filter(|path| path.starts_with(&directory));
        let names = files.map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
        names.filter(|name| name.ends_with(".log")).collect()
    }
}

pub(super) fn topic_id() -> Uuid {
    Uuid([0; 16].map(|_: u8| 2))
}

/// The id of a topic with many partitions.
pub(super) fn wide_id() -> Uuid {
    Uuid([0; 16].map(|_: u8| 3))
}

pub(super) fn error(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).unwrap()
}

fn identity(shards: u32) -> Identity {
    let endpoint = |shard: u32| Endpoint { host: "here".to_owned(), port: 9092 + shard as u16 };
    Identity {
        shard: 0,
        placement: Placement::of_equal(shards, 50),
        endpoints: (0..shards).map(endpoint).collect(),
        first_file: FileId(100),
        open_files_max: 3,
        token_tag: TOKEN_TAG,
        first_number: 0,
        secret: 0,
        space: DiskSpace::default(),
    }
}

pub(super) fn produce_request(acks: i16, partition: i32, batch: &[u8]) -> ProduceRequest<'static> {
    let request = produce_request_to((TOPIC, topic_id()), partition, batch);
    ProduceRequest { acks, ..request }
}

pub(super) fn produce_request_to(
    (name, topic_id): (&'static str, Uuid),
    partition: i32,
    batch: &[u8],
) -> ProduceRequest<'static> {
    let records = Some(Bytes::from(batch.to_vec()));
    let partition_data = vec![PartitionProduceData { index: partition, records }];
    let topic_data = vec![TopicProduceData { name: name.into(), topic_id, partition_data }];
    ProduceRequest { transactional_id: None, acks: -1, timeout_ms: 1_000, topic_data }
}

/// A fetch that waits up to `max_wait_ms` for one byte.
pub(super) fn fetch_request(max_wait_ms: i32, wants: &[(i32, i64)]) -> FetchRequest<'static> {
    let partition = |(partition, fetch_offset): &(i32, i64)| FetchPartition {
        partition: *partition,
        fetch_offset: *fetch_offset,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    };
    let partitions = wants.iter().map(partition).collect();
    let topics = vec![FetchTopic { topic: TOPIC.into(), topic_id: topic_id(), partitions }];
    FetchRequest { max_wait_ms, min_bytes: 1, topics, ..Default::default() }
}

pub(super) fn only(response: FetchResponse<'static>) -> PartitionData<'static> {
    assert_eq!(response.responses.len(), 1);
    response.responses.into_iter().next().unwrap().partitions.into_iter().next().unwrap()
}

/// A batch of records with these timestamps.
pub(super) fn timed_batch(times: &[i64]) -> Vec<u8> {
    let mut builder = BatchBuilder::default();
    for time in times {
        builder.append(*time, &(&b"key"[..], Some(&b"value"[..])));
    }
    builder.seal(0, -1).to_vec()
}

/// A batch of this number of records with timestamp [`NOW`].
pub(super) fn batch(records: usize) -> Vec<u8> {
    timed_batch(&vec![NOW; records])
}

/// A batch of one record, slightly larger than `bytes`.
pub(super) fn large_batch(bytes: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::default();
    builder.append(NOW, &(&b"key"[..], Some(&vec![b'x'; bytes][..])));
    builder.seal(0, -1).to_vec()
}

/// Changes bytes of a batch and corrects its checksum.
pub(super) fn patch(mut batch: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    batch[at..at + bytes.len()].copy_from_slice(bytes);
    let header = BatchHeader::read(&batch).unwrap();
    let (by, time) = (header.timestamp_type(), header.max_timestamp);
    // A changed timestamp makes `set_max_timestamp` compute the checksum. Then the timestamp is
    // restored.
    set_max_timestamp(&mut batch, TimestampType::CreateTime, time.wrapping_add(1));
    set_max_timestamp(&mut batch, by, time);
    batch
}

/// A batch of an idempotent producer.
pub(super) fn sequenced(records: usize, producer: i64, epoch: i16, sequence: i32) -> Vec<u8> {
    let mut fields = producer.to_be_bytes().to_vec();
    fields.extend(epoch.to_be_bytes());
    fields.extend(sequence.to_be_bytes());
    patch(batch(records), 43, &fields)
}

/// The base offset and the last offset of each complete batch in the records of a fetch.
pub(super) fn ranges(data: &PartitionData<'_>) -> Vec<(i64, i64)> {
    let bytes = data.records.as_ref().unwrap();
    let batches = muster_codec::record_batch::Batches::new(bytes);
    let batches = batches.map_while(Result::ok).map(|batch| {
        batch.validate().unwrap();
        (batch.header.base_offset, batch.header.last_offset())
    });
    batches.collect()
}
