//! The checks of a hello against what this node is and knows.

use crate::hello::{Hello, Identity};
use crate::refusal::Refusal;
use crate::slots::share_a_slot;
use muster_codec::Uuid;
use muster_replication::NodeId;

/// Checks a hello. `dialled` is the shard that this node has dialled. `directory` is that of the
/// other node, if it is known.
///
/// # Errors
/// The first difference that matters.
pub fn check(
    own: &Identity,
    hello: &Hello,
    dialled: Option<(NodeId, u16)>,
    directory: Option<Uuid>,
) -> Result<(), Refusal> {
    let their = &hello.from;
    let (node, theirs) = (their.node, (their.node, their.shard));
    let ensure = |holds: bool, refusal: Refusal| if holds { Ok(()) } else { Err(refusal) };
    let is_self = (node, their.session) == (own.node, own.session);
    let meant = dialled.unwrap_or(hello.to).0;
    ensure(!is_self, Refusal::OwnAddress(meant))?;
    if let Some(dialled) = dialled {
        ensure(theirs == dialled, Refusal::Answer { dialled, theirs })?;
    }
    ensure(node != own.node, Refusal::OwnId(node))?;
    let is_meant = hello.to == (own.node, own.shard);
    ensure(is_meant, Refusal::Address { from: node, meant: hello.to })?;
    check_cluster(own, their)?;
    if let Some(known) = directory {
        let theirs = their.directory;
        ensure(theirs == known, Refusal::Directory { node, theirs, known })?;
    }
    let (theirs, ours) = (their.slots, own.slots);
    ensure(theirs == ours, Refusal::Slots { node, theirs, own: ours })?;
    let (theirs, ours) = (their.transactions_partitions, own.transactions_partitions);
    ensure(theirs == ours, Refusal::TransactionsPartitions { node, theirs, own: ours })?;
    let (theirs, ours) = (their.election_timeout_ms, own.election_timeout_ms);
    ensure(theirs == ours, Refusal::ElectionTimeout { node, theirs, own: ours })?;
    let (theirs, ours) = (their.features, own.features);
    ensure(theirs == ours, Refusal::Features { node, theirs, own: ours })?;
    let (theirs, ours) = ((their.shard, their.shards), (own.shard, own.shards));
    let shares = share_a_slot(own.slots, theirs, ours);
    ensure(shares, Refusal::NothingShared { node, theirs, own: ours })?;
    let (by, own, number) = (node, own.node, hello.refusal);
    ensure(number == 0, Refusal::ByPeer { by, own, number })
}

fn check_cluster(own: &Identity, their: &Identity) -> Result<(), Refusal> {
    if own.cluster == their.cluster {
        return Ok(());
    }
    let node = their.node;
    Err(match (own.cluster.is_empty(), their.cluster.is_empty()) {
        (true, _) => Refusal::NotFormed { node: own.node, cluster: their.cluster.clone() },
        (_, true) => Refusal::NotFormed { node, cluster: own.cluster.clone() },
        _ => Refusal::Cluster { node, theirs: their.cluster.clone(), own: own.cluster.clone() },
    })
}

#[cfg(test)]
mod tests;
