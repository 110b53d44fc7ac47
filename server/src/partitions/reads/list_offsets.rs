//! ListOffsets. The first and the last offset are known; an offset by time needs a scan of the log.

use super::Reads;
use super::lookup::{Asker, Lookup, Target};
use crate::partitions::disk::Disk;
use crate::partitions::effects::{Call, Effects};
use crate::partitions::isolation::{ISOLATION_LEVELS, reads_committed};
use crate::partitions::locate::check_leader_epoch;
use crate::partitions::partition_id::PartitionId;
use crate::partitions::table::Table;
use muster_codec::ErrorCode;
use muster_codec::messages::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopic, ListOffsetsTopicResponse,
};
use std::collections::{BTreeMap, HashMap};

/// Timestamps with a special meaning (`ListOffsetsRequest`). For the version that added each of
/// them see `first_version` (`ReplicaManager.timestampMinSupportedVersion`).
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// A partition as a client names it.
type Named<'r> = (&'r str, i32);

/// Whether a request names a partition once or several times.
enum Mentions {
    Once,
    Several,
    /// The partition is named several times, and the error was answered.
    Answered,
}

/// The answer for a partition, or the search that finds it.
enum Found {
    /// A timestamp, an offset and a leader epoch. Each is -1 if there is none.
    Offset(i64, i64, i32),
    ByScan(Target),
}

impl Reads {
    /// ListOffsets v1 to v11.
    pub(in crate::partitions) fn list_offsets(
        &mut self,
        table: &Table,
        disk: &mut Disk,
        call: Call<'_>,
        body: &ListOffsetsRequest<'_>,
        out: &mut Effects,
    ) {
        if !ISOLATION_LEVELS.contains(&body.isolation_level) {
            return out.send(call.request, refuse_all(body));
        }
        let mut named = count_names(body);
        let mut places = HashMap::with_capacity(body.topics.len());
        let reads_committed = reads_committed(body.isolation_level);
        let mut lookup = Lookup::new(Asker::Client(call.request), reads_committed);
        // In the answer a topic occurs once. A topic without partitions does not occur.
        for topic in body.topics.iter().filter(|topic| !topic.partitions.is_empty()) {
            let topics = &mut lookup.response.topics;
            let place = *places.entry(&*topic.name).or_insert(topics.len());
            if place == topics.len() {
                let name = topic.name.clone().into_owned().into();
                topics.push(ListOffsetsTopicResponse { name, partitions: Vec::new() });
            }
            list_topic(table, call, topic, place, &mut named, &mut lookup);
        }
        self.start_lookup(table, disk, lookup, out);
    }
}

fn list_topic<'r>(
    table: &Table,
    call: Call<'_>,
    topic: &'r ListOffsetsTopic<'_>,
    place: usize,
    named: &mut BTreeMap<Named<'r>, Mentions>,
    lookup: &mut Lookup,
) {
    for asked in &topic.partitions {
        let partition_index = asked.partition_index;
        let found = match named.get_mut(&(&*topic.name, partition_index)) {
            Some(Mentions::Answered) => continue,
            Some(times @ Mentions::Several) => {
                *times = Mentions::Answered;
                Err(ErrorCode::InvalidRequest)
            }
            Some(Mentions::Once) | None => {
                list_partition(table, call, &topic.name, asked, lookup.reads_committed)
            }
        };
        let mut answer = ListOffsetsPartitionResponse { partition_index, ..Default::default() };
        match found {
            Err(error) => answer.error_code = error.code(),
            Ok((_, Found::Offset(timestamp, offset, leader_epoch))) => {
                (answer.timestamp, answer.offset) = (timestamp, offset);
                answer.leader_epoch = leader_epoch;
            }
            Ok((id, Found::ByScan(target))) => {
                let partition = lookup.response.topics[place].partitions.len();
                lookup.want(id, target, place, partition);
            }
        }
        lookup.response.topics[place].partitions.push(answer);
    }
}

fn list_partition(
    table: &Table,
    call: Call<'_>,
    topic: &str,
    asked: &ListOffsetsPartition,
    reads_committed: bool,
) -> Result<(PartitionId, Found), ErrorCode> {
    if call.version < first_version(asked.timestamp)? {
        return Err(ErrorCode::UnsupportedVersion);
    }
    let id = table.locate_named(call.image, topic, asked.partition_index)?;
    check_leader_epoch(asked.current_leader_epoch)?;
    let bounds = table.bounds(id);
    let end = if reads_committed { bounds.stable } else { bounds.high_watermark };
    let found = match asked.timestamp {
        LATEST => Found::Offset(-1, end, 0),
        EARLIEST | EARLIEST_LOCAL => Found::Offset(-1, bounds.log_start, 0),
        LATEST_TIERED | EARLIEST_PENDING_UPLOAD => Found::Offset(-1, -1, -1),
        // The shard's log has no index by time.
        _ if id.is_internal() => Found::Offset(-1, -1, -1),
        MAX_TIMESTAMP => Found::ByScan(Target::Newest),
        timestamp => Found::ByScan(Target::AtOrAfter(timestamp)),
    };
    Ok((id, found))
}

/// Kafka's answer when it fails to handle a request.
fn refuse_all(body: &ListOffsetsRequest<'_>) -> ListOffsetsResponse<'static> {
    let refuse = |asked: &ListOffsetsPartition| ListOffsetsPartitionResponse {
        partition_index: asked.partition_index,
        error_code: ErrorCode::UnknownServerError.code(),
        ..Default::default()
    };
    let topics = body.topics.iter().map(|topic| ListOffsetsTopicResponse {
        name: topic.name.clone().into_owned().into(),
        partitions: topic.partitions.iter().map(refuse).collect(),
    });
    ListOffsetsResponse { topics: topics.collect(), ..Default::default() }
}

/// The first version of the API that accepts the timestamp.
fn first_version(timestamp: i64) -> Result<i16, ErrorCode> {
    Ok(match timestamp {
        0.. | LATEST | EARLIEST => 1,
        MAX_TIMESTAMP => 7,
        EARLIEST_LOCAL => 8,
        LATEST_TIERED => 9,
        EARLIEST_PENDING_UPLOAD => 11,
        _ => return Err(ErrorCode::UnsupportedVersion),
    })
}

/// Counts how often each partition is named. Kafka answers a repeated partition once, with an
/// error.
fn count_names<'r>(body: &'r ListOffsetsRequest<'_>) -> BTreeMap<Named<'r>, Mentions> {
    let mut named = BTreeMap::new();
    for topic in &body.topics {
        for partition in &topic.partitions {
            named
                .entry((&*topic.name, partition.partition_index))
                .and_modify(|times| *times = Mentions::Several)
                .or_insert(Mentions::Once);
        }
    }
    named
}
