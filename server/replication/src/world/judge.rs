//! The judge: decides from the disks whether an entry is committed, and compares all replicas.

use super::disk::{View, Views};
use crate::{Content, Entry, Group, Index, Members, NodeId, ReplicaId, Term};
use std::collections::BTreeMap;

/// A digest of the records of a group up to an entry.
pub(crate) type Digest = u64;

#[derive(Default)]
pub(crate) struct Judge {
    /// The durable log of each node.
    pub(crate) disks: BTreeMap<NodeId, Views>,
    /// The committed entries, with the digest after each.
    committed: BTreeMap<Group, BTreeMap<Index, (Term, Digest)>>,
    leaders: BTreeMap<(Group, Term), ReplicaId>,
    pub(crate) faults: Vec<String>,
    /// The number of commits before the leader's own flush.
    pub(crate) early_commits: u64,
}

/// A replica that knows of a commit.
pub(crate) struct Witness<'a> {
    pub(crate) node: NodeId,
    pub(crate) group: Group,
    pub(crate) log: &'a View,
    /// The configuration, and the one before the last change: a commit may be of either.
    pub(crate) members: [&'a Members; 2],
    /// The commit index that it knew before.
    pub(crate) from: Index,
}

pub(crate) fn digest(before: Digest, entry: &Entry) -> Digest {
    let Content::Records(records) = &entry.content else { return before };
    let mix =
        |digest: Digest, byte: &u8| (digest ^ Digest::from(*byte)).wrapping_mul(0x100_0000_01b3);
    records.iter().fold(before.rotate_left(5) ^ entry.index.0, mix)
}

impl Judge {
    fn fault(&mut self, fault: String) {
        self.faults.push(fault);
    }

    /// The last committed entry of a group.
    pub(crate) fn top(&self, group: Group) -> Index {
        self.committed.get(&group).and_then(|it| it.last_key_value()).map_or(Index(1), |it| *it.0)
    }

    pub(crate) fn committed_term(&self, group: Group, index: Index) -> Option<Term> {
        self.committed.get(&group)?.get(&index).map(|it| it.0)
    }

    /// The digest after a committed entry. The formation of the cluster is entry 1.
    pub(crate) fn digest_at(&self, group: Group, index: Index) -> Digest {
        let known = self.committed.get(&group).and_then(|it| it.get(&index));
        known.map_or(0, |it| it.1)
    }

    pub(crate) fn leads(&mut self, group: Group, term: Term, replica: ReplicaId) {
        let first = *self.leaders.entry((group, term)).or_insert(replica);
        if first != replica {
            self.fault(format!("{first:?} and {replica:?} lead {group:?} in {term:?}"));
        }
    }

    /// A replica says that the entries up to this one are committed. If it is the first to say so,
    /// a quorum of disks has to have the entry, with this term.
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
            if !witness.members.iter().any(|it| self.is_on_a_quorum(group, entry, it)) {
                let copies = self.copies(group, entry, &witness.members[0].voters);
                self.fault(format!("{node:?} {group:?}: {index:?} committed on {copies} disks"));
            }
            if self.copies(group, entry, &voter_of(node, witness.members[0])) == 0 {
                self.early_commits += 1;
            }
            let digest = digest(self.digest_at(group, Index(index.0 - 1)), entry);
            self.committed.entry(group).or_default().insert(index, (entry.term, digest));
        }
    }

    fn is_on_a_quorum(&self, group: Group, entry: &Entry, members: &Members) -> bool {
        let majority = |voters: &[ReplicaId]| self.copies(group, entry, voters) > voters.len() / 2;
        let outgoing = &members.outgoing;
        majority(&members.voters) && (outgoing.is_empty() || majority(outgoing))
    }

    /// The number of these replicas on whose disk the entry is.
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

    /// The machines of a replica have applied a committed entry, with this digest.
    pub(crate) fn applied(&mut self, node: NodeId, group: Group, index: Index, digest: Digest) {
        let expected = self.digest_at(group, index);
        if digest != expected {
            self.fault(format!("{node:?} {group:?}: other records up to {index:?}"));
        }
    }
}

fn voter_of(node: NodeId, members: &Members) -> Vec<ReplicaId> {
    members.voters.iter().copied().filter(|it| it.node() == node).collect()
}
