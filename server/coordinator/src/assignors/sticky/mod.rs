//! `sticky`, Kafka's assignor of tasks (KIP-1071), with the placement of Kafka's
//! `StickyTaskAssignor`. Each task is active at one member, and its standbys are at other
//! processes.
//!
//! First, tasks return to the members that have them or their state, up to a quota: all members
//! should get about the same number. The other tasks go to the least loaded process, and in it to
//! the member with the fewest tasks. Ties are broken as in Java's heaps.

mod processes;
#[cfg(test)]
mod tests;

use super::NO_MEMBER;
use super::java_heap::JavaHeap;
use super::quota::Quota;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;
use processes::{Process, Processes};

/// A task, as its index in the order of subtopologies and then partitions.
pub type TaskNumber = u32;

/// A member before the computation, with the tasks that it has now, not those of its last target.
#[derive(Debug)]
pub struct StickyMember<'m> {
    pub id: &'m str,
    /// The Java hash code of the member id.
    pub hash: u32,
    pub process: &'m str,
    /// The Java hash code of the process id.
    pub process_hash: u32,
    pub active: Vec<TaskNumber>,
    pub standby: Vec<TaskNumber>,
    /// The tasks whose state is on the member's disk, ascending, with the offsets that it reported.
    pub offsets: Vec<(TaskNumber, i64)>,
}

/// The tasks of a subtopology.
#[derive(Debug, Clone, Copy)]
pub struct TasksOf {
    pub partitions: u32,
    /// Whether the subtopology is stateful. Only stateful tasks have standbys.
    pub is_stateful: bool,
}

/// The tasks of a member, ascending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placed {
    pub active: Vec<TaskNumber>,
    pub standby: Vec<TaskNumber>,
}

/// A computation under way.
#[derive(Debug)]
pub struct Sticky {
    members: Vec<Member>,
    processes: Vec<Process>,
    /// The members of each process, in the order of Kafka's table.
    of_processes: Vec<u32>,
    /// The processes in the order of Kafka's table.
    order: Vec<u32>,
    /// The tasks by partition and then subtopology.
    by_partition: Vec<TaskNumber>,
    /// The stateful tasks, in the order opposite to `by_partition`.
    stateful: Vec<TaskNumber>,
    had_active: Vec<u32>,
    candidates: Candidates,
    standbys: usize,
    active_quota: Quota,
    quota: Quota,
    /// `active` has the member of each active task. `standby` has `standbys` entries for each
    /// task: the members of its standbys.
    active: Vec<u32>,
    standby: Vec<u32>,
    heap: JavaHeap,
    /// A buffer for the processes that are taken from the heap while a standby is placed.
    polled: Vec<u32>,
    /// The tasks that lack standbys, each with the number of standbys that it lacks.
    left: Vec<(TaskNumber, usize)>,
    phase: Phase,
    /// The next task of the phase.
    next: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Tasks go to the members that had them as active tasks.
    Return,
    /// Other tasks go to members that have their state: the task's [`Candidates`].
    Promote,
    /// All other tasks go to the least loaded members.
    Spread,
    /// Standbys go to members that had the task as an active task, or to its [`Candidates`].
    ReturnStandbys,
    SpreadStandbys,
}

#[derive(Debug)]
struct Member {
    process: u32,
    tasks: u32,
}

/// For each task the members that have its state, best first: the members that had it as a standby,
/// then other members that reported an offset for it. In each of these two parts larger offsets
/// come first, and members with equal offsets are in the order of members.
#[derive(Debug, Default)]
struct Candidates(Vec<(TaskNumber, u32)>);

