//! The processes of members: their load, and the order in which Kafka visits them.

use super::StickyMember;
use crate::assignors::java_heap::JavaHeap;
use crate::java_order::Buckets;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;

/// The processes, in the order of their first members.
#[derive(Debug)]
pub(super) struct Processes {
    pub(super) all: Vec<Process>,
    /// The number of the process of each member.
    pub(super) of_members: Vec<u32>,
    /// The members, process by process, in the order of Kafka's table.
    pub(super) of_processes: Vec<u32>,
}

#[derive(Debug)]
pub(super) struct Process {
    tasks: u32,
    /// The number of tasks per member.
    pub(super) load: f64,
    /// The index of the process's first member in [`Processes::of_processes`].
    first: u32,
    count: u32,
    /// A heap of the members by their number of tasks. None until the heap is needed, and again
    /// after a member got a task without the heap.
    pub(super) by_tasks: Option<JavaHeap>,
}

impl Process {
    pub(super) fn members(&self) -> Range<usize> {
        self.first as usize..(self.first + self.count) as usize
    }

    /// Counts one more task.
    pub(super) fn add(&mut self) {
        self.tasks += 1;
        self.load = f64::from(self.tasks) / f64::from(self.count);
    }
}

impl Processes {
    pub(super) fn of(members: &[StickyMember<'_>]) -> Self {
        let (mut all, of_members) = counted(members);
        let mut first = 0;
        for process in &mut all {
            process.first = first;
            first += core::mem::take(&mut process.count);
        }
        let mut of_processes = alloc::vec![0; members.len()];
        for (member, number) in (0..).zip(&of_members) {
            let process = &mut all[*number as usize];
            of_processes[process.members().end] = member;
            process.count += 1;
        }
        for process in all.iter().filter(|it| it.count > 1) {
            let mut buckets = Buckets::default();
            buckets.grow_to_hold(process.count as usize);
            let of_process = &mut of_processes[process.members()];
            of_process.sort_by_key(|it| buckets.of_hash(members[*it as usize].hash));
        }
        Self { all, of_members, of_processes }
    }

    /// The numbers of the processes in the order of Kafka's table. Kafka creates the table with the
    /// number of members as its capacity, and fills it by `computeIfAbsent`, which checks the size
    /// of the table before each insertion and puts a new entry at the head of its bucket.
    pub(super) fn in_order_of_table(&self, members: &[StickyMember<'_>]) -> Vec<u32> {
        let mut buckets = Buckets::of_capacity(members.len());
        let last = self.of_members.last().map(|number| &self.all[*number as usize]);
        let is_alone = last.is_some_and(|process| process.count == 1);
        buckets.grow_to_hold(self.all.len() - usize::from(is_alone));
        let place = |process: &u32| {
            let first = self.all[*process as usize].first;
            let member = self.of_processes[first as usize];
            (buckets.of_hash(members[member as usize].process_hash), Reverse(*process))
        };
        let mut order: Vec<u32> = (0..self.all.len() as u32).collect();
        order.sort_by_cached_key(place);
        order
    }
}

/// The processes, each with its count of members, and the index of each member's process.
fn counted(members: &[StickyMember<'_>]) -> (Vec<Process>, Vec<u32>) {
    let mut all = Vec::<Process>::new();
    let mut of_members = Vec::with_capacity(members.len());
    for (member, first) in first_of_each(members).into_iter().enumerate() {
        let number = of_members.get(first as usize).copied().unwrap_or(all.len() as u32);
        if member == first as usize {
            all.push(Process { tasks: 0, load: 0.0, first: 0, count: 0, by_tasks: None });
        }
        all[number as usize].count += 1;
        of_members.push(number);
    }
    (all, of_members)
}

/// For each member, the first member of its process.
fn first_of_each(members: &[StickyMember<'_>]) -> Vec<u32> {
    // Names are compared only if their hash codes are equal, because comparing names is slow.
    let process = |member: u32| {
        let it = &members[member as usize];
        (it.process_hash, it.process)
    };
    let mut sorted: Vec<u32> = (0..members.len() as u32).collect();
    sorted.sort_by(|one, other| process(*one).cmp(&process(*other)));
    let mut firsts = alloc::vec![0; members.len()];
    for of_process in sorted.chunk_by(|one, other| process(*one) == process(*other)) {
        of_process.iter().for_each(|member| firsts[*member as usize] = of_process[0]);
    }
    firsts
}
