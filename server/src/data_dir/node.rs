//! The data directory of a node in a cluster, from the first start to the end of the formation.

use super::{
    DataDir, DataDirError, Entry, Formation, Meta, NodeStamp, State, begin, entries, failed,
    has_stamp, refuse_traces,
};
use crate::clock::wall;
use crate::config::ClusterConfig;
use crate::files::block_bytes;
use crate::offline::{OfflineLog, log_config};
use crate::placement::{OFFSETS_PARTITIONS, Placement};
use crate::shard::{KnownLog, LogSizes, Nodes, form, log_directory};
use crate::trash;
use muster_codec::Uuid;
use muster_coordinator::Ids;
use muster_runtime::replicas::NodeId;
use std::collections::BTreeMap;
use std::path::Path;
use tracing::info;

impl DataDir {
    /// Opens and locks the directory of a node in a cluster. If it does not exist, or has no traces
    /// of use, it becomes the directory of a node that waits for the others. Its id is on the disk
    /// before this returns.
    ///
    /// # Errors
    /// The errors of [`Self::open`]; or the directory is that of one machine, of another node, or
    /// of a cluster of other nodes, or it has logs for another number of shards.
    pub fn open_node(
        path: &Path,
        placement: Placement,
        ids: &mut dyn Ids,
        cluster: &ClusterConfig,
    ) -> Result<Self, DataDirError> {
        let lock = begin(path)?;
        let old = if has_stamp(path)? { Some(Meta::read(path)?) } else { None };
        let meta = match &old {
            Some(meta) => continued(path, meta, placement, ids, cluster)?,
            None => {
                refuse_traces(path)?;
                info!("creates a data directory in {} for node {}", path.display(), cluster.own.0);
                let directory = ids.next_id();
                waiting(placement, ids, NodeStamp { id: cluster.own, directory, formation: None })
            }
        };
        if old.as_ref() != Some(&meta) {
            meta.write(path)?;
        }
        Ok(Self { path: path.to_owned(), meta, _lock: lock })
    }

    /// Records, durably, that a cluster of these directories is being formed.
    ///
    /// # Errors
    /// The directory is not that of a node, or the file system refuses.
    pub fn record_formation(
        &mut self,
        cluster_id: &str,
        nodes: &BTreeMap<NodeId, Uuid>,
    ) -> Result<(), DataDirError> {
        cluster_id.clone_into(&mut self.meta.cluster_id);
        let formation = Formation { nodes: nodes.clone(), is_complete: false };
        self.stamp_of_node()?.formation = Some(formation);
        self.meta.write(&self.path)
    }

    /// Makes the logs of all shards, and then records that the cluster is formed. An interrupted
    /// call may have left logs. They have no records of clients, so they are made again.
    ///
    /// # Errors
    /// The directory has recorded no formation, or the file system refuses.
    pub fn complete_formation(
        &mut self,
        placement: Placement,
        sizes: LogSizes,
    ) -> Result<(), DataDirError> {
        set_logs_aside(&self.path)?;
        let stamp = self.stamp_of_node()?;
        let own = stamp.id;
        let formation = stamp.formation.as_mut();
        let formation =
            formation.ok_or_else(|| DataDirError::First("no formation is recorded".to_owned()))?;
        formation.is_complete = true;
        let ids = formation.nodes.keys().copied().collect();
        let nodes = Nodes { own, ids, others: [].into() };
        make_logs(&self.path, &mut self.meta, &nodes, placement, sizes)?;
        self.meta.state = State::Made;
        self.meta.write(&self.path)
    }

    fn stamp_of_node(&mut self) -> Result<&mut NodeStamp, DataDirError> {
        let stamp = self.meta.node.as_mut();
        stamp.ok_or_else(|| DataDirError::First("the directory is not that of a node".to_owned()))
    }
}

/// The stamp of a node that waits for the others.
fn waiting(placement: Placement, ids: &mut dyn Ids, node: NodeStamp) -> Meta {
    Meta { node: Some(node), ..Meta::new(placement, ids) }
}

