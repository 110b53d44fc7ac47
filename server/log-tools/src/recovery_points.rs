//! Writes the recovery points of a data directory that no server has open.

use crate::segment_file::names;
use muster_server::Failure;
use muster_server::directories::{sync_name, sync_names};
use muster_server::partitions::layout::{self, RECOVERY_POINTS, is_recovery_points};
use muster_server::partitions::{PartitionId, RecoveryPoints};
use muster_storage::RecoveryPoint;
use muster_storage::partition_log::RecoveryPointsWriter;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// Writes all points to the file of shard 0, and removes the files of other shards.
///
/// # Errors
/// The file system fails.
pub(super) fn write(data: &Path, points: RecoveryPoints) -> Result<(), Failure> {
    let points: BTreeMap<PartitionId, RecoveryPoint> = points.into_iter().collect();
    let (mut entries, mut writer) = (Vec::new(), RecoveryPointsWriter::default());
    for (id, point) in &points {
        writer.push(id.topic, id.index, point, &mut entries);
    }
    let [path, aside] = layout::recovery_points(0).map(|path| data.join(path));
    fs::create_dir_all(data.join(RECOVERY_POINTS))?;
    let mut file = File::create(&aside)?;
    file.write_all(&writer.header())?;
    file.write_all(&entries)?;
    file.sync_all()?;
    fs::rename(&aside, &path)?;
    sync_name(&path)?;
    let others = names(&data.join(RECOVERY_POINTS))?.into_iter();
    for name in others.filter(|name| is_recovery_points(name)) {
        let other = data.join(RECOVERY_POINTS).join(name);
        if other != path {
            fs::remove_file(other)?;
        }
    }
    Ok(sync_names(data, &path)?)
}
