//! The topics of a data directory, from the log of shard 0.

use super::shard_files::ShardFiles;
use crate::Failure;
use crate::cluster::ClusterImage;
use crate::config::Config;
use crate::data_dir::Meta;
use crate::shard::{Common, LogSizes};
use muster_codec::records::ClusterRecord;
use muster_storage::LogPartition;
use std::path::Path;
use std::sync::Arc;

/// The configs of a server that would open the directory.
fn config(meta: &Meta) -> Result<Config, Failure> {
    let partitions = format!("offsets.topic.num.partitions={}", meta.offsets_partitions);
    Ok(Config::load("", &[partitions])?)
}

/// The state that the shards of a server would share.
pub(crate) fn common(meta: &Meta) -> Result<Common, Failure> {
    Ok(Common {
        config: Arc::new(config(meta)?),
        placement: meta.placement(),
        endpoints: Arc::new([]),
        cluster_id: meta.cluster_id.as_str().into(),
        data: "".into(),
        log_sizes: LogSizes::default(),
        known_logs: meta.logs.as_slice().into(),
        partition_files_max: 1,
    })
}

/// The topics, as far as the log can be read.
pub(super) fn image(data: &Path, meta: &Meta) -> Result<ClusterImage, Failure> {
    let mut image = ClusterImage::new(&config(meta)?);
    let shard = ShardFiles::open(data, meta.shards(), 0)?;
    shard.each_batch(|partition, batch| {
        match partition {
            LogPartition::Cluster => {}
            LogPartition::ConsumerOffsets(_) => return,
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
