//! Reads the topics of a data directory from the log of shard 0.

use crate::shard_files::ShardFiles;
use muster_codec::records::ClusterRecord;
use muster_server::Failure;
use muster_server::cluster::{ClusterImage, Endpoints};
use muster_server::config::Config;
use muster_server::data_dir::Meta;
use muster_server::placement::{CONTROLLER, OFFSETS_PARTITIONS, TRANSACTIONS_PARTITIONS};
use muster_server::shard::{Common, LogSizes};
use muster_server::topics;
use std::path::Path;
use std::sync::Arc;

/// A config that fits the directory: a server with this config could open it.
fn config(meta: &Meta) -> Result<Config, Failure> {
    let offsets = format!("{OFFSETS_PARTITIONS}={}", meta.offsets_partitions);
    let transactions = format!("{TRANSACTIONS_PARTITIONS}={}", meta.transactions_partitions);
    Ok(Config::load("", &[offsets, transactions])?)
}

/// The state that the shards of a server share, as needed to read the directory.
///
/// # Errors
/// No config allows the partition counts of internal topics in `meta`.
pub fn common(meta: &Meta) -> Result<Common, Failure> {
    Ok(Common {
        config: Arc::new(config(meta)?),
        placement: meta.placement(),
        endpoints: Endpoints::default(),
        cluster_id: meta.cluster_id.as_str().into(),
        data: "".into(),
        log_sizes: LogSizes::default(),
        known_logs: meta.logs.as_slice().into(),
        partition_files_max: 1,
        audits: false,
        life: 1,
        may_have_lost_writes: false,
        stopwatch: || 0,
        space: Default::default(),
        token_keys: Default::default(),
        nodes: None,
    })
}

/// The topics, from all readable parts of the log.
pub(super) fn image(data: &Path, meta: &Meta) -> Result<ClusterImage, Failure> {
    let mut image = ClusterImage::new(&config(meta)?);
    let shard = ShardFiles::open(data, meta.shards(), CONTROLLER)?;
    shard.each_batch(|partition, batch| {
        if partition != topics::CLUSTER {
            return;
        }
        let Ok(records) = batch.records() else { return };
        for record in records.flatten() {
            let read = record.key.map(|key| ClusterRecord::read(key, record.value));
            if let Some(Ok(Some(record))) = read {
                image.apply(&record);
            }
        }
    })?;
    Ok(image)
}
