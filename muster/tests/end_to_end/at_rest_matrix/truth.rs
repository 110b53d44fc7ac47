//! All acknowledged data that clients can see: topics, their records, groups, and offsets.

use crate::support::{Client, rules};
use muster_codec::messages::*;
use muster_codec::record_batch::Batches;
use muster_codec::{ErrorCode, Reader, Request, Response, Str, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

pub type Partition = (String, i32);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Truth {
    pub topics: BTreeMap<String, Topic>,
    pub partitions: BTreeMap<Partition, Log>,
    pub groups: BTreeMap<String, Group>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    pub id: Uuid,
    pub partitions: usize,
    /// `max.message.bytes`, a config that is set for one topic.
    pub config: Option<String>,
}

/// The result of fetching a partition from its first offset to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Log {
    Online {
        start: i64,
        end: i64,
        records: u64,
        bytes: usize,
        crc: u32,
    },
    /// The broker answers KAFKA_STORAGE_ERROR.
    Offline,
    Refused(i16),
    /// The batch at this offset has a wrong checksum, which every client notices.
    Corrupt(i64),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Group {
    pub error_code: i16,
    pub state: String,
    /// The members as DescribeGroups returns them, as text.
    pub members: Vec<String>,
    pub offsets: BTreeMap<Partition, (i64, String)>,
}

impl Truth {
    /// The data that a server serves. `None` if a connection ends before its answer.
    pub fn of(port: u16, shards: u16) -> Option<Self> {
        let mut clients: Vec<_> =
            (0..shards).map(|shard| Client::try_connect(port + shard)).collect::<Option<_>>()?;
        let mut truth = Self { topics: topics(&mut clients[0])?, ..Self::default() };
        for (name, topic) in &truth.topics {
            for index in 0..topic.partitions as i32 {
                let log = log(&mut clients, name, index)?;
                truth.partitions.insert((name.clone(), index), log);
            }
        }
        for client in &mut clients {
            for (id, kind) in listed(client)? {
                let group = group(client, &id, &kind)?;
                truth.groups.insert(id, group);
            }
        }
        Some(truth)
    }

    /// The differences, described in words. Empty if the data are equal.
    pub fn differences(&self, found: &Self) -> Vec<Difference> {
        let mut differences = Vec::new();
        compare(&self.topics, &found.topics, &mut differences, |_| Of::Topic);
        compare(&self.partitions, &found.partitions, &mut differences, |it| {
            Of::Partition(it.clone())
        });
        compare(&self.groups, &found.groups, &mut differences, |_| Of::Group);
        differences
    }
}

/// Data that differ from the acknowledged data. The text describes the difference.
#[derive(Debug)]
pub struct Difference {
    pub of: Of,
    pub text: String,
}

#[derive(Debug, Clone)]
pub enum Of {
    Topic,
    Partition(Partition),
    Group,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn compare<K: Ord + fmt::Debug, V: PartialEq + fmt::Debug>(
    expected: &BTreeMap<K, V>,
    found: &BTreeMap<K, V>,
    differences: &mut Vec<Difference>,
    of: fn(&K) -> Of,
) {
    let keys: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    for key in keys {
        let (expected, found) = (expected.get(key), found.get(key));
        if expected != found {
            let text = format!("{key:?}: {found:?} where {expected:?} was acknowledged");
            differences.push(Difference { of: of(key), text });
        }
    }
}

/// Sends a request, and passes the answer to `see`. The answer's bytes are not kept.
fn ask<T>(
    client: &mut Client,
    version: i16,
    request: Request<'_>,
    see: impl FnOnce(Response<'_>) -> T,
) -> Option<T> {
    let api = request.api_key();
    client.send(version, &request)?;
    let frame = client.receive_frame()?;
    let mut reader = Reader::new(&frame);
    reader.i32().unwrap();
    if api.flexible_response_header(version) {
        assert_eq!(reader.u8().unwrap(), 0);
    }
    Some(see(Response::read(api, version, &mut reader).unwrap()))
}

fn text(text: &Str<'_>) -> String {
    text.to_string()
}

fn topics(client: &mut Client) -> Option<BTreeMap<String, Topic>> {
    let request = MetadataRequest { topics: None, ..Default::default() };
    let mut topics = ask(client, 12, request.into(), |response| {
        let Response::Metadata(body) = response else { panic!("{response:?}") };
        let topic = |topic: &MetadataResponseTopic<'_>| {
            let name = text(topic.name.as_ref().unwrap());
            (name, Topic { id: topic.topic_id, partitions: topic.partitions.len(), config: None })
        };
        let own = body.topics.iter().filter(|topic| !topic.is_internal);
        own.map(topic).collect::<BTreeMap<_, _>>()
    })?;
    for (name, topic) in &mut topics {
        topic.config = config(client, name)?;
    }
    Some(topics)
}

fn config(client: &mut Client, topic: &str) -> Option<Option<String>> {
    let request = rules::describe_configs(rules::TOPIC, topic, Some("max.message.bytes"));
    ask(client, 4, request.into(), |response| {
        let Response::DescribeConfigs(body) = response else { panic!("{response:?}") };
        body.results[0].configs.first().and_then(|config| config.value.as_ref()).map(text)
    })
}

/// Reads a partition from the shard that leads it.
fn log(clients: &mut [Client], topic: &str, index: i32) -> Option<Log> {
    const OFFLINE: i16 = ErrorCode::KafkaStorageError as i16;
    const ELSEWHERE: i16 = ErrorCode::NotLeaderOrFollower as i16;
    let mut answer = Log::Refused(ELSEWHERE);
    for client in clients {
        match (list(client, topic, index, -2)?, list(client, topic, index, -1)?) {
            ((ELSEWHERE, _), _) => {}
            ((OFFLINE, _), _) | (_, (OFFLINE, _)) => answer = Log::Offline,
            ((0, start), (0, end)) => return records(client, topic, index, start, end),
            ((0, _), (error, _)) | ((error, _), _) => answer = Log::Refused(error),
        }
    }
    Some(answer)
}

/// The error, and the offset for this timestamp. -2 asks for the first offset, -1 for the end.
fn list(client: &mut Client, topic: &str, index: i32, timestamp: i64) -> Option<(i16, i64)> {
    let partition =
        ListOffsetsPartition { partition_index: index, timestamp, ..Default::default() };
    let topic = ListOffsetsTopic { name: topic.to_owned().into(), partitions: vec![partition] };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    ask(client, 7, request.into(), |response| {
        let Response::ListOffsets(body) = response else { panic!("{response:?}") };
        let partition = &body.topics[0].partitions[0];
        (partition.error_code, partition.offset)
    })
}

fn records(client: &mut Client, topic: &str, index: i32, start: i64, end: i64) -> Option<Log> {
    let (mut at, mut records, mut bytes, mut crc) = (start, 0, 0, 0);
    while at < end {
        let mut is_corrupt = false;
        let fetched = ask(client, 12, fetch(topic, index, at), |response| {
            let Response::Fetch(body) = response else { panic!("{response:?}") };
            let partition = &body.responses[0].partitions[0];
            if partition.error_code != 0 {
                return Err(partition.error_code);
            }
            let before = at;
            let data = partition.records.as_deref().unwrap_or_default();
            // The last batch may be incomplete.
            for batch in Batches::new(data).map_while(Result::ok) {
                is_corrupt |= batch.validate().is_err();
                if is_corrupt {
                    break;
                }
                records += batch.records().unwrap().count() as u64;
                bytes += batch.bytes.len();
                crc = batch_crc(crc, batch.bytes);
                at = batch.header.next_offset();
            }
            if at > before { Ok(()) } else { Err(ErrorCode::OffsetOutOfRange as i16) }
        })?;
        if is_corrupt {
            return Some(Log::Corrupt(at));
        }
        match fetched {
            Ok(()) => {}
            Err(error) if error == ErrorCode::KafkaStorageError as i16 => {
                return Some(Log::Offline);
            }
            Err(error) if error == ErrorCode::CorruptMessage as i16 => {
                return Some(Log::Corrupt(at));
            }
            Err(error) => return Some(Log::Refused(error)),
        }
    }
    Some(Log::Online { start, end, records, bytes, crc })
}

/// A checksum over a batch without its leader epoch. Kafka's own checksum does not cover the leader
/// epoch, either, so damage to it is not noticed. Without damage it is 0 here.
fn batch_crc(crc: u32, batch: &[u8]) -> u32 {
    const EPOCH: Range<usize> = 12..16;
    crc32c::crc32c_append(crc32c::crc32c_append(crc, &batch[..EPOCH.start]), &batch[EPOCH.end..])
}

fn fetch(topic: &str, index: i32, at: i64) -> Request<'static> {
    let partition = FetchPartition {
        partition: index,
        fetch_offset: at,
        partition_max_bytes: 16 << 20,
        ..Default::default()
    };
    let topic = FetchTopic {
        topic: topic.to_owned().into(),
        partitions: vec![partition],
        ..Default::default()
    };
    FetchRequest { max_bytes: 16 << 20, topics: vec![topic], ..Default::default() }.into()
}

/// The groups of a shard, and their types.
fn listed(client: &mut Client) -> Option<Vec<(String, String)>> {
    ask(client, 5, ListGroupsRequest::default().into(), |response| {
        let Response::ListGroups(body) = response else { panic!("{response:?}") };
        assert_eq!(body.error_code, 0);
        body.groups.iter().map(|it| (text(&it.group_id), text(&it.group_type))).collect()
    })
}

fn group(client: &mut Client, id: &str, kind: &str) -> Option<Group> {
    let described = if kind == "consumer" { consumer(client, id)? } else { classic(client, id)? };
    let request = OffsetFetchRequest {
        groups: vec![OffsetFetchRequestGroup {
            group_id: id.to_owned().into(),
            topics: None,
            ..Default::default()
        }],
        ..Default::default()
    };
    ask(client, 8, request.into(), |response| {
        let Response::OffsetFetch(body) = response else { panic!("{response:?}") };
        let group = &body.groups[0];
        let of_topic = |topic: &OffsetFetchResponseTopics<'_>| {
            let of_partition = |it: &OffsetFetchResponsePartitions<'_>| {
                let metadata = it.metadata.as_ref().map(text).unwrap_or_default();
                ((text(&topic.name), it.partition_index), (it.committed_offset, metadata))
            };
            topic.partitions.iter().map(of_partition).collect::<Vec<_>>()
        };
        let offsets = group.topics.iter().flat_map(of_topic).collect();
        Group { error_code: described.error_code.max(group.error_code), offsets, ..described }
    })
}

