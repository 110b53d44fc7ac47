//! The brokers, and which of them leads a slot. A broker is a shard. On one machine its id is the
//! shard's number. In a cluster its id is the node's id times 1,000, plus this number.
//!
//! A node names the leader that it believes in. If this leader was deposed, it refuses the requests
//! of clients, which then look for the leader again.

use super::endpoints::{Endpoint, Endpoints};
use crate::config::ListenerIndex;
use crate::placement::{CONTROLLER, Placement, Slot};
use muster_runtime::replicas::{Leading, NodeId};
use muster_storage::LogSlot;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of broker ids that each node of a cluster has.
const SHARDS_OF_NODE: i32 = 1_000;

/// The nodes of a cluster.
#[derive(Debug, Clone)]
pub struct Nodes {
    /// This node.
    pub own: NodeId,
    /// The ids of all nodes, in order.
    pub ids: Arc<[NodeId]>,
    /// The other nodes whose addresses are known, in the order of their ids.
    pub others: Arc<[Node]>,
}

/// Another node, for clients.
#[derive(Debug, Clone)]
pub struct Node {
    pub id: NodeId,
    /// The number of its shards.
    pub shards: u32,
    /// The advertised addresses of its shards.
    pub endpoints: Endpoints,
}

/// The leaders of slots that a shard knows. Empty on one machine.
#[derive(Debug, Default)]
pub struct Leaders {
    of_slots: BTreeMap<LogSlot, Leading>,
}

impl Leaders {
    /// Takes news of a slot. Returns whether they are new.
    pub fn set(&mut self, news: Leading) -> bool {
        let known = self.of_slots.get(&news.slot);
        if known.is_some_and(|it| it.term > news.term || *it == news) {
            return false;
        }
        self.of_slots.insert(news.slot, news);
        true
    }

    pub fn all(&self) -> impl Iterator<Item = Leading> {
        self.of_slots.values().copied()
    }
}

/// All brokers, as the clients of a listener reach them.
#[derive(Debug, Clone, Copy)]
pub struct Brokers<'a> {
    /// The addresses of this node's shards, by their numbers.
    own: &'a [Endpoint],
    cluster: Option<(BrokersOfCluster<'a>, ListenerIndex)>,
}

/// A shard's knowledge of the other brokers of its cluster.
#[derive(Debug, Clone, Copy)]
pub struct BrokersOfCluster<'a> {
    /// This node.
    pub own: NodeId,
    /// The ids of all nodes, in order.
    pub ids: &'a [NodeId],
    /// The other nodes whose addresses are known, in the order of their ids.
    pub others: &'a [Node],
    pub leaders: &'a Leaders,
}

impl<'a> Brokers<'a> {
    /// The brokers of one machine.
    pub fn alone(endpoints: &'a [Endpoint]) -> Self {
        Self { own: endpoints, cluster: None }
    }

    /// The brokers of a cluster.
    pub fn of_cluster(
        own: &'a Endpoints,
        cluster: BrokersOfCluster<'a>,
        listener: ListenerIndex,
    ) -> Self {
        Self { own: own.of(listener), cluster: Some((cluster, listener)) }
    }

    pub fn are_of_cluster(self) -> bool {
        self.cluster.is_some()
    }

    /// The ids and addresses of all brokers, in the order of the ids.
    pub fn all(self) -> impl Iterator<Item = (i32, &'a Endpoint)> {
        let (others, listener) = match self.cluster {
            Some((cluster, listener)) => (cluster.others, listener),
            None => (&[][..], ListenerIndex::FIRST),
        };
        let own = self.own_id(0);
        let before = others.partition_point(|it| id_of(it.id, 0) < own);
        let of = move |node: &'a Node| (id_of(node.id, 0)..).zip(node.endpoints.of(listener));
        let (before, after) = others.split_at(before);
        before.iter().flat_map(of).chain((own..).zip(self.own)).chain(after.iter().flat_map(of))
    }

    /// The broker id of a shard of this node.
    pub fn own_id(self, shard: u32) -> i32 {
        self.cluster.map_or(shard as i32, |(cluster, _)| id_of(cluster.own, shard))
    }

    /// A shard of this node.
    pub fn own(self, shard: u32) -> Option<(i32, &'a Endpoint)> {
        Some((self.own_id(shard), self.own.get(shard as usize)?))
    }

    /// The broker that leads a slot, if it is known and these clients can reach it.
    pub fn leader(self, slot: Slot, placement: Placement) -> Option<(i32, &'a Endpoint)> {
        let own = placement.shard_of(slot);
        let Some((cluster, listener)) = self.cluster else { return self.own(own) };
        let leader = cluster.leaders.of_slots.get(&slot.log_slot())?.leader?;
        if leader == cluster.own {
            return self.own(own);
        }
        let node = cluster.others.iter().find(|it| it.id == leader)?;
        let shard = slot.0 % node.shards;
        Some((id_of(leader, shard), node.endpoints.of(listener).get(shard as usize)?))
    }

    /// The id of the broker that decides changes of the cluster; None if it is not known.
    pub fn controller(self) -> Option<i32> {
        match self.cluster {
            None => Some(self.own_id(CONTROLLER)),
            Some((cluster, _)) => {
                let leader = cluster.leaders.of_slots.get(&LogSlot::UNPARTITIONED)?.leader?;
                Some(id_of(leader, CONTROLLER))
            }
        }
    }

    /// The replica of a partition of a user topic in a slot: on one node of a cluster. None on one
    /// machine.
    pub fn host(self, slot: Slot, placement: Placement) -> Option<Replicas> {
        let (cluster, _) = self.cluster?;
        let host = *cluster.ids.get(placement.host(slot) as usize)?;
        let leader = if host == cluster.own {
            Some(self.own_id(placement.shard_of(slot)))
        } else {
            let node = cluster.others.iter().find(|it| it.id == host);
            node.map(|it| id_of(host, slot.0 % it.shards))
        };
        let replicas = vec![leader.unwrap_or(id_of(host, CONTROLLER))];
        Some(Replicas { leader, epoch: 0, replicas })
    }

    /// The replicas of a slot: one on each node of a cluster. None on one machine.
    pub fn replicas(self, slot: Slot, placement: Placement) -> Option<Replicas> {
        let (BrokersOfCluster { others, leaders, .. }, _) = self.cluster?;
        let others = others.iter().map(|it| id_of(it.id, slot.0 % it.shards));
        let mut replicas: Vec<_> = others.chain([self.own_id(placement.shard_of(slot))]).collect();
        replicas.sort_unstable();
        let epoch = leaders.of_slots.get(&slot.log_slot()).map_or(0, |it| it.term as i32);
        let leader = self.leader(slot, placement).map(|(id, _)| id);
        Some(Replicas { leader, epoch, replicas })
    }
}

/// The replicas of a partition, as clients see them.
#[derive(Debug, PartialEq, Eq)]
pub struct Replicas {
    /// The broker id of the leader; None if no leader is known.
    pub leader: Option<i32>,
    pub epoch: i32,
    pub replicas: Vec<i32>,
}

fn id_of(NodeId(node): NodeId, shard: u32) -> i32 {
    i32::from(node) * SHARDS_OF_NODE + shard as i32
}