impl Sticky {
    /// Starts a computation. `members` are in the order in which Kafka visits them.
    pub fn new(members: &[StickyMember<'_>], tasks: &[TasksOf], standbys: usize) -> Self {
        let count: usize = tasks.iter().map(|it| it.partitions as usize).sum();
        let (by_partition, stateful) = in_order(tasks);
        let total = count + stateful.len() * standbys;
        let processes = Processes::of(members);
        let order = processes.in_order_of_table(members);
        let Processes { all: processes, of_members, of_processes } = processes;
        let mut had_active = alloc::vec![NO_MEMBER; count];
        for (member, it) in (0..).zip(members) {
            it.active.iter().for_each(|task| had_active[*task as usize] = member);
        }
        let of = |process: u32| Member { process, tasks: 0 };
        Self {
            members: of_members.into_iter().map(of).collect(),
            processes,
            of_processes,
            order,
            stateful: if standbys > 0 { stateful } else { Vec::new() },
            by_partition,
            had_active,
            candidates: Candidates::new(members),
            standbys,
            active_quota: Quota::new(count, members.len()),
            quota: Quota::new(total, members.len()),
            active: alloc::vec![NO_MEMBER; count],
            standby: alloc::vec![NO_MEMBER; count * standbys],
            heap: JavaHeap::default(),
            polled: Vec::new(),
            left: Vec::new(),
            phase: Phase::Return,
            next: 0,
        }
    }

    /// Places about `budget` tasks. Returns the tasks of each member when all tasks are placed.
    pub fn step(&mut self, budget: usize) -> Option<Vec<Placed>> {
        if self.members.is_empty() {
            return Some(Vec::new());
        }
        for _ in 0..budget {
            let is_through = match self.phase {
                Phase::Return => self.each_by_partition(Self::give_back),
                Phase::Promote => self.each_by_partition(Self::promote),
                Phase::Spread => self.spread(),
                Phase::ReturnStandbys => self.give_back_standbys(),
                Phase::SpreadStandbys => self.spread_standbys(),
            };
            if is_through && self.end_phase() {
                return Some(self.placed());
            }
        }
        None
    }

    /// Begins the next phase. Returns whether there is none.
    fn end_phase(&mut self) -> bool {
        self.next = 0;
        match self.phase {
            Phase::Return => self.phase = Phase::Promote,
            Phase::Promote => {
                self.heap = self.heap_of_processes();
                self.phase = Phase::Spread;
            }
            Phase::Spread => self.phase = Phase::ReturnStandbys,
            Phase::ReturnStandbys => {
                self.heap = self.heap_of_processes();
                self.left.sort_unstable_by_key(|(task, _)| Reverse(*task));
                self.phase = Phase::SpreadStandbys;
            }
            Phase::SpreadStandbys => return true,
        }
        false
    }

    /// Calls `act` with the next task, unless a member got the task already. Returns true when
    /// there is no further task.
    fn each_by_partition(&mut self, act: fn(&mut Self, TaskNumber)) -> bool {
        let Some(task) = self.by_partition.get(self.next).copied() else { return true };
        self.next += 1;
        if self.active[task as usize] == NO_MEMBER {
            act(self, task);
        }
        false
    }

    fn give_back(&mut self, task: TaskNumber) {
        let member = self.had_active[task as usize];
        if member != NO_MEMBER && self.tasks_of(member) < self.active_quota.of_each() {
            self.activate(task, member);
            self.forget_heap(member);
        }
    }

    fn promote(&mut self, task: TaskNumber) {
        let found = self.least_loaded(self.candidates.of(task), None);
        if let Some(member) = found
            && self.tasks_of(member) < self.active_quota.of_each()
        {
            self.activate(task, member);
            self.forget_heap(member);
        }
    }

    fn spread(&mut self) -> bool {
        let Some(has) = self.active.get(self.next).copied() else { return true };
        let task = self.next as TaskNumber;
        self.next += 1;
        if has == NO_MEMBER
            && let Some(process) = self.poll()
        {
            if let Some(member) = self.member_with_fewest(process) {
                self.activate(task, member);
                self.put_back(process, member);
            }
            self.push(process);
        }
        false
    }

    fn give_back_standbys(&mut self) -> bool {
        let Some(task) = self.stateful.get(self.next).copied() else { return true };
        self.next += 1;
        for replica in 0..self.standbys {
            let Some(member) = self.former_holder(task) else {
                self.left.push((task, self.standbys - replica));
                break;
            };
            self.add_standby(task, member);
            self.forget_heap(member);
        }
        false
    }

    /// A member that may be a standby for a task, and had the task as an active task or has its
    /// state.
    fn former_holder(&self, task: TaskNumber) -> Option<u32> {
        let is_free = |member: u32| self.tasks_of(member) < self.quota.of_each();
        let active = self.had_active[task as usize];
        if active != NO_MEMBER && !self.has(self.process_of(active), task) && is_free(active) {
            return Some(active);
        }
        self.least_loaded(self.candidates.of(task), Some(task)).filter(|it| is_free(*it))
    }

    fn spread_standbys(&mut self) -> bool {
        let Some((task, replicas)) = self.left.get(self.next).copied() else { return true };
        self.next += 1;
        for _ in 0..replicas {
            if !self.spread_standby(task) {
                break;
            }
        }
        false
    }

    /// Gives a standby to the least loaded process without the task. Returns whether there was such
    /// a process.
    fn spread_standby(&mut self, task: TaskNumber) -> bool {
        let mut polled = core::mem::take(&mut self.polled);
        let mut is_given = false;
        while let Some(process) = self.poll() {
            polled.push(process);
            if self.has(process, task) {
                continue;
            }
            if let Some(member) = self.member_with_fewest(process) {
                self.add_standby(task, member);
                self.put_back(process, member);
                is_given = true;
            }
            break;
        }
        while let Some(process) = polled.pop() {
            self.push(process);
        }
        self.polled = polled;
        is_given
    }

    /// Chooses among the members whose process does not have `task`, like Kafka's
    /// `findPrevMemberWithLeastLoad`: the first member, unless a later member has fewer tasks and
    /// its process has less load.
    fn least_loaded(&self, members: &[(TaskNumber, u32)], task: Option<TaskNumber>) -> Option<u32> {
        let load = |member: u32| self.load(self.process_of(member));
        let has = |member: u32| task.is_some_and(|task| self.has(self.process_of(member), task));
        let lack = members.iter().map(|(_, member)| *member).filter(|member| !has(*member));
        lack.reduce(|least, member| {
            let is_less =
                load(member) < load(least) && self.tasks_of(member) < self.tasks_of(least);
            if is_less { member } else { least }
        })
    }

    fn heap_of_processes(&self) -> JavaHeap {
        JavaHeap::of(self.order.iter().copied(), |process| self.load(process))
    }

    fn poll(&mut self) -> Option<u32> {
        let processes = &self.processes;
        self.heap.poll(|process| processes[process as usize].load)
    }

    fn push(&mut self, process: u32) {
        let processes = &self.processes;
        self.heap.add(process, |process| processes[process as usize].load);
    }

    /// Takes the member with the fewest tasks from the heap of its process.
    fn member_with_fewest(&mut self, process: u32) -> Option<u32> {
        let (members, process) = (&self.members, &mut self.processes[process as usize]);
        let of_process = &self.of_processes[process.members()];
        if let [only] = of_process {
            return Some(*only);
        }
        let tasks = |member: u32| f64::from(members[member as usize].tasks);
        let new = || JavaHeap::of(of_process.iter().copied(), tasks);
        process.by_tasks.get_or_insert_with(new).poll(tasks)
    }

    /// Puts a member, which now has one more task, back into the heap of its process.
    fn put_back(&mut self, process: u32, member: u32) {
        let members = &self.members;
        if let Some(heap) = &mut self.processes[process as usize].by_tasks {
            heap.add(member, |member| f64::from(members[member as usize].tasks));
        }
    }

    fn forget_heap(&mut self, member: u32) {
        let process = self.process_of(member);
        self.processes[process as usize].by_tasks = None;
    }

    fn activate(&mut self, task: TaskNumber, member: u32) {
        self.active[task as usize] = member;
        let tasks = self.count(member);
        self.active_quota.reached(tasks);
        self.quota.reached(tasks);
    }

    fn add_standby(&mut self, task: TaskNumber, member: u32) {
        let of_task = self.standbys_of(task);
        if let Some(place) = self.standby[of_task].iter_mut().find(|it| **it == NO_MEMBER) {
            *place = member;
        }
        let tasks = self.count(member);
        self.quota.reached(tasks);
    }

    /// Counts one more task of a member. Returns the member's number of tasks.
    fn count(&mut self, member: u32) -> u32 {
        let Member { process, tasks } = &mut self.members[member as usize];
        *tasks += 1;
        self.processes[*process as usize].add();
        *tasks
    }

    fn standbys_of(&self, task: TaskNumber) -> Range<usize> {
        let start = task as usize * self.standbys;
        start..start + self.standbys
    }

    fn has(&self, process: u32, task: TaskNumber) -> bool {
        let standbys = &self.standby[self.standbys_of(task)];
        let members = standbys.iter().chain([&self.active[task as usize]]);
        members.filter(|it| **it != NO_MEMBER).any(|it| self.process_of(*it) == process)
    }

    fn load(&self, process: u32) -> f64 {
        self.processes[process as usize].load
    }

    fn process_of(&self, member: u32) -> u32 {
        self.members[member as usize].process
    }

    fn tasks_of(&self, member: u32) -> u32 {
        self.members[member as usize].tasks
    }

    fn placed(&self) -> Vec<Placed> {
        let mut placed = alloc::vec![Placed::default(); self.members.len()];
        for (task, member) in (0..).zip(&self.active).filter(|(_, it)| **it != NO_MEMBER) {
            placed[*member as usize].active.push(task);
        }
        for (at, member) in self.standby.iter().enumerate().filter(|(_, it)| **it != NO_MEMBER) {
            placed[*member as usize].standby.push((at / self.standbys) as TaskNumber);
        }
        placed
    }
}

impl Candidates {
    fn new(members: &[StickyMember<'_>]) -> Self {
        let mut all = Vec::new();
        for (member, it) in (0..).zip(members) {
            let reported = |task: TaskNumber| {
                let found = it.offsets.binary_search_by_key(&task, |(task, _)| *task);
                found.map_or(0, |at| it.offsets[at].1)
            };
            let mut standby = it.standby.to_vec();
            standby.sort_unstable();
            let standbys = standby.iter().map(|task| (*task, false, Reverse(reported(*task))));
            let is_other = |task: &TaskNumber| standby.binary_search(task).is_err();
            let others = it.offsets.iter().filter(|(task, _)| is_other(task));
            let others = others.map(|(task, offset)| (*task, true, Reverse(*offset)));
            all.extend(standbys.chain(others).map(|rank| (rank, member)));
        }
        all.sort_unstable();
        Self(all.into_iter().map(|((task, ..), member)| (task, member)).collect())
    }

    fn of(&self, task: TaskNumber) -> &[(TaskNumber, u32)] {
        let start = self.0.partition_point(|(it, _)| *it < task);
        let len = self.0[start..].partition_point(|(it, _)| *it == task);
        &self.0[start..start + len]
    }
}

/// All tasks by partition and then subtopology, and the stateful tasks in the opposite order.
fn in_order(tasks: &[TasksOf]) -> (Vec<TaskNumber>, Vec<TaskNumber>) {
    let mut first = 0;
    let mut rest: Vec<(TaskNumber, TasksOf)> = Vec::with_capacity(tasks.len());
    for it in tasks {
        rest.push((first, *it));
        first += it.partitions;
    }
    let (mut all, mut stateful) = (Vec::with_capacity(first as usize), Vec::new());
    let mut partition = 0;
    loop {
        rest.retain(|(_, it)| it.partitions > partition);
        if rest.is_empty() {
            break;
        }
        all.extend(rest.iter().map(|(first, _)| first + partition));
        let with_state = rest.iter().filter(|(_, it)| it.is_stateful);
        stateful.extend(with_state.map(|(first, _)| first + partition));
        partition += 1;
    }
    stateful.reverse();
    (all, stateful)
}
