//! The quorums of a cluster, by nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A node whose replica lacks no more committed entries than this is in step: under load there are
/// always some under way.
const IN_STEP: i64 = 64;

/// A quorum, as its leader describes it.
#[derive(Debug, Clone)]
pub(crate) struct Quorum {
    pub(crate) leader: i32,
    pub(crate) term: i32,
    pub(crate) replicas: Vec<Replica>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Replica {
    pub(crate) node: i32,
    /// How many committed entries it lacks.
    pub(crate) behind: i64,
    /// Whether it was heard lately.
    pub(crate) is_heard: bool,
}

/// How the nodes of a cluster are.
#[derive(Debug)]
pub(crate) struct Standing {
    cluster_id: String,
    controller: (i32, i32),
    nodes: BTreeMap<i32, Node>,
    /// The number of quorums that were described.
    quorums: usize,
    /// The partitions that have no leader, or whose leader did not answer.
    missing: BTreeSet<i32>,
}

#[derive(Debug, Default)]
struct Node {
    address: String,
    leads: usize,
    in_step: usize,
    behind: i64,
    is_heard: bool,
}

impl Standing {
    pub(crate) fn of(cluster_id: String) -> Self {
        let (nodes, missing) = (BTreeMap::new(), BTreeSet::new());
        Self { cluster_id, controller: (-1, -1), nodes, quorums: 0, missing }
    }

    /// Sets the addresses at which the nodes reach each other.
    pub(crate) fn set_nodes(&mut self, addresses: BTreeMap<i32, String>) {
        for (id, address) in addresses {
            self.nodes.entry(id).or_default().address = address;
        }
    }

    /// Adds the quorum of the cluster's changes.
    pub(crate) fn set_changes(&mut self, quorum: &Quorum) {
        self.controller = (quorum.leader, quorum.term);
        self.count(quorum);
    }

    /// Adds the quorum of a partition. None if its leader did not describe it.
    pub(crate) fn add(&mut self, partition: i32, quorum: Option<&Quorum>) {
        match quorum {
            Some(quorum) => self.count(quorum),
            None => drop(self.missing.insert(partition)),
        }
    }

    fn count(&mut self, quorum: &Quorum) {
        self.quorums += 1;
        for replica in &quorum.replicas {
            let node = self.nodes.entry(replica.node).or_default();
            node.leads += usize::from(replica.node == quorum.leader);
            node.in_step += usize::from(replica.is_heard && replica.behind <= IN_STEP);
            node.behind += replica.behind;
            node.is_heard |= replica.is_heard;
        }
    }

    /// Whether all quorums were described.
    pub(crate) fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Whether each node has all that is committed in each quorum, so that any one of them may be
    /// lost.
    pub(crate) fn may_lose_any(&self) -> bool {
        self.is_complete() && self.nodes.values().all(|it| it.in_step == self.quorums)
    }

    fn verdict(&self) -> String {
        if self.may_lose_any() {
            return "yes".to_owned();
        }
        let mut why = Vec::new();
        for (id, node) in &self.nodes {
            if !node.is_heard {
                why.push(format!("node {id} is not heard"));
            } else if node.in_step < self.quorums {
                why.push(format!("node {id} is not in step"));
            }
        }
        if !self.missing.is_empty() {
            let all: Vec<String> = self.missing.iter().map(ToString::to_string).collect();
            why.push(format!("no leader answers for partitions {}", all.join(", ")));
        }
        format!("NO ({})", why.join("; "))
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (controller, term) = self.controller;
        writeln!(f, "cluster {}  controller node {controller} (term {term})", self.cluster_id)?;
        let width = self.nodes.values().map(|it| it.address.len()).max().unwrap_or(0).max(7);
        writeln!(f, "node   {:<width$}  heard  leads  in step  behind", "address")?;
        for (id, node) in &self.nodes {
            let heard = if node.is_heard { "yes" } else { "no" };
            let step = format!("{}/{}", node.in_step, self.quorums);
            let Node { address, leads, behind, .. } = node;
            writeln!(f, "{id:<5}  {address:<width$}  {heard:<5}  {leads:<5}  {step:<7}  {behind}")?;
        }
        writeln!(f, "any one machine may be lost: {}", self.verdict())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quorum(leader: i32, third: Replica) -> Quorum {
        let of = |node| Replica { node, behind: 0, is_heard: true };
        Quorum { leader, term: 7, replicas: vec![of(1), of(2), third] }
    }

    fn standing(third: Replica) -> Standing {
        let mut standing = Standing::of("Zk8s".to_owned());
        let address = |id: i32| (id, format!("127.0.0.1:9{id}93"));
        standing.set_nodes([1, 2, 3].map(address).into());
        standing.set_changes(&quorum(2, third));
        standing.add(0, Some(&quorum(1, third)));
        standing.add(1, Some(&quorum(2, third)));
        standing
    }

    #[test]
    fn any_machine_may_be_lost_while_all_are_in_step() {
        let standing = standing(Replica { node: 3, behind: 4, is_heard: true });
        assert!(standing.may_lose_any());
        let expected = "\
cluster Zk8s  controller node 2 (term 7)
node   address         heard  leads  in step  behind
1      127.0.0.1:9193  yes    1      3/3      0
2      127.0.0.1:9293  yes    2      3/3      0
3      127.0.0.1:9393  yes    0      3/3      12
any one machine may be lost: yes
";
        assert_eq!(standing.to_string(), expected);
    }

    #[test]
    fn a_node_that_is_away_or_behind_and_a_partition_without_a_leader_have_names() {
        let mut away = standing(Replica { node: 3, behind: 4000, is_heard: false });
        assert!(!away.may_lose_any() && away.is_complete());
        let last = |it: &Standing| it.to_string().lines().last().unwrap().to_owned();
        assert_eq!(last(&away), "any one machine may be lost: NO (node 3 is not heard)");
        away.add(4, None);
        assert!(!away.is_complete());
        assert!(last(&away).ends_with("; no leader answers for partitions 4)"));
        let behind = standing(Replica { node: 3, behind: 65, is_heard: true });
        assert_eq!(last(&behind), "any one machine may be lost: NO (node 3 is not in step)");
        let mut missing = standing(Replica { node: 3, behind: 0, is_heard: true });
        missing.add(9, None);
        assert!(!missing.may_lose_any());
    }
}
