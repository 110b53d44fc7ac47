//! A coordinator with its log, and one streams group.

use crate::common::topics::World;
use crate::common::{NoIds, RecordBytes, bytes, call, caller, read};
use muster_codec::messages::*;
use muster_codec::{GroupRequest, Response, Wall};
use muster_coordinator::{Config, Coordinator, Output, RequestId, operations};
use std::collections::BTreeSet;

pub const GROUP: &str = "streams";

/// The maximum size of an operation. It is so small that nearly every record becomes an operation
/// of its own, unless it must be written together with others.
const OPERATION_BYTES: usize = 64;

/// Active tasks and standbys, by subtopology and partition.
pub type Tasks = [BTreeSet<(String, i32)>; 2];

pub struct Shard {
    pub coordinator: Coordinator,
    pub topics: World,
    pub now: i64,
    pub log: Vec<RecordBytes>,
    config: Config,
    /// Makes the server crash in the next call that writes more operations than this number. Only
    /// this number of operations is kept, the server starts again, and the answer is lost.
    pub crash_after: Option<usize>,
}

/// An answer to a member.
#[derive(Debug)]
pub struct Answer {
    pub error: i16,
    pub epoch: i32,
    pub tasks: Option<Tasks>,
    pub statuses: Vec<i8>,
    /// Whether the answer requests the description of the topology.
    pub asks: bool,
    /// The missing internal topics, which are to be created.
    pub missing: Vec<(String, i32)>,
}

pub fn config() -> Config {
    Config {
        group_streams_assignment_interval_ms: 0,
        group_streams_initial_rebalance_delay_ms: 0,
        ..Config::default()
    }
}

pub fn subtopology(id: &'static str, source: &'static str) -> StreamsGroupSubtopology<'static> {
    StreamsGroupSubtopology {
        subtopology_id: id.into(),
        source_topics: vec![source.into()],
        ..Default::default()
    }
}

pub fn internal(name: &'static str, partitions: i32) -> StreamsGroupTopicInfo<'static> {
    StreamsGroupTopicInfo { name: name.into(), partitions, ..Default::default() }
}

/// The heartbeat of a member that joins. Its topology has two subtopologies with two tasks each.
/// The second subtopology is stateful.
pub fn joining(
    member: &'static str,
    process: &'static str,
) -> StreamsGroupHeartbeatRequest<'static> {
    let mut stateful = subtopology("1", "u");
    stateful.state_changelog_topics = vec![internal("app-changelog", 0)];
    let subtopologies = vec![subtopology("0", "t"), stateful];
    StreamsGroupHeartbeatRequest {
        group_id: GROUP.into(),
        member_id: member.into(),
        rebalance_timeout_ms: 60_000,
        process_id: Some(process.into()),
        topology: Some(StreamsGroupTopology { epoch: 0, subtopologies }),
        active_tasks: Some(Vec::new()),
        standby_tasks: Some(Vec::new()),
        warmup_tasks: Some(Vec::new()),
        ..Default::default()
    }
}

/// A member that stays. It may report its tasks.
pub fn staying(
    member: &'static str,
    epoch: i32,
    tasks: Option<&Tasks>,
) -> StreamsGroupHeartbeatRequest<'static> {
    let [active, standby] = [0, 1].map(|role| tasks.map(|tasks| lists(&tasks[role])));
    StreamsGroupHeartbeatRequest {
        group_id: GROUP.into(),
        member_id: member.into(),
        member_epoch: epoch,
        active_tasks: active,
        standby_tasks: standby,
        warmup_tasks: tasks.map(|_| Vec::new()),
        ..Default::default()
    }
}

pub fn lists(tasks: &BTreeSet<(String, i32)>) -> Vec<StreamsGroupTaskIds<'static>> {
    let of = |(subtopology, partition): &(String, i32)| StreamsGroupTaskIds {
        subtopology_id: subtopology.clone().into(),
        partitions: vec![*partition],
    };
    tasks.iter().map(of).collect()
}

fn set(lists: &[StreamsGroupTaskIds<'_>]) -> BTreeSet<(String, i32)> {
    let of = |it: &StreamsGroupTaskIds<'_>| {
        let id = it.subtopology_id.to_string();
        it.partitions.iter().map(move |partition| (id.clone(), *partition)).collect::<Vec<_>>()
    };
    lists.iter().flat_map(of).collect()
}

impl Shard {
    pub fn new() -> Self {
        Self::with(config())
    }

    pub fn with(config: Config) -> Self {
        let mut topics = World::default();
        for name in ["t", "u", "app-changelog"] {
            topics.make(name, 2);
        }
        let mut coordinator = Coordinator::new(config.clone());
        coordinator.loaded(0, Wall(0), &topics);
        Self { coordinator, topics, now: 1_000, log: Vec::new(), config, crash_after: None }
    }

    pub fn position(&self) -> u64 {
        self.log.len() as u64 + 1
    }

