//! Properties that each placement of tasks must have.

use super::{Placed, Sticky, StickyMember, TasksOf};
use crate::java_order::hash_code;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The names of members and processes: each process has two members.
fn names(members: usize) -> Vec<(String, String)> {
    (0..members).map(|it| (format!("member-{it}"), format!("process-{}", it / 2))).collect()
}

fn members<'m>(names: &'m [(String, String)], placed: &[Placed]) -> Vec<StickyMember<'m>> {
    let of = |(at, (member, process)): (usize, &'m (String, String))| {
        let had = placed.get(at).cloned().unwrap_or_default();
        StickyMember {
            id: member,
            hash: hash_code(member),
            process,
            process_hash: hash_code(process),
            active: had.active,
            standby: had.standby,
            offsets: Vec::new(),
        }
    };
    names.iter().enumerate().map(of).collect()
}

fn place(members: &[StickyMember<'_>], tasks: &[TasksOf], budget: usize) -> Vec<Placed> {
    let mut sticky = Sticky::new(members, tasks, 1);
    loop {
        if let Some(placed) = sticky.step(budget) {
            return placed;
        }
    }
}

const TASKS: [TasksOf; 3] = [
    TasksOf { partitions: 12, is_stateful: true },
    TasksOf { partitions: 3, is_stateful: false },
    TasksOf { partitions: 7, is_stateful: true },
];

#[test]
fn each_task_is_active_once_and_in_no_process_twice() {
    for count in 1..12 {
        let names = names(count);
        let placed = place(&members(&names, &[]), &TASKS, usize::MAX);
        let active: Vec<_> = placed.iter().flat_map(|it| &it.active).collect();
        assert_eq!((active.len(), active.iter().collect::<BTreeSet<_>>().len()), (22, 22));
        let standbys: usize = placed.iter().map(|it| it.standby.len()).sum();
        assert_eq!(standbys, if count > 2 { 19 } else { 0 }, "{count} members");
        for of_process in placed.chunks(2) {
            let tasks = of_process.iter().flat_map(|it| it.active.iter().chain(&it.standby));
            let all: Vec<_> = tasks.collect();
            assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{placed:?}");
        }
        let loads = placed.iter().map(|it| it.active.len());
        assert!(loads.clone().max() <= loads.min().map(|it| it + 2), "{placed:?}");
    }
}

#[test]
fn a_placement_stays_when_nothing_changes_and_slices_do_not_matter() {
    for count in 1..12 {
        let names = names(count);
        let first = place(&members(&names, &[]), &TASKS, usize::MAX);
        assert_eq!(place(&members(&names, &[]), &TASKS, 1), first);
        let again = place(&members(&names, &first), &TASKS, 3);
        assert_eq!(again, first, "{count} members");
    }
}

#[test]
fn a_standby_takes_over() {
    let names = names(4);
    let before = place(&members(&names, &[]), &TASKS, usize::MAX);
    let after = place(&members(&names[2..], &before[2..]), &TASKS, usize::MAX);
    let lost = before[..2]
        .iter()
        .flat_map(|it| &it.active)
        .filter(|task| before[2..].iter().any(|it| it.standby.contains(task)));
    let taken_over = lost.clone().filter(|task| {
        let mut pairs = before[2..].iter().zip(&after);
        pairs.any(|(had, has)| had.standby.contains(task) && has.active.contains(task))
    });
    assert!(lost.count() > 0 && taken_over.count() > 0, "{before:?} {after:?}");
}

#[test]
fn a_group_without_members_or_tasks_is_placed() {
    assert_eq!(place(&[], &TASKS, 1), []);
    assert_eq!(place(&members(&names(2), &[]), &[], 1), [Placed::default(), Placed::default()]);
}
