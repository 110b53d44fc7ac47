//! Changes of a task's role at one member. They happen in place, because the member keeps the
//! task's state (`CurrentAssignmentBuilder` in Kafka).

use super::Streams;
use super::task::{Role, TaskKey};
use crate::modern::owned::{Owned, Partitions, owned};
use crate::modern::reconcile::Split;
use alloc::vec::Vec;

/// The epoch of standbys and warm-ups.
const NO_EPOCH: i32 = 0;

/// Adjusts the next step of a member, which has the tasks `assigned`, for tasks whose role changes.
/// When an active task becomes a standby, the standby starts at once, and the active task is being
/// revoked. Between standby and warm-up, a task changes at once. A task that is to become active
/// keeps its role until the member gets the active task; before that, the member must give up all
/// tasks that are being revoked. `waits_for` returns whether it still has any of the given tasks.
pub(super) fn change_roles(
    assigned: &Owned<TaskKey>,
    target: &Partitions<TaskKey>,
    split: &mut Split<Streams>,
    waits_for: impl Fn(&Owned<TaskKey>) -> bool,
) {
    let mut promoted: Vec<(TaskKey, i32)> = Vec::new();
    for of_key in assigned.by_key() {
        let other = match of_key.key.role {
            Role::Active | Role::Warmup => of_key.key.in_role(Role::Standby),
            Role::Standby => of_key.key.in_role(Role::Warmup),
        };
        let active = of_key.key.in_role(Role::Active);
        for partition in of_key.partitions.iter().map(|it| it.partition) {
            let is_active = of_key.key.role == Role::Active;
            if split.free.remove(&other, partition) {
                split.kept.insert(&other, owned(partition, NO_EPOCH));
                if !is_active {
                    split.revoking.remove(&of_key.key, partition);
                }
            }
            if !is_active && is_in(target, &active, partition) {
                split.revoking.remove(&of_key.key, partition);
                promoted.push((of_key.key.clone(), partition));
            }
        }
    }
    let waits = !split.revoking.is_empty() && waits_for(&split.revoking);
    for (key, partition) in promoted {
        let is_granted = !waits && split.free.contains(&key.in_role(Role::Active), partition);
        if !is_granted {
            split.kept.insert(&key, owned(partition, NO_EPOCH));
        }
    }
}

fn is_in(target: &Partitions<TaskKey>, key: &TaskKey, partition: i32) -> bool {
    let found = target.binary_search_by(|of_key| of_key.key.cmp(key));
    found.is_ok_and(|at| target[at].partitions.binary_search(&partition).is_ok())
}
