//! The records in partition 0 of a topic.

use super::Client;
use muster_codec::Response;
use muster_codec::messages::*;
use muster_codec::record_batch::Batches;

/// The error code of a fetch, and the base offset of its first batch.
pub fn fetched(client: &mut Client, topic: &'static str, fetch_offset: i64) -> (i16, Option<i64>) {
    let partition_max_bytes = 1;
    let partition = FetchPartition { fetch_offset, partition_max_bytes, ..Default::default() };
    let partitions = vec![partition];
    let topic = FetchTopic { topic: topic.into(), partitions, ..Default::default() };
    let request = FetchRequest { max_bytes: 1 << 20, topics: vec![topic], ..Default::default() };
    let Response::Fetch(body) = client.call(12, request.into()) else { panic!() };
    let partition = &body.responses[0].partitions[0];
    let records = partition.records.as_deref().unwrap_or_default();
    let base = Batches::new(records).next().map(|it| it.unwrap().header.base_offset);
    (partition.error_code, base)
}
