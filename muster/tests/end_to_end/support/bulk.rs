//! Long commits. A few of them fill a segment, so that the log is always being compacted.

use super::offsets::commit_request;
use super::{Client, Server};
use muster_codec::messages::*;
use muster_codec::{Request, Response};

const PARTITIONS: i32 = 16;
const METADATA_BYTES: usize = 4_000;

pub struct Bulk {
    index: usize,
    topic: &'static str,
    /// The last acknowledged offset.
    pub committed: i64,
}

impl Bulk {
    /// `topic` must have at least 16 partitions.
    pub fn new(index: usize, topic: &'static str) -> Self {
        Self { index, topic, committed: 0 }
    }

    /// The minimum number of log bytes that the acknowledged commits take.
    pub fn bytes(&self) -> i64 {
        self.committed * i64::from(PARTITIONS) * METADATA_BYTES as i64
    }

    pub fn group(&self) -> String {
        format!("bulk-{}", self.index)
    }

    /// Commits the next offset. `None` once the server has ended.
    pub fn commit(&mut self, client: &mut Client) -> Option<()> {
        let offset = self.committed + 1;
        let response = client.try_call(8, self.request(offset))?;
        let Response::OffsetCommit(body) = response else { panic!("{response:?}") };
        let mut partitions = body.topics.iter().flat_map(|topic| &topic.partitions);
        assert!(partitions.all(|it| it.error_code == 0), "{body:?}");
        self.committed = offset;
        Some(())
    }

    /// Expects for all partitions the last acknowledged commit, or a later one that was in flight.
    pub fn check(&mut self, server: &Server) {
        let group_id = self.group();
        let group = OffsetFetchRequestGroup {
            group_id: group_id.clone().into(),
            topics: None,
            ..Default::default()
        };
        let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
        let response = server.coordinator(&group_id).call(8, request.into());
        let Response::OffsetFetch(body) = response else { panic!("{response:?}") };
        let topics = &body.groups[0].topics;
        let offsets: Vec<i64> = topics
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(|it| it.committed_offset))
            .collect();
        let found = offsets.first().copied().unwrap_or(0);
        assert!(offsets.iter().all(|it| *it == found), "different: {offsets:?}");
        let (first, last) = (self.committed, self.committed + 1);
        assert!((first..=last).contains(&found), "{found} of {first} or {last}");
        self.committed = found;
    }

    fn request(&self, offset: i64) -> Request<'static> {
        let metadata = "m".repeat(METADATA_BYTES);
        commit_request(&self.group(), self.topic, 0..PARTITIONS, offset, &metadata).into()
    }
}