/// The stamp of an earlier start, for this one. While there are no logs, all settings may change,
/// except those that the other nodes know.
fn continued(
    path: &Path,
    meta: &Meta,
    placement: Placement,
    ids: &mut dyn Ids,
    cluster: &ClusterConfig,
) -> Result<Meta, DataDirError> {
    let Some(stamp) = &meta.node else {
        let why = "is that of one machine, which this version cannot turn into a node of a \
                   cluster: start it without controller.quorum.voters, or choose another directory";
        return Err(of_cluster(path, why.to_owned()));
    };
    let (NodeId(written), NodeId(own)) = (stamp.id, cluster.own);
    if written != own {
        let why = format!(
            "is that of node {written}, and this is node {own}: correct node.id, or start it with \
             its own directory"
        );
        return Err(of_cluster(path, why));
    }
    let Some(formation) = &stamp.formation else {
        return Ok(waiting(placement, ids, stamp.clone()));
    };
    check_formed(path, meta, formation, placement, cluster)?;
    let mut meta = meta.clone();
    if meta.shards() != placement.shards {
        meta.logs = (0..placement.shards).map(|_| KnownLog::new(ids)).collect();
    }
    Ok(meta)
}

/// Checks what cannot change once the formation is recorded.
fn check_formed(
    path: &Path,
    meta: &Meta,
    formation: &Formation,
    placement: Placement,
    cluster: &ClusterConfig,
) -> Result<(), DataDirError> {
    let names = |ids: &[NodeId]| {
        let ids: Vec<String> = ids.iter().map(|it| it.0.to_string()).collect();
        ids.join(", ")
    };
    let (recorded, configured) =
        (formation.nodes.keys().copied().collect::<Vec<_>>(), cluster.ids());
    if recorded != configured {
        let (recorded, configured) = (names(&recorded), names(&configured));
        let why = format!(
            "is of the cluster of the nodes {recorded}, and controller.quorum.voters names \
             {configured}: this version cannot change the nodes of a cluster"
        );
        return Err(of_cluster(path, why));
    }
    let (written, configured) = (meta.offsets_partitions, placement.offsets_partitions);
    if written != configured {
        return Err(DataDirError::Partitions { key: OFFSETS_PARTITIONS, written, configured });
    }
    let (written, configured) = (meta.shards(), placement.shards);
    if formation.is_complete && written != configured {
        let why = format!(
            "has the logs of {written} shards: this version cannot change the number of shards of \
             a node in a cluster, so start it with --shards {written}"
        );
        return Err(of_cluster(path, why));
    }
    Ok(())
}

/// Moves the logs of an interrupted formation to the trash.
fn set_logs_aside(path: &Path) -> Result<(), DataDirError> {
    let found = entries(path).map_err(|error| failed("read", path, error))?;
    for (name, _) in found.iter().filter(|(_, entry)| matches!(entry, Entry::ShardLogs(_))) {
        let aside = trash::move_aside(path, Path::new(name), wall().0);
        let aside = aside.map_err(|error| failed("move aside", &path.join(name), error))?;
        info!("the logs of an interrupted formation are now {}", aside.display());
    }
    Ok(())
}

/// Makes the log of each shard, durably, with the first block of each slot's replica.
fn make_logs(
    path: &Path,
    meta: &mut Meta,
    nodes: &Nodes,
    placement: Placement,
    sizes: LogSizes,
) -> Result<(), DataDirError> {
    let block_bytes = block_bytes(path).map_err(|error| failed("write to", path, error))?;
    let shards = meta.shards();
    for (number, known) in (0..).zip(&mut meta.logs) {
        let name = log_directory(shards, number);
        let config = log_config(name.clone(), known.id, block_bytes, sizes);
        let mut log = OfflineLog::of(path.to_owned(), form(nodes, placement, number, config));
        let end = log.finish().map_err(|error| failed("write", &path.join(name), error))?;
        known.end = end;
    }
    Ok(())
}

fn of_cluster(path: &Path, why: String) -> DataDirError {
    DataDirError::OfCluster { path: path.to_owned(), why }
}

#[cfg(test)]
mod tests;
