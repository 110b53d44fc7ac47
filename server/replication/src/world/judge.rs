//! The judge: decides from the disks whether an entry is committed, and compares all replicas.

use super::E;
use super::disk::{View, Views};
use super::toy::{Digest, Toy};
use crate::{Change, Content, Entry, Group, Index, Members, NodeId, ReplicaId, Term};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Judge {
    /// The durable log of each node.
    pub(crate) disks: BTreeMap<NodeId, Views>,
    groups: BTreeMap<Group, Committed>,
    leaders: BTreeMap<(Group, Term), Led>,
    /// The time in milliseconds.
    pub(crate) now: u64,
    pub(crate) faults: Vec<String>,
    /// The number of commits before the leader's own flush.
    pub(crate) early_commits: u64,
    /// The number of records that were answered.
    pub(crate) answers: u64,
    /// The number of reads that an entry has confirmed.
    pub(crate) read_by_entry: u64,
    /// The longest time, in milliseconds, for which an older leader has led beside a newer one.
    pub(crate) longest_overlap: u64,
}

/// The leader of a term.
struct Led {
    replica: ReplicaId,
    /// The time of its election.
    since: u64,
}

/// The committed entries of a group, from entry 2 on. Entry 1 is the formation of the cluster.
struct Committed {
    entries: BTreeMap<Index, (Entry, [Digest; 2])>,
    toy: Toy,
    /// The members after the last committed change, and before it.
    members: [Members; 2],
}

/// A replica that knows of a commit.
pub(crate) struct Witness<'a> {
    pub(crate) node: NodeId,
    pub(crate) group: Group,
    pub(crate) log: &'a View,
    /// The commit index that it knew before.
    pub(crate) from: Index,
}

impl Judge {
    /// A group begins with these members.
    pub(crate) fn formed(&mut self, group: Group, members: &Members) {
        let members = [members.clone(), members.clone()];
        let toy = Toy::empty(Index(1));
        self.groups.insert(group, Committed { entries: BTreeMap::new(), toy, members });
    }

    pub(crate) fn fault(&mut self, fault: String) {
        self.faults.push(fault);
    }

    /// The last committed entry of a group.
    pub(crate) fn top(&self, group: Group) -> Index {
        self.groups[&group].entries.last_key_value().map_or(Index(1), |it| *it.0)
    }

    pub(crate) fn committed_term(&self, group: Group, index: Index) -> Option<Term> {
        self.groups[&group].entries.get(&index).map(|it| it.0.term)
    }

    /// The members of a group after its last committed change.
    pub(crate) fn members(&self, group: Group) -> &Members {
        &self.groups[&group].members[0]
    }

    pub(crate) fn leads(&mut self, group: Group, term: Term, replica: ReplicaId) {
        let since = self.now;
        let led = self.leaders.entry((group, term)).or_insert(Led { replica, since });
        if led.replica != replica {
            let first = led.replica;
            self.fault(format!("{first:?} and {replica:?} lead {group:?} in {term:?}"));
        }
    }

    /// A leader serves requests. If a newer leader was elected, the older one has to step down
    /// within three election timeouts: before the newer one fires a timer or lets a session expire.
    pub(crate) fn serves(&mut self, group: Group, term: Term) {
        let newer = (group, Term(term.0 + 1))..=(group, Term::LIMIT);
        let Some((_, newer)) = self.leaders.range(newer).next() else { return };
        let overlap = self.now - newer.since;
        self.longest_overlap = self.longest_overlap.max(overlap);
        if overlap > 3 * E {
            self.fault(format!("{group:?}: the leader of {term:?} leads {overlap} ms too long"));
        }
    }

    /// A replica knows that the entries up to this one are committed. The first replica that
    /// reports an entry as committed decides which entry that is, and a quorum of disks has to have
    /// it. Later replicas must have the same one.
    pub(crate) fn commits(&mut self, witness: &Witness<'_>, last: Index) {
        let Witness { node, group, log, .. } = *witness;
        let first = self.top(group).next();
        let from = log.base.index.max(witness.from).next();
        for index in (from.0..first.0.min(last.0 + 1)).map(Index) {
            let (ours, theirs) = (log.term_of(index), self.committed_term(group, index));
            if ours != theirs {
                self.fault(format!("{node:?} {group:?}: {index:?} is {ours:?}, was {theirs:?}"));
            }
        }
        for index in (first.0..=last.0).map(Index) {
            let Some(entry) = log.entry(index) else {
                self.fault(format!("{node:?} {group:?}: {index:?} is committed and not there"));
                return;
            };
            if !self.is_on_a_quorum(group, entry) {
                let copies = self.copies(group, entry, &self.members(group).voters);
                self.fault(format!("{node:?} {group:?}: {index:?} committed on {copies} disks"));
            }
            if self.copies(group, entry, &voter_of(node, self.members(group))) == 0 {
                self.early_commits += 1;
            }
            self.add(group, entry);
        }
    }

