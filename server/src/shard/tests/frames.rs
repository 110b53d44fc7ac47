//! Requests and answers as clients send and read them.

use super::world::World;
use crate::net::ConnectionId;
use crate::shard::Event;
use muster_codec::header::RequestHeader;
use muster_codec::messages::{PartitionProduceData, ProduceRequest, TopicProduceData};
use muster_codec::record_batch::BatchBuilder;
use muster_codec::{ApiKey, Reader, Request, Response};

/// The answers of a connection to requests of one API, in a flexible version.
pub(crate) fn answers(
    world: &mut World,
    id: ConnectionId,
    (api, version): (ApiKey, i16),
) -> Vec<Response<'static>> {
    let bytes = world.shard.output(id).map(std::mem::take).unwrap_or_default();
    let bytes: &'static [u8] = Vec::leak(bytes);
    let (mut rest, mut answers) = (bytes, Vec::new());
    while let Some((length, behind)) = rest.split_first_chunk() {
        let (frame, behind) = behind.split_at(u32::from_be_bytes(*length) as usize);
        // Tagged fields follow the correlation id.
        let mut reader = Reader::new(&frame[5..]);
        answers.push(Response::read(api, version, &mut reader).unwrap());
        rest = behind;
    }
    answers
}

/// A request as a client sends it.
pub(crate) fn frame(version: i16, request: impl Into<Request<'static>>) -> Vec<u8> {
    frame_of("", version, request)
}

/// The frame of a client with a client id.
pub(crate) fn frame_of(
    client_id: &str,
    version: i16,
    request: impl Into<Request<'static>>,
) -> Vec<u8> {
    let request = request.into();
    let api_key = request.api_key() as i16;
    let client_id = (!client_id.is_empty()).then(|| client_id.to_owned().into());
    let header = RequestHeader { api_key, api_version: version, correlation_id: 7, client_id };
    let mut out = vec![0; 4];
    header.write(&mut out);
    request.write(version, &mut out).unwrap();
    let length = (out.len() - 4) as u32;
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

/// Adds a batch of records to the first partition of a topic; the answer is not kept.
pub(crate) fn produce(world: &mut World, id: ConnectionId, topic: &str, records: usize) {
    let mut builder = BatchBuilder::default();
    for _ in 0..records {
        builder.append(1_000, &(&b"key"[..], Some(&b"value"[..])));
    }
    let records = Some(builder.seal(0, -1).to_vec().into());
    let partition_data = vec![PartitionProduceData { index: 0, records }];
    let name = topic.to_owned().into();
    let topic_data = vec![TopicProduceData { name, partition_data, ..Default::default() }];
    let request = ProduceRequest { acks: 1, timeout_ms: 1_000, topic_data, ..Default::default() };
    world.step(Event::Received { connection: id, data: &frame(12, request) });
    world.pass(0);
    world.shard.output(id).map(std::mem::take);
}
