//! The parts of StreamsGroupHeartbeat: the description of a member that joins, and its tasks.

use muster_codec::Str;
use muster_codec::messages::{
    StreamsGroupCopartitionGroup, StreamsGroupEndpoint, StreamsGroupHeartbeatRequest,
    StreamsGroupKeyValue, StreamsGroupSubtopology, StreamsGroupTaskIds, StreamsGroupTopicInfo,
    StreamsGroupTopology,
};

use super::tasks::{any_besides, process_id};
use crate::member::core::{Core, millis};
use crate::member::text::text;
use crate::plan::{InternalTopic, Partition, StreamsPlan, Subtopology, Topology};

/// The port for interactive queries. Nothing listens on it.
const PORT: u16 = 8080;
/// The replication factor that leaves the choice to the cluster.
const CLUSTERS: i16 = -1;
const CHANGELOG: [(&str, &str); 1] = [("cleanup.policy", "compact")];
const REPARTITION: [(&str, &str); 2] = [("cleanup.policy", "delete"), ("retention.ms", "-1")];

/// The tasks in each role, sorted. A task is a [`Partition`] whose topic is the index of a
/// subtopology.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in crate::member) struct Tasks {
    pub(in crate::member) active: Vec<Partition>,
    pub(in crate::member) standby: Vec<Partition>,
    pub(in crate::member) warmup: Vec<Partition>,
}

impl Tasks {
    /// Whether `self` has tasks, in any role, that `other` does not have.
    pub(super) fn exceed(&self, other: &Self) -> bool {
        any_besides(&self.active, &other.active)
            || any_besides(&self.standby, &other.standby)
            || any_besides(&self.warmup, &other.warmup)
    }
}

/// Sets the fields that a member sends when it joins.
pub(in crate::member) fn describe(
    request: &mut StreamsGroupHeartbeatRequest<'static>,
    plan: &StreamsPlan,
    core: &Core,
) {
    let process = core.plan.process;
    request.rack_id = core.plan.rack.as_deref().map(text);
    request.rebalance_timeout_ms = millis(core.group().rebalance_timeout);
    request.topology = Some(topology(&plan.topology));
    request.process_id = Some(process_id(core.group().index, process).into());
    let host = format!("host-{process}").into();
    request.user_endpoint = plan.endpoints.then_some(StreamsGroupEndpoint { host, port: PORT });
    request.client_tags = Some(Vec::new());
}

/// Sets the tasks that a member owns.
pub(in crate::member) fn report(
    request: &mut StreamsGroupHeartbeatRequest<'static>,
    owned: &Tasks,
) {
    request.active_tasks = Some(by_subtopology(&owned.active));
    request.standby_tasks = Some(by_subtopology(&owned.standby));
    request.warmup_tasks = Some(by_subtopology(&owned.warmup));
}

fn by_subtopology(tasks: &[Partition]) -> Vec<StreamsGroupTaskIds<'static>> {
    let ids = |some: &[Partition]| StreamsGroupTaskIds {
        subtopology_id: some[0].topic.0.to_string().into(),
        partitions: some.iter().map(|task| task.number as i32).collect(),
    };
    tasks.chunk_by(|one, other| one.topic == other.topic).map(ids).collect()
}

fn topology(topology: &Topology) -> StreamsGroupTopology<'static> {
    let numbered = topology.subtopologies.iter().enumerate();
    let subtopologies = numbered.map(|(number, it)| subtopology(number, it)).collect();
    StreamsGroupTopology { epoch: 0, subtopologies }
}

fn subtopology(number: usize, it: &Subtopology) -> StreamsGroupSubtopology<'static> {
    let copartitioned = it.copartitioned.then(|| StreamsGroupCopartitionGroup {
        source_topics: indexes(it.sources.len()),
        source_topic_regex: Vec::new(),
        repartition_source_topics: indexes(it.repartitions.len()),
    });
    StreamsGroupSubtopology {
        subtopology_id: number.to_string().into(),
        source_topics: names(&it.sources),
        source_topic_regex: Vec::new(),
        state_changelog_topics: topics(&it.changelogs, &CHANGELOG),
        repartition_sink_topics: names(&it.sinks),
        repartition_source_topics: topics(&it.repartitions, &REPARTITION),
        copartition_groups: copartitioned.into_iter().collect(),
    }
}

fn names(all: &[String]) -> Vec<Str<'static>> {
    all.iter().map(|name| text(name)).collect()
}

fn topics(
    topics: &[InternalTopic],
    configs: &[(&'static str, &'static str)],
) -> Vec<StreamsGroupTopicInfo<'static>> {
    let config = |(key, value): &(&'static str, &'static str)| StreamsGroupKeyValue {
        key: Str::Borrowed(key),
        value: Str::Borrowed(value),
    };
    let info = |topic: &InternalTopic| StreamsGroupTopicInfo {
        name: text(&topic.name),
        partitions: topic.partitions as i32,
        replication_factor: CLUSTERS,
        topic_configs: configs.iter().map(config).collect(),
    };
    topics.iter().map(info).collect()
}

fn indexes(count: usize) -> Vec<i16> {
    (0..count as i16).collect()
}

#[cfg(test)]
mod tests {
    use muster_codec::{Field, Version};

    use super::*;

    const FLEXIBLE: Version = Version { number: 0, flexible: true };

    /// The topology of a word count as Kafka 4.3 wrote it, in a record.
    const WORD_COUNT: &str = "000000000302300206776f7264730101023877632d4b53545245414d2d41\
    47475245474154452d53544154452d53544f52452d303030303030303030332d7265706172746974696f6e010100\
    02310101021477632d636f756e74732d6368616e67656c6f6700000000ffff020f636c65616e75702e706f6c6963\
    7908636f6d70616374000001023877632d4b53545245414d2d4147475245474154452d53544154452d53544f5245\
    2d303030303030303030332d7265706172746974696f6e00000000ffff030f636c65616e75702e706f6c69637907\
    64656c657465000d726574656e74696f6e2e6d73032d310000010000";

    #[test]
    fn a_topology_is_written_as_kafka_writes_it() {
        let repartition = "wc-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition";
        let topic = |name: &str| InternalTopic { name: name.into(), partitions: 0 };
        let first = Subtopology {
            sources: vec!["words".into()],
            sinks: vec![repartition.into()],
            ..Subtopology::default()
        };
        let second = Subtopology {
            repartitions: vec![topic(repartition)],
            changelogs: vec![topic("wc-counts-changelog")],
            ..Subtopology::default()
        };
        let mut out = Vec::new();
        topology(&Topology { subtopologies: vec![first, second] }).write(&mut out, FLEXIBLE);
        let digits: String = out.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digits, WORD_COUNT.replace(' ', ""));
    }

    #[test]
    fn owned_tasks_are_written_by_subtopology() {
        let tasks = [(0, 1), (0, 300), (1, 0)].map(Partition::from);
        let ids = |id: &'static str, partitions| {
            let subtopology_id = id.into();
            StreamsGroupTaskIds { subtopology_id, partitions }
        };
        assert_eq!(by_subtopology(&tasks), [ids("0", vec![1, 300]), ids("1", vec![0])]);
    }
}
