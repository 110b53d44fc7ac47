//! The tasks in an answer, and process ids.

use muster_codec::messages::{StreamsGroupHeartbeatResponse, StreamsGroupTaskIds as TaskIds};

use super::messages::Tasks;
use crate::member::core::Core;
use crate::member::error::{Fatal, Step};
use crate::member::owned::sorted;
use crate::plan::{GroupIndex, Partition, TopicIndex, Topology};

/// Reads the assignment in an answer, if there is one.
///
/// # Errors
///
/// A task is not in the topology, or only some of the lists are present. Clients end then.
pub(super) fn read(
    answer: &StreamsGroupHeartbeatResponse<'_>,
    topology: &Topology,
    core: &Core,
) -> Step<Option<Tasks>> {
    let group = &core.group().id;
    match (&answer.active_tasks, &answer.standby_tasks, &answer.warmup_tasks) {
        (None, None, None) => Ok(None),
        (Some(active), Some(standby), Some(warmup)) => {
            let list = |tasks: &[TaskIds<'_>]| {
                list(tasks, topology).ok_or_else(|| {
                    Fatal(format!(
                        "a member of group {group} was assigned a task without a subtopology"
                    ))
                })
            };
            let (active, standby, warmup) = (list(active)?, list(standby)?, list(warmup)?);
            Ok(Some(Tasks { active, standby, warmup }))
        }
        _ => Err(Fatal(format!("a member of group {group} received some lists of tasks, not all"))),
    }
}

fn list(tasks: &[TaskIds<'_>], topology: &Topology) -> Option<Vec<Partition>> {
    let mut all = Vec::new();
    for of in tasks {
        let subtopology: u32 = of.subtopology_id.parse().ok()?;
        topology.subtopologies.get(subtopology as usize)?;
        for number in &of.partitions {
            let number = u32::try_from(*number).ok()?;
            all.push(Partition { topic: TopicIndex(subtopology), number });
        }
    }
    Some(sorted(all))
}

/// Whether some of `tasks` are not in `others`, which is sorted.
pub(super) fn any_besides(tasks: &[Partition], others: &[Partition]) -> bool {
    tasks.iter().any(|task| others.binary_search(task).is_err())
}

/// The id of a process. A process that restarts keeps its id, because Kafka Streams writes the id
/// to the state directory.
pub(super) fn process_id(group: GroupIndex, process: u32) -> String {
    let seed = u64::from(group.0) << 32 | u64::from(process);
    let bytes = fastrand::Rng::with_seed(seed).u128(..).to_be_bytes();
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}
