//! Moves: new replicas take the place of old ones. The placements are kept here. In the finished
//! server they will be kept by group 0. The leader of each group does the next step of its move.

use super::defects::Defect;
use super::{World, groups, replica};
use crate::{Change, Group, Index, Members, NodeId, NotNow, ReplicaId};
use std::collections::{BTreeMap, BTreeSet};

/// The placements of group 0. A generation is never assigned twice.
pub(crate) struct Placements {
    generation: u64,
    placed: BTreeSet<(Group, ReplicaId)>,
}

impl Placements {
    pub(crate) fn formed() -> Self {
        let replicas = |group| (1..=3).map(move |node| (group, replica(1, node)));
        Self { generation: 1, placed: groups().flat_map(replicas).collect() }
    }

    pub(crate) fn has(&self, group: Group, replica: ReplicaId) -> bool {
        self.placed.contains(&(group, replica))
    }

    pub(crate) fn of(&self, group: Group) -> Vec<ReplicaId> {
        self.placed.iter().filter(|it| it.0 == group).map(|it| it.1).collect()
    }

    pub(crate) fn place(&mut self, group: Group, replica: ReplicaId) {
        self.placed.insert((group, replica));
    }

    fn add(&mut self, group: Group, node: NodeId, defect: Option<Defect>) -> ReplicaId {
        self.generation += 1;
        let is_same = defect == Some(Defect::SameReplicaId);
        let replica = ReplicaId::new(if is_same { 1 } else { self.generation }, node);
        self.place(group, replica);
        replica
    }
}

/// A move in progress.
#[derive(Debug, Clone, Copy)]
struct Move {
    old: ReplicaId,
    new: ReplicaId,
    is_cancelled: bool,
}

#[derive(Default)]
pub(crate) struct Moves {
    in_progress: BTreeMap<Group, Move>,
    pub(crate) finished: u64,
    pub(crate) cancelled: u64,
}

impl Moves {
    pub(crate) fn is_idle(&self) -> bool {
        self.in_progress.is_empty()
    }

    pub(crate) fn describe(&self, world: &World) -> String {
        let of = |(group, it): (&Group, &Move)| format!("{it:?}: {}", world.describe(*group));
        self.in_progress.iter().map(of).collect::<Vec<_>>().join("; ")
    }

    /// The next step of each move. `begins`: new ones begin, and some are cancelled.
    pub(crate) fn drive(&mut self, world: &mut World, begins: bool) {
        for group in groups() {
            let leader = world.leader(group).filter(|it| is_newest(world, group, *it));
            let Some(leader) = leader else { continue };
            let members = world.node(leader).unwrap().groups[&group].members.clone();
            match self.in_progress.get(&group).copied() {
                None if begins && world.random.u8(..100) == 0 => self.begin(world, group, &members),
                None => {}
                Some(mut it) => {
                    it.is_cancelled |= begins && world.random.u16(..300) == 0;
                    self.in_progress.insert(group, it);
                    self.advance(world, group, leader, &members, it);
                }
            }
        }
    }

    fn begin(&mut self, world: &mut World, group: Group, members: &Members) {
        let placed = world.placed.of(group);
        let mut nodes = world.nodes().into_iter();
        let free = nodes.find(|node| placed.iter().all(|it| it.node() != *node));
        // A leader may have outdated members. The placements of group 0 show who the members are.
        let is_current = placed.len() == 3 && placed.iter().all(|it| members.voters.contains(it));
        if let Some(free) = free.filter(|_| is_current) {
            let old = placed[world.random.usize(..3)];
            let new = world.placed.add(group, free, world.defect);
            self.in_progress.insert(group, Move { old, new, is_cancelled: false });
        }
    }

    fn advance(
        &mut self,
        world: &mut World,
        group: Group,
        leader: NodeId,
        members: &Members,
        Move { old, new, is_cancelled }: Move,
    ) {
        place(world, group, new);
        let (is_voter, is_learner) =
            (members.voters.contains(&new), members.learners.contains(&new));
        let change = if members.is_joint() {
            Change::Leave
        } else if is_voter && !members.voters.contains(&old) {
            self.end(world, group, old);
            self.finished += 1;
            return;
        } else if is_cancelled && !is_voter {
            Change::RemoveLearner(new)
        } else if !is_learner {
            Change::AddLearner(new)
        } else if old.node() == leader {
            hand_over(world, group, leader, members);
            return;
        } else if is_close(world, group, leader, new) {
            Change::Replace { old, new }
        } else {
            return;
        };
        let change_first = world.defect == Some(Defect::ChangeFirst);
        let proposed = world.with(leader, |it, judge| {
            if !change_first {
                it.propose(group, judge);
            }
            it.call(judge, |replicas, out| replicas.change(group, change, out))
        });
        // The new replica is neither a learner nor about to become one, so the move is cancelled.
        if change == Change::RemoveLearner(new) && proposed == Some(Err(NotNow::Members)) {
            self.end(world, group, new);
            self.cancelled += 1;
        }
    }

    /// A replica is not placed any more.
    fn end(&mut self, world: &mut World, group: Group, gone: ReplicaId) {
        self.in_progress.remove(&group);
        world.placed.placed.remove(&(group, gone));
        world.notify(gone.node(), |it, judge| {
            if it.log.get(&group).is_some_and(|it| it.replica == Some(gone)) {
                it.call(judge, |replicas, out| replicas.remove(group, out));
            }
        });
    }
}

/// Whether this leader's term is the newest that any node knows. An older leader makes no
/// decisions.
fn is_newest(world: &World, group: Group, leader: NodeId) -> bool {
    let term = world.node(leader).and_then(|it| it.groups[&group].role.leads());
    let of = |node: NodeId| world.node(node).and_then(|it| it.log.get(&group)).map(|it| it.term);
    let running = world.nodes().into_iter().filter_map(of);
    let disks = world.judge.disks.values().filter_map(|it| it.get(&group)).map(|it| it.term);
    running.chain(disks).max() <= term
}

/// The node creates its replica, unless it has or had it.
pub(crate) fn place(world: &mut World, group: Group, new: ReplicaId) {
    let known = world.placed.of(group);
    let may_return = world.defect == Some(Defect::SameReplicaId);
    for node in world.nodes() {
        world.notify(node, |it, _| it.replicas.place(group, &known));
    }
    world.notify(new.node(), |it, judge| {
        // A replica that has left its group is not created again: only the defect does that.
        let was_there = it.log.get(&group).is_some_and(|it| it.replica == Some(new));
        if !was_there || may_return && !it.groups.contains_key(&group) {
            it.call(judge, |replicas, out| replicas.create(group, new, &known, out)).unwrap();
        }
    });
}

/// A leader that will be replaced hands over first.
fn hand_over(world: &mut World, group: Group, leader: NodeId, members: &Members) {
    let others: Vec<ReplicaId> =
        members.voters.iter().copied().filter(|it| it.node() != leader).collect();
    let to = others[world.random.usize(..others.len())].node();
    world.read(leader, group);
    world.with(leader, |it, judge| {
        it.propose(group, judge);
        // A transfer is refused until a round is confirmed, and while the other node lacks entries.
        let _ = it.call(judge, |replicas, out| replicas.transfer(group, to, out));
    });
}

/// Whether the learner lacks at most 64 entries.
fn is_close(world: &mut World, group: Group, leader: NodeId, new: ReplicaId) -> bool {
    let node = world.node(leader).unwrap();
    let last = node.log[&group].last();
    let acknowledged = node.replicas.acknowledged(group, new);
    acknowledged.is_some_and(|it| it > Index(0) && it.0 + 64 >= last.0)
}
