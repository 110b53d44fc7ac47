//! Commits of groups that have no members, and the tools `muster` and `muster log` with their
//! results.

use super::Server;
use muster_codec::Response;
use muster_codec::messages::*;
use std::collections::BTreeMap;
use std::ffi::OsStr;

/// The commits of a group: the offset and the metadata, by topic and partition.
pub type Offsets = BTreeMap<(String, i32), (i64, String)>;

/// Commits an offset in a group without members. Expects that it is acknowledged.
pub fn commit(server: &Server, group: &str, topic: &str, partition: i32, offset: i64) {
    let request = commit_request(group, topic, [partition], offset, &format!("at {offset}"));
    let response = server.coordinator(group).call(8, request.into());
    let Response::OffsetCommit(body) = response else { panic!("{response:?}") };
    assert_eq!(body.topics[0].partitions[0].error_code, 0);
}

/// A request that commits the same offset for several partitions of a topic.
pub fn commit_request(
    group: &str,
    topic: &str,
    partitions: impl IntoIterator<Item = i32>,
    offset: i64,
    metadata: &str,
) -> OffsetCommitRequest<'static> {
    let partition = |partition_index| OffsetCommitRequestPartition {
        partition_index,
        committed_offset: offset,
        committed_metadata: Some(metadata.to_owned().into()),
        ..Default::default()
    };
    let topic = OffsetCommitRequestTopic {
        name: topic.to_owned().into(),
        partitions: partitions.into_iter().map(partition).collect(),
        ..Default::default()
    };
    OffsetCommitRequest {
        group_id: group.to_owned().into(),
        topics: vec![topic],
        ..Default::default()
    }
}

/// All commits of a group.
pub fn committed(server: &Server, group: &str) -> Offsets {
    let wanted = OffsetFetchRequestGroup {
        group_id: group.to_owned().into(),
        topics: None,
        ..Default::default()
    };
    let request = OffsetFetchRequest { groups: vec![wanted], ..Default::default() };
    let response = server.coordinator(group).call(8, request.into());
    let Response::OffsetFetch(body) = response else { panic!("{response:?}") };
    assert_eq!(body.groups[0].error_code, 0);
    let of_topic = |topic: &OffsetFetchResponseTopics<'_>| {
        let name = topic.name.to_string();
        let of_partition = |it: &OffsetFetchResponsePartitions<'_>| {
            let metadata = it.metadata.as_deref().unwrap_or_default().to_owned();
            ((name.clone(), it.partition_index), (it.committed_offset, metadata))
        };
        topic.partitions.iter().map(of_partition).collect::<Vec<_>>()
    };
    body.groups[0].topics.iter().flat_map(of_topic).collect()
}

/// The exit status of a tool, and its output on stdout and stderr.
#[derive(Debug)]
pub struct Ended {
    pub status: i32,
    pub out: String,
    pub error: String,
}

/// Runs `muster log` with these arguments.
pub fn muster_log<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Ended {
    let words: Vec<S> = words.into_iter().collect();
    muster([OsStr::new("log")].into_iter().chain(words.iter().map(AsRef::as_ref)))
}

/// Runs `muster` with these arguments.
pub fn muster<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Ended {
    let mut command = super::binary();
    let output = command.args(words).output().unwrap();
    Ended {
        status: output.status.code().expect("it ends by itself"),
        out: String::from_utf8(output.stdout).unwrap(),
        error: String::from_utf8(output.stderr).unwrap(),
    }
}
