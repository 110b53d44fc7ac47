//! The tasks in an answer, and the ids of processes.

use muster_codec::messages::{StreamsGroupHeartbeatResponse, StreamsGroupTaskIds as TaskIds};

use super::messages::Tasks;
use crate::member::core::Core;
use crate::member::error::{Fatal, Step};
use crate::member::owned::sorted;
use crate::plan::{GroupIndex, Partition, TopicIndex, Topology};

/// The assignment in an answer, if it has one.
///
/// # Errors
/// A task is not of the topology, or some lists are there and others are not: clients end then.
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

/// Whether some of `tasks` are not in the other list, which is sorted.
pub(super) fn any_besides(tasks: &[Partition], others: &[Partition]) -> bool {
    tasks.iter().any(|task| others.binary_search(task).is_err())
}

/// The id of a process, which stays with its directory of state.
pub(super) fn process_id(group: GroupIndex, process: u32) -> String {
    let seed = u64::from(group.0) << 32 | u64::from(process);
    let bytes = fastrand::Rng::with_seed(seed).u128(..).to_be_bytes();
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}
