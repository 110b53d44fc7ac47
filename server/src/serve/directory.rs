//! Opens the data directory. A new node of a cluster first waits for the others.

use super::early_stop::EarlyStop;
use super::options::Options;
use super::ports::listen_for_nodes;
use crate::Failure;
use crate::clock::wall;
use crate::config::{ClusterConfig, Config};
use crate::data_dir::{DataDir, Meta};
use crate::formation::{self, ClusterIds, OwnNode};
use crate::placement::Placement;
use crate::random::RandomIds;
use crate::reshard;
use crate::shard::{LogSizes, Session};
use muster_coordinator::Ids;
use muster_peers::hello::SHARDS_MAX;
use tracing::info;

/// The data directory in the form that the config asks for.
pub(super) struct Prepared {
    pub(super) directory: DataDir,
    /// The config. `__transaction_state` has as many partitions as in the directory.
    pub(super) config: Config,
    pub(super) placement: Placement,
    pub(super) log_sizes: LogSizes,
    /// This node of a cluster. None on one machine.
    pub(super) node: Option<OwnNode>,
}

/// Opens the data directory. On one machine, moves its logs if the number of shards has changed. A
/// node of a cluster waits until the cluster is formed. None if it was stopped meanwhile.
pub(super) fn prepare_directory(
    options: &Options,
    early_stop: &EarlyStop,
) -> Result<Option<Prepared>, Failure> {
    let segment_bytes = Some(options.config.segment_bytes());
    let log_sizes = LogSizes { segment_bytes, ..LogSizes::default() };
    let ids = &mut RandomIds::new()?;
    let Some(cluster) = &options.cluster else {
        return prepare_machine(options, log_sizes, ids).map(Some);
    };
    let prepared = prepare_node(options, cluster, log_sizes, ids, early_stop)?;
    let prepared = prepared.filter(|_| !early_stop.end_wait());
    if prepared.is_none() {
        info!("stopped before the cluster was formed");
    }
    Ok(prepared)
}

fn prepare_machine(
    options: &Options,
    log_sizes: LogSizes,
    ids: &mut RandomIds,
) -> Result<Prepared, Failure> {
    let placement = options.config.placement(options.shards);
    let mut directory = open_directory(options, placement, log_sizes, ids)?;
    let mut config = options.config.clone();
    directory.keep_transactions_partitions(&mut config)?;
    let placement = config.placement(options.shards);
    reshard::reshard(&mut directory, placement, log_sizes, ids, wall().0)?;
    Ok(Prepared { directory, config, placement, log_sizes, node: None })
}

fn prepare_node(
    options: &Options,
    cluster: &ClusterConfig,
    log_sizes: LogSizes,
    ids: &mut RandomIds,
    early_stop: &EarlyStop,
) -> Result<Option<Prepared>, Failure> {
    check_node(options)?;
    let placement = options.config.placement(options.shards);
    let mut directory = DataDir::open_node(&options.data, placement, ids, cluster)?;
    let is_recorded = directory.meta.node.as_ref().is_some_and(|it| it.formation.is_some());
    if is_recorded {
        check_cluster_id(options, &directory)?;
    }
    let mut config = options.config.clone();
    directory.keep_transactions_partitions(&mut config)?;
    let placement = config.placement(options.shards);
    let own = OwnNode::new(cluster, &config, placement, Session(random_number(ids)));
    let wanted = options.cluster_id.clone();
    let proposed = wanted.clone().unwrap_or_else(|| ids.next_id().to_string());
    let cluster_ids = ClusterIds { wanted, proposed };
    let node = formation::form(
        &mut directory,
        &own,
        cluster,
        cluster_ids,
        || listen_for_nodes(cluster),
        log_sizes,
        early_stop.flag(),
    )?;
    let of_node = |node: OwnNode| {
        let placement = Placement { node: node.place(), ..placement };
        Prepared { directory, config, placement, log_sizes, node: Some(node) }
    };
    Ok(node.map(of_node))
}

/// Checks what a node of a cluster cannot do in this version.
fn check_node(options: &Options) -> Result<(), Failure> {
    if options.first_user.is_some() {
        return Err(
            "--first-user is for one machine: this version has no first user of a cluster, \
                    so add users once it is formed"
                .into(),
        );
    }
    if options.shards > u32::from(SHARDS_MAX) {
        return Err(format!("--shards: a node of a cluster has at most {SHARDS_MAX} shards").into());
    }
    Ok(())
}

/// Opens the data directory of one machine. A new directory gets the first user.
fn open_directory(
    options: &Options,
    placement: Placement,
    log_sizes: LogSizes,
    ids: &mut RandomIds,
) -> Result<DataDir, Failure> {
    let mut is_new = false;
    let first = |meta: &mut Meta| {
        is_new = true;
        meta.cluster_id = options.cluster_id.clone().unwrap_or_else(|| meta.cluster_id.clone());
        let user = options.first_user.as_ref();
        user.map_or(Ok(Vec::new()), |user| user.records_for(&options.config, meta))
    };
    let directory = DataDir::open_or_make(&options.data, placement, log_sizes, ids, first)?;
    check_cluster_id(options, &directory)?;
    if options.first_user.is_some() && !is_new {
        info!("the first user is not added, as the data directory is not new");
    }
    Ok(directory)
}

fn check_cluster_id(options: &Options, directory: &DataDir) -> Result<(), Failure> {
    let written = &directory.meta.cluster_id;
    if let Some(asked) = options.cluster_id.as_ref().filter(|asked| *asked != written) {
        let data = options.data.display();
        return Err(format!("{data} is of cluster {written}, but CLUSTER_ID is {asked}").into());
    }
    Ok(())
}

fn random_number(ids: &mut RandomIds) -> u64 {
    let bytes = ids.next_id().0;
    let [one, other] = [0, 8].map(|at| bytes[at..].first_chunk().copied().unwrap_or_default());
    // Some bits of an id are fixed, but not the same ones in both halves.
    u64::from_be_bytes(one) ^ u64::from_be_bytes(other).rotate_left(32)
}