    /// Sends a heartbeat. None if the server ended.
    pub fn try_beat(&mut self, request: StreamsGroupHeartbeatRequest<'static>) -> Option<Answer> {
        let (response, missing) = self.ask(request.into())?;
        let Response::StreamsGroupHeartbeat(answer) = response else { panic!("{response:?}") };
        let tasks = answer.active_tasks.as_ref().zip(answer.standby_tasks.as_ref());
        Some(Answer {
            error: answer.error_code,
            epoch: answer.member_epoch,
            tasks: tasks.map(|(active, standby)| [set(active), set(standby)]),
            statuses: answer.status.unwrap().iter().map(|it| it.status_code).collect(),
            asks: answer.topology_description_required,
            missing,
        })
    }

    pub fn beat(&mut self, request: StreamsGroupHeartbeatRequest<'static>) -> Answer {
        self.try_beat(request).unwrap()
    }

    fn ask(
        &mut self,
        request: GroupRequest<'static>,
    ) -> Option<(Response<'static>, Vec<(String, i32)>)> {
        let request_id = RequestId { connection: 1, sequence: self.position() };
        let caller = caller(request_id, 1);
        let at = (self.now, self.position());
        let output = call(&mut self.coordinator, at, &mut NoIds, &self.topics, |it, context| {
            it.handle(context, caller, request)
        });
        let missing = output.missing_topics.iter().flat_map(|topics| topics.iter());
        let missing = missing.map(|it| (it.name.to_string(), it.partitions)).collect();
        Some((self.settle(output)?, missing))
    }

    fn settle(&mut self, output: Output<'static>) -> Option<Response<'static>> {
        let operations: Vec<_> = operations(&output.records, OPERATION_BYTES).collect();
        if let Some(whole) = self.crash_after.filter(|whole| *whole < operations.len()) {
            let durable = operations[..whole].iter().flat_map(|it| bytes(it));
            self.log.extend(durable);
            self.restart();
            return None;
        }
        let written = bytes(&output.records);
        for record in &written {
            self.coordinator.replay(&read(record), self.log.len() as u64 + 1);
        }
        self.log.extend(written);
        output.answers.into_iter().next().map(|it| it.response)
    }

    /// The server starts again from its log. Returns the previous coordinator.
    pub fn restart(&mut self) -> Coordinator {
        self.crash_after = None;
        let again = Coordinator::new(self.config.clone());
        let before = std::mem::replace(&mut self.coordinator, again);
        for (at, record) in self.log.iter().enumerate() {
            self.coordinator.replay(&read(record), at as u64 + 1);
        }
        self.coordinator.loaded(self.now, Wall(self.now), &self.topics);
        before
    }

    /// Lets time pass, and does the work that becomes due.
    pub fn pass(&mut self, ms: i64) {
        let until = self.now + ms;
        while let Some(due) = self.coordinator.next_deadline().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            let at = (self.now, self.position());
            let output =
                call(&mut self.coordinator, at, &mut NoIds, &self.topics, |it, context| {
                    it.expire(context)
                });
            self.settle(output);
        }
        self.now = until;
    }

    /// A member sends the description of its topology. Returns the error.
    pub fn update(
        &mut self,
        request: StreamsGroupTopologyDescriptionUpdateRequest<'static>,
    ) -> i16 {
        let response = self.ask(request.into()).unwrap().0;
        let Response::StreamsGroupTopologyDescriptionUpdate(answer) = response else { panic!() };
        answer.error_code
    }

    /// The status of the description of the topology, and the description.
    pub fn shown(&mut self) -> (i8, Option<StreamsTopologyDescription<'static>>) {
        let described = self.described();
        (described.topology_description_status, described.topology_description)
    }

    pub fn delete(&mut self) {
        let request = DeleteGroupsRequest { groups_names: vec![GROUP.into()] };
        let Response::DeleteGroups(answer) = self.ask(request.into()).unwrap().0 else { panic!() };
        assert_eq!(answer.results[0].error_code, 0);
    }

    pub fn described(&mut self) -> DescribedStreamsGroup<'static> {
        let group_ids = vec![GROUP.into()];
        let include_topology_description = true;
        let request = StreamsGroupDescribeRequest {
            group_ids,
            include_topology_description,
            ..Default::default()
        };
        let Response::StreamsGroupDescribe(mut answer) = self.ask(request.into()).unwrap().0 else {
            panic!()
        };
        answer.groups.remove(0)
    }

    pub fn state(&mut self) -> String {
        self.described().group_state.into_owned()
    }

    pub fn group_epoch(&mut self) -> i32 {
        self.described().group_epoch
    }

    pub fn target_epoch(&mut self) -> i32 {
        self.described().assignment_epoch
    }

    pub fn member_epoch(&mut self, member: &str) -> i32 {
        let members = self.described().members;
        members.iter().find(|it| it.member_id == member).unwrap().member_epoch
    }

    pub fn assigned(&mut self, member: &str) -> Tasks {
        let members = self.described().members;
        let assignment = &members.iter().find(|it| it.member_id == member).unwrap().assignment;
        [set(&assignment.active_tasks), set(&assignment.standby_tasks)]
    }
}
