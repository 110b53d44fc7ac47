//! Sequences of valid and invalid requests to a shard of the server, with a slow disk and with
//! clients that connect and disconnect. Input: a sequence of actions.
//!
//! Properties: each request is answered once, in order, with bytes that can be decoded in its
//! version; at the end the log on disk can be loaded.

use crate::asks::{Known, TOPICS, ask};
use crate::batches::repair_batch;
use crate::memory::within;
use crate::world::{Expected, World};
use arbitrary::{Arbitrary, Result, Unstructured};
use muster_codec::header::RequestHeader;
use muster_codec::messages::*;
use muster_codec::record_batch::BatchBuilder;
use muster_codec::{ApiKey, Bytes, Reader, Request};
use muster_coordinator::{Config, Coordinator};
use muster_server::shard::log_directory;
use muster_server::topics;
use muster_storage::Recovery;
use muster_storage::shard_log::recovery::segment_files;

const GRANTED_BYTES: usize = 128 << 20;
const ACTIONS_MAX: usize = 200;
const CONNECTIONS: u32 = 3;

pub fn run(input: &[u8]) {
    within(GRANTED_BYTES, || {
        let mut run = Run { world: World::new(CONFIGS), known: Known::default(), requests: 0 };
        let mut u = Unstructured::new(input);
        run.ask(0, 7, create_topic(TOPICS[0], 2).into());
        run.world.settle();
        for _ in 0..ACTIONS_MAX {
            if u.is_empty() || run.act(&mut u).is_err() {
                break;
            }
        }
        run.world.settle();
        run.read_answers();
        run.recover();
    });
}

const CONFIGS: &[&str] = &[
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.assignment.interval.ms=0",
    "offsets.topic.num.partitions=3",
    "socket.request.max.bytes=1000000",
];

struct Run {
    world: World,
    known: Known,
    requests: i32,
}

impl Run {
    fn act(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let slot = u.int_in_range(0..=CONNECTIONS - 1)?;
        match u.int_in_range(0..=15)? {
            0 => self.world.advance(i64::from(u16::arbitrary(u)?)),
            1 => self.world.perform(u.arbitrary::<u8>()?.into()),
            2 => self.world.settle(),
            3 if self.requests % 2 == 0 => self.world.end_input(slot),
            3 => self.world.end(slot),
            4 => self.raw_body(slot, u)?,
            5 => self.produce(slot, u)?,
            6 => {
                self.ask(slot, 7, create_topic(u.choose(&TOPICS)?, u.int_in_range(-1..=3)?).into())
            }
            7 => self.ask(slot, 5, delete_topic(u.choose(&TOPICS)?).into()),
            8 => self.ask(slot, 12, fetch(u)?.into()),
            9 => self.garbage(slot, u)?,
            _ => {
                let (version, request) = ask(u, &self.known)?;
                self.ask(slot, version, request.into());
            }
        }
        self.read_answers();
        Ok(())
    }

    fn ask(&mut self, slot: u32, version: i16, request: Request<'_>) {
        let mut body = Vec::new();
        request.write(version, &mut body).unwrap();
        // As in Kafka, a Produce with acks=0 has no answer.
        let is_answered = !matches!(&request, Request::Produce(body) if body.acks == 0);
        self.send(slot, request.api_key(), version, &body, is_answered);
    }

    /// Sends a body from the input. About half of such bodies are invalid, and end the connection.
    fn raw_body(&mut self, slot: u32, u: &mut Unstructured<'_>) -> Result<()> {
        let api = *u.choose(ApiKey::ALL)?;
        let version = u.int_in_range(api.versions())?;
        let length = u.int_in_range(0..=255)?;
        let body = u.bytes(usize::min(length, u.len()))?;
        let acks_zero = matches!(
            Request::read(api, version, &mut Reader::new(body)),
            Ok(Request::Produce(body)) if body.acks == 0
        );
        self.send(slot, api, version, body, !acks_zero);
        Ok(())
    }

