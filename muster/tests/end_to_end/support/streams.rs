//! A member of a streams group. Its topology is a word count with a repartition topic and a state
//! store.

use super::Client;
use muster_codec::messages::*;
use muster_codec::{Request, Response};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

pub const WORDS: &str = "words";
pub const REPARTITION: &str = "wc-repartition";
pub const CHANGELOG: &str = "wc-counts-changelog";

/// If a test waits for longer, it fails.
const LONG: Duration = Duration::from_secs(60);

/// The active or standby tasks of a member: for each subtopology, the partitions.
pub type Tasks = BTreeMap<String, Vec<i32>>;

/// A member, with a connection to its coordinator.
pub struct StreamsMember {
    pub client: Client,
    pub group: &'static str,
    pub id: &'static str,
    pub epoch: i32,
    pub active: Tasks,
    pub standby: Tasks,
    /// The status codes and details of the last answer.
    pub statuses: Vec<(i8, String)>,
    /// The replication factor of its internal topics.
    pub replication_factor: i16,
}

impl StreamsMember {
    pub fn new(client: Client, group: &'static str, id: &'static str) -> Self {
        Self {
            client,
            group,
            id,
            epoch: 0,
            active: Tasks::new(),
            standby: Tasks::new(),
            statuses: Vec::new(),
            replication_factor: -1,
        }
    }

    /// Joins, or sends a heartbeat that reports all tasks of the member.
    pub fn beat(&mut self) {
        let answer = self.ask();
        assert_eq!(answer.error_code, 0, "{answer:?}");
        self.take(answer);
    }

    pub fn ask(&mut self) -> StreamsGroupHeartbeatResponse<'static> {
        let request = self.request();
        let Response::StreamsGroupHeartbeat(answer) = self.client.call(0, request) else {
            panic!()
        };
        answer
    }

    /// All members send heartbeats until `holds` is true for them.
    pub fn beat_until(members: &mut [Self], what: &str, holds: impl Fn(&[Self]) -> bool) {
        let until = Instant::now() + LONG;
        while !holds(members) {
            assert!(Instant::now() < until, "{what}: {:?}", members[0].statuses);
            members.iter_mut().for_each(Self::beat);
        }
    }

    pub fn leave(&mut self) {
        let request = StreamsGroupHeartbeatRequest {
            group_id: self.group.into(),
            member_id: self.id.into(),
            member_epoch: -1,
            ..Default::default()
        };
        let Response::StreamsGroupHeartbeat(answer) = self.client.call(0, request.into()) else {
            panic!()
        };
        assert_eq!((answer.error_code, answer.member_epoch), (0, -1), "{answer:?}");
    }

    fn take(&mut self, answer: StreamsGroupHeartbeatResponse<'static>) {
        self.epoch = answer.member_epoch;
        let statuses = answer.status.into_iter().flatten();
        self.statuses =
            statuses.map(|it| (it.status_code, it.status_detail.into_owned())).collect();
        if let (Some(active), Some(standby)) = (answer.active_tasks, answer.standby_tasks) {
            (self.active, self.standby) = (by_subtopology(active), by_subtopology(standby));
        }
    }

    fn request(&self) -> Request<'static> {
        let joins = self.epoch == 0;
        let topology = StreamsGroupTopology { epoch: 0, subtopologies: self.subtopologies() };
        let process = format!("process-of-{}", self.id);
        StreamsGroupHeartbeatRequest {
            group_id: self.group.into(),
            member_id: self.id.into(),
            member_epoch: self.epoch,
            endpoint_information_epoch: -1,
            rebalance_timeout_ms: 60_000,
            topology: joins.then_some(topology),
            active_tasks: Some(listed(if joins { None } else { Some(&self.active) })),
            standby_tasks: Some(listed(if joins { None } else { Some(&self.standby) })),
            warmup_tasks: Some(Vec::new()),
            process_id: Some(process.into()),
            ..Default::default()
        }
        .into()
    }

    fn subtopologies(&self) -> Vec<StreamsGroupSubtopology<'static>> {
        let internal = |name: &'static str, policy: &'static str| StreamsGroupTopicInfo {
            name: name.into(),
            partitions: 0,
            replication_factor: self.replication_factor,
            topic_configs: vec![StreamsGroupKeyValue {
                key: "cleanup.policy".into(),
                value: policy.into(),
            }],
        };
        let first = StreamsGroupSubtopology {
            subtopology_id: "0".into(),
            source_topics: vec![WORDS.into()],
            repartition_sink_topics: vec![REPARTITION.into()],
            ..Default::default()
        };
        let second = StreamsGroupSubtopology {
            subtopology_id: "1".into(),
            repartition_source_topics: vec![internal(REPARTITION, "delete")],
            state_changelog_topics: vec![internal(CHANGELOG, "compact")],
            ..Default::default()
        };
        vec![first, second]
    }
}

fn by_subtopology(tasks: Vec<StreamsGroupTaskIds<'static>>) -> Tasks {
    tasks.into_iter().map(|it| (it.subtopology_id.into_owned(), it.partitions)).collect()
}

fn listed(tasks: Option<&Tasks>) -> Vec<StreamsGroupTaskIds<'static>> {
    let of = |(id, partitions): (&String, &Vec<i32>)| StreamsGroupTaskIds {
        subtopology_id: id.clone().into(),
        partitions: partitions.clone(),
    };
    tasks.into_iter().flatten().map(of).collect()
}