    fn add(&mut self, group: Group, entry: &Entry) {
        let it = self.groups.get_mut(&group).unwrap();
        it.toy.apply(entry);
        it.entries.insert(entry.index, (entry.clone(), it.toy.digests()));
        if let Content::Change(change) = entry.content {
            let after = changed(&it.members[0], change);
            it.members[1] = std::mem::replace(&mut it.members[0], after);
        }
    }

    /// Whether a quorum has the entry on disk: a majority of the members, or of the members before
    /// the last change. The latter counts, too, because a leader continues with the old members
    /// until its own disk has the change.
    pub(crate) fn is_on_a_quorum(&self, group: Group, entry: &Entry) -> bool {
        let majority = |voters: &[ReplicaId]| self.copies(group, entry, voters) > voters.len() / 2;
        let decides = |it: &Members| {
            majority(&it.voters) && (it.outgoing.is_empty() || majority(&it.outgoing))
        };
        self.groups[&group].members.iter().any(decides)
    }

    /// The number of these replicas that have the entry on their disk.
    fn copies(&self, group: Group, entry: &Entry, voters: &[ReplicaId]) -> usize {
        let has = |voter: &&ReplicaId| {
            let view = self.disks.get(&voter.node()).and_then(|it| it.get(&group));
            view.is_some_and(|view| {
                let is_there =
                    view.base.index >= entry.index || view.term_of(entry.index) == Some(entry.term);
                view.replica == Some(**voter) && is_there
            })
        };
        voters.iter().filter(has).count()
    }

    /// A client got the answer that its records are durable. From now on, the entry with this index
    /// must have them.
    pub(crate) fn answered(&mut self, group: Group, index: Index, entry: &Entry, records: &[u8]) {
        self.answers += 1;
        let known = self.groups[&group].entries.get(&index).map(|it| &it.0);
        let is_there = |entry: &Entry| match &entry.content {
            Content::Records(all) => all.windows(records.len()).any(|it| it == records),
            Content::Empty | Content::Change(_) => false,
        };
        let is_safe =
            known.map_or_else(|| is_there(entry) && self.is_on_a_quorum(group, entry), is_there);
        if !is_safe {
            self.fault(format!("{group:?} {index:?}: answered, and not committed"));
        }
    }

    /// A read was answered. `had_all`: the read was evaluated on a state with all entries that were
    /// committed at that time.
    pub(crate) fn answers_read(&mut self, node: NodeId, group: Group, had_all: bool) {
        if !had_all {
            self.fault(format!("{node:?} {group:?}: a stale read"));
        }
    }

    /// The machines of a replica have applied a committed entry, with these digests.
    pub(crate) fn applied(
        &mut self,
        node: NodeId,
        group: Group,
        index: Index,
        digests: [Digest; 2],
    ) {
        let known = self.groups[&group].entries.get(&index);
        if digests != known.map_or([0, 0], |it| it.1) {
            self.fault(format!("{node:?} {group:?}: other records up to {index:?}"));
        }
    }
}

/// The members after a change, computed from the meaning of [`Change`] alone, without raft.
fn changed(before: &Members, change: Change) -> Members {
    let mut after = before.clone();
    match change {
        Change::AddLearner(id) => after.learners.push(id),
        Change::RemoveLearner(id) => after.learners.retain(|it| *it != id),
        Change::Replace { old, new } => {
            after.outgoing.clone_from(&before.voters);
            after.voters.retain(|it| *it != old);
            after.voters.push(new);
            after.learners.retain(|it| *it != new);
        }
        Change::Leave => after.outgoing.clear(),
    }
    after
}

fn voter_of(node: NodeId, members: &Members) -> Vec<ReplicaId> {
    members.voters.iter().copied().filter(|it| it.node() == node).collect()
}