    fn send(&mut self, slot: u32, api: ApiKey, version: i16, body: &[u8], is_answered: bool) {
        self.requests += 1;
        let header = RequestHeader {
            api_key: api as i16,
            api_version: version,
            correlation_id: self.requests,
            client_id: Some("fuzz".into()),
        };
        let mut frame = vec![0; 4];
        header.write(&mut frame);
        frame.extend_from_slice(body);
        let length = (frame.len() - 4) as i32;
        frame[..4].copy_from_slice(&length.to_be_bytes());
        self.world.open(slot);
        let connection = self.world.connections.get_mut(&slot).filter(|_| is_answered);
        if let Some(connection) = connection {
            connection.expected.push_back(Expected { api, version, id: self.requests });
        }
        self.world.receive(slot, &frame);
    }

    /// Sends bytes that may not be a frame. The answers are not read.
    fn garbage(&mut self, slot: u32, u: &mut Unstructured<'_>) -> Result<()> {
        let length = u.int_in_range(0..=64)?;
        let bytes = u.bytes(usize::min(length, u.len()))?;
        self.world.open(slot);
        self.world.receive(slot, bytes);
        self.world.end(slot);
        Ok(())
    }

    fn produce(&mut self, slot: u32, u: &mut Unstructured<'_>) -> Result<()> {
        let mut builder = BatchBuilder::default();
        for _ in 0..u.int_in_range(1..=3)? {
            builder.append(u.int_in_range(0..=1_000)?, &(&b"key"[..], Some(&b"value"[..])));
        }
        let mut batch = builder.seal(0, -1).to_vec();
        for _ in 0..u.int_in_range(0..=4)? {
            let at = u.choose_index(batch.len())?;
            batch[at] = u.arbitrary()?;
        }
        if u.ratio(3, 4)? {
            repair_batch(&mut batch);
        }
        let index = u.int_in_range(0..=2)?;
        let records = Some(Bytes::from(batch));
        let partition_data = vec![PartitionProduceData { index, records }];
        let name = (*u.choose(&TOPICS)?).into();
        let topic_data = vec![TopicProduceData { name, partition_data, ..Default::default() }];
        let request = ProduceRequest {
            acks: u.int_in_range(-1..=1)?,
            timeout_ms: 1_000,
            topic_data,
            ..Default::default()
        };
        self.ask(slot, 9, request.into());
        Ok(())
    }

    /// Reads the answers on all connections.
    fn read_answers(&mut self) {
        for slot in 0..CONNECTIONS {
            let known = &mut self.known;
            self.world.answers(slot, |response| known.learn(response));
            self.world.taken(slot);
        }
    }

    /// Checks that a server could start with the log on disk.
    fn recover(&self) {
        let files = self.world.files_in(&log_directory(1, 0));
        let mut recovery = Recovery::new(topics::RULES);
        let mut coordinator = Coordinator::new(Config::default());
        for (sequence, name) in segment_files(files.keys().cloned()) {
            let recovered = recovery.segment(sequence, &files[&name], |found| {
                if found.partition != topics::CLUSTER {
                    let records = found.batch.records().unwrap();
                    coordinator.replay_batch(&found.batch.header, records, 0).unwrap();
                }
            });
            recovered.unwrap();
        }
    }
}

fn create_topic(name: &'static str, num_partitions: i32) -> CreateTopicsRequest<'static> {
    let topic = CreatableTopic {
        name: name.into(),
        num_partitions,
        replication_factor: -1,
        ..Default::default()
    };
    CreateTopicsRequest { topics: vec![topic], timeout_ms: 1_000, ..Default::default() }
}

fn delete_topic(name: &'static str) -> DeleteTopicsRequest<'static> {
    let topic_names = vec![name.into()];
    DeleteTopicsRequest { topic_names, timeout_ms: 1_000, ..Default::default() }
}

fn fetch(u: &mut Unstructured<'_>) -> Result<FetchRequest<'static>> {
    let partition = FetchPartition {
        partition: u.int_in_range(-1..=2)?,
        fetch_offset: u.int_in_range(-1..=8)?,
        partition_max_bytes: u.int_in_range(0..=2_000)?,
        ..Default::default()
    };
    let topic = if u.ratio(1, 3)? { "__consumer_offsets" } else { *u.choose(&TOPICS)? };
    let topic =
        FetchTopic { topic: topic.into(), partitions: vec![partition], ..Default::default() };
    Ok(FetchRequest {
        max_bytes: u.int_in_range(0..=100_000)?,
        max_wait_ms: u.int_in_range(0..=500)?,
        min_bytes: u.int_in_range(0..=500)?,
        topics: vec![topic],
        ..Default::default()
    })
}
