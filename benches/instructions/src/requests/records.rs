//! Produce and Fetch requests. Each client has a partition of its own.

use super::{COUNT, Clients, Requests, client_of, create_topic};
use muster_codec::messages::*;
use muster_codec::record_batch::BatchBuilder;
use muster_codec::{Bytes, Records, Response, Uuid};

/// The length of a batch's first three fields: base offset, batch length and leader epoch. The
/// server sets the first and the last of them.
const SET_BY_SERVER: usize = 16;

const VALUE: &[u8] = &[b'v'; 100];

/// Produces batches of one record with `acks=all`, the producer's default.
pub(super) struct Produces {
    topic_id: Uuid,
    batch: Vec<u8>,
}

impl Produces {
    pub(super) fn new(clients: &mut Clients) -> Self {
        let mut builder = BatchBuilder::default();
        builder.append(clients.now(), &(&b"key"[..], Some(VALUE)));
        Self { topic_id: create_topic(clients), batch: builder.seal(0, -1).to_vec() }
    }
}

impl Requests for Produces {
    fn send(&mut self, clients: &mut Clients, number: u32) {
        let client = client_of(number);
        let partition = PartitionProduceData {
            index: client as i32,
            records: Some(Bytes::from(self.batch.clone())),
        };
        let topic = TopicProduceData {
            topic_id: self.topic_id,
            partition_data: vec![partition],
            ..Default::default()
        };
        let request = ProduceRequest {
            acks: -1,
            timeout_ms: 30_000,
            topic_data: vec![topic],
            transactional_id: None,
        };
        let Response::Produce(body) = clients.ask(client, 13, request) else { unreachable!() };
        let answer = &body.responses[0].partition_responses[0];
        let offset = i64::from(number / COUNT);
        assert_eq!((answer.error_code, answer.base_offset), (0, offset), "{body:?}");
    }
}

/// Fetches the only record of a partition, without a fetch session.
pub(super) struct Fetches {
    topic_id: Uuid,
    batch: Vec<u8>,
}

impl Fetches {
    pub(super) fn new(clients: &mut Clients) -> Self {
        let mut produces = Produces::new(clients);
        (0..COUNT).for_each(|client| produces.send(clients, client));
        Self { topic_id: produces.topic_id, batch: produces.batch }
    }
}

impl Requests for Fetches {
    fn send(&mut self, clients: &mut Clients, number: u32) {
        let client = client_of(number);
        let partition = FetchPartition {
            partition: client as i32,
            fetch_offset: 0,
            partition_max_bytes: 1 << 20,
            ..Default::default()
        };
        let topic = FetchTopic {
            topic_id: self.topic_id,
            partitions: vec![partition],
            ..Default::default()
        };
        let request = FetchRequest {
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: 50 << 20,
            topics: vec![topic],
            ..Default::default()
        };
        let Response::Fetch(body) = clients.ask(client, 18, request) else { unreachable!() };
        let answer = &body.responses[0].partitions[0];
        assert_eq!((answer.error_code, answer.high_watermark), (0, 1), "{body:?}");
        let Some(Records::Here(records)) = &answer.records else { panic!("{body:?}") };
        assert_eq!(records[SET_BY_SERVER..], self.batch[SET_BY_SERVER..]);
    }
}
