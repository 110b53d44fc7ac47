//! Changes topics, configs and users in a data directory that no server uses.

use muster_codec::records::ClusterRecord;
use muster_log_tools::common;
use muster_server::Failure;
use muster_server::clock::wall;
use muster_server::cluster::{ClusterImage, OfflinePartitions, View};
use muster_server::config::Config;
use muster_server::data_dir::DataDir;
use muster_server::files::block_bytes;
use muster_server::offline::OfflineLog;
use muster_server::placement::CONTROLLER;
use muster_server::random::RandomIds;
use muster_server::shard::load;
use muster_server::topics;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// Runs `act`, which prints to standard output. `name` is the name of its command in messages about
/// errors. The exit status is 0 on success, 2 on failure.
pub(crate) fn run(name: &str, act: impl FnOnce(&mut dyn Write) -> Result<(), Failure>) -> ExitCode {
    match act(&mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("muster {name}: {failure}");
            ExitCode::from(2)
        }
    }
}

/// The topics, configs and users of the data directory.
pub(crate) fn image(data: &Path) -> Result<Arc<ClusterImage>, Failure> {
    let directory = DataDir::open_read_only(data)?;
    let loaded = load(data, &common(&directory.meta)?, CONTROLLER)?;
    Ok(loaded.image().ok_or("shard 0 has no topics")?.clone())
}

/// Appends the records that `decide` returns to the log of shard 0, which has all records of the
/// cluster. `decide` sees `config`, or if it is `None`, a config that fits the data directory.
pub(crate) fn change_cluster(
    data: &Path,
    config: Option<&Config>,
    decide: impl FnOnce(&View<'_>) -> Result<Vec<ClusterRecord<'static>>, Failure>,
) -> Result<(), Failure> {
    let mut directory = DataDir::hold(data)?;
    let common = common(&directory.meta)?;
    let loaded = load(data, &common, CONTROLLER)?;
    let image = loaded.image().ok_or("shard 0 has no topics")?.clone();
    let offline = OfflinePartitions::default();
    let view = common.view(&image, &offline, CONTROLLER);
    let records = decide(&View { config: config.unwrap_or(view.config), ..view })?;
    if records.is_empty() {
        return Ok(());
    }
    loaded.keep_cut(data, wall().0)?;
    let log = loaded.into_log(block_bytes(data)?, &mut RandomIds::new()?);
    let mut offline = OfflineLog::of(data.to_owned(), log);
    offline.log.append(topics::CLUSTER, wall().0, &records)?;
    offline.flush()?;
    Ok(directory.record_ends(&[offline.log.progress().flushed()], false)?)
}