fn classic(client: &mut Client, id: &str) -> Option<Group> {
    let groups = vec![id.to_owned().into()];
    let request = DescribeGroupsRequest { groups, ..Default::default() };
    ask(client, 5, request.into(), |response| {
        let Response::DescribeGroups(body) = response else { panic!("{response:?}") };
        let group = &body.groups[0];
        let member = |it: &DescribedGroupMember<'_>| {
            format!(
                "{} {:?} {:?}",
                it.member_id,
                &it.member_metadata[..],
                &it.member_assignment[..]
            )
        };
        let members = group.members.iter().map(member).collect();
        let state = text(&group.group_state);
        Group { error_code: group.error_code, state, members, ..Group::default() }
    })
}

fn consumer(client: &mut Client, id: &str) -> Option<Group> {
    let group_ids = vec![id.to_owned().into()];
    let request = ConsumerGroupDescribeRequest { group_ids, ..Default::default() };
    ask(client, 1, request.into(), |response| {
        let Response::ConsumerGroupDescribe(body) = response else { panic!("{response:?}") };
        let group = &body.groups[0];
        let member = |it: &DescribedConsumerGroupMember<'_>| {
            format!("{} {} {:?}", it.member_id, it.member_epoch, it.target_assignment)
        };
        let members = group.members.iter().map(member).collect();
        let state = format!("{} {}", group.group_state, group.group_epoch);
        Group { error_code: group.error_code, state, members, ..Group::default() }
    })
}
