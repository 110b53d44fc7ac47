//! `muster log import`: writes the groups and topics of a stopped Kafka cluster to a new data
//! directory. The directory has a temporary name until everything in it is checked and durable.

mod groups;
mod kafka_dirs;
mod kafka_partition;
mod metadata;
mod shares;
mod topics;
mod write;

use crate::Verdict;
use crate::args::{Import, Verify};
use crate::verify;
use groups::Groups;
use kafka_dirs::KafkaDirs;
use muster_codec::records::TRANSACTIONS_TOPIC;
use muster_server::Failure;
use muster_server::cluster::OFFSETS_TOPIC;
use muster_server::config::Config;
use muster_server::directories;
use muster_server::placement::{NodePlace, OFFSETS_PARTITIONS, Placement};
use muster_server::topics::InternalTopic;
use muster_storage::PARTITIONS_MAX;
use shares::Shares;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use topics::Topics;

/// Imports a cluster.
///
/// # Errors
/// Kafka's directories are damaged or incomplete, the arguments do not fit them, the data directory
/// is not empty, the file system fails, or `out` cannot be written.
pub(super) fn import(arguments: &Import, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let kafka = KafkaDirs::find(&arguments.kafka, arguments.unclean)?;
    let offsets_partitions = offsets_partitions(&kafka, arguments)?;
    let placement = Placement {
        shards: arguments.shards.unwrap_or_else(usable_cores),
        offsets_partitions,
        transactions_partitions: transactions_partitions(&kafka),
        share_state_partitions: offsets_partitions,
        node: NodePlace::ALONE,
    };
    let staging = if arguments.dry_run {
        check_empty(&arguments.data).map(|()| None)?
    } else {
        Some(Staging::create(&arguments.data)?)
    };
    let topics = Topics::read(&kafka, arguments)?;
    let (groups, shares) = match staging {
        Some(staging) => bring_over(&kafka, placement, &topics, staging, &arguments.data)?,
        None => read(&kafka, placement, &topics)?,
    };
    for note in topics.notes().chain(groups.notes()).chain(shares.notes()) {
        writeln!(out, "note: {note}")?;
    }
    writeln!(out, "{}: {groups}, {topics}", arguments.data.display())?;
    if shares.imported > 0 {
        writeln!(out, "the state of {} share partitions", shares.imported)?;
    }
    let default = Config::default().placement(placement.shards);
    if placement.offsets_partitions != default.offsets_partitions {
        writeln!(out, "to be served with {OFFSETS_PARTITIONS}={}", placement.offsets_partitions)?;
    }
    Ok(Verdict::Good)
}

/// Writes the data directory.
fn bring_over(
    kafka: &KafkaDirs,
    placement: Placement,
    topics: &Topics,
    staging: Staging,
    data: &Path,
) -> Result<(Groups, Shares), Failure> {
    let found = write::write(&staging.path, kafka, placement, topics)?;
    topics.write_partitions(&staging.path, kafka)?;
    check(&staging.path)?;
    staging.finish(data)?;
    Ok(found)
}

/// Reads everything that would be imported (for a dry run).
fn read(
    kafka: &KafkaDirs,
    placement: Placement,
    topics: &Topics,
) -> Result<(Groups, Shares), Failure> {
    topics.each_partition(kafka, |_| Ok(()))?;
    let groups = Groups::read(kafka, placement, |_, _| Ok(()))?;
    Ok((groups, Shares::read(kafka, placement, topics, |_, _| Ok(()))?))
}

/// Kafka's number of offsets partitions. It determines the partition of each group.
fn offsets_partitions(kafka: &KafkaDirs, arguments: &Import) -> Result<u32, Failure> {
    let found = kafka.partition_count(OFFSETS_TOPIC);
    let count = arguments.offsets_partitions.unwrap_or(found.max(1));
    if found > count {
        return Err(format!("there are {found} partitions of {OFFSETS_TOPIC}").into());
    }
    if !arguments.partial {
        kafka.require_all(OFFSETS_TOPIC, count)?;
        let share_state = InternalTopic::ShareState.name();
        kafka.require_all(share_state, kafka.partition_count(share_state))?;
    }
    Ok(count)
}

/// The number of partitions that Kafka's topic of transactions has. It is kept, because a server
/// with Kafka's configs expects it; the records of these partitions are not imported.
fn transactions_partitions(kafka: &KafkaDirs) -> u32 {
    match kafka.partition_count(TRANSACTIONS_TOPIC) {
        0 => Config::default().placement(1).transactions_partitions,
        count => count.min(PARTITIONS_MAX as u32),
    }
}

/// Checks the written directory, like `muster log verify`.
fn check(data: &Path) -> Result<(), Failure> {
    let mut said = Vec::new();
    match verify::verify(&Verify { data: data.to_owned() }, &mut said)? {
        Verdict::Good => Ok(()),
        Verdict::Damaged | Verdict::Missing => {
            Err(String::from_utf8_lossy(&said).into_owned().into())
        }
    }
}

fn usable_cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

/// Fails if the data directory has entries.
fn check_empty(data: &Path) -> Result<(), Failure> {
    match fs::read_dir(data).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("{} is not empty", data.display()).into()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed("read", data)(error)),
    }
}

/// The directory that is being written. It is removed unless it is finished.
struct Staging {
    path: PathBuf,
    is_finished: bool,
}

impl Staging {
    fn create(data: &Path) -> Result<Self, Failure> {
        check_empty(data)?;
        // The path of the data directory without slashes at its end, plus a suffix.
        let mut name = data.components().collect::<PathBuf>().into_os_string();
        name.push(".importing");
        let path = PathBuf::from(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed("make", parent))?;
        }
        match fs::create_dir(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let path = path.display();
                Err(format!("{path} exists: remove it if no other import is writing it").into())
            }
            made => made.map_err(failed("make", &path)).map(|()| Self { path, is_finished: false }),
        }
    }

    /// Makes everything durable, then renames the directory to the data directory's name.
    fn finish(mut self, data: &Path) -> Result<(), Failure> {
        sync_tree(&self.path).map_err(failed("sync", &self.path))?;
        fs::rename(&self.path, data).map_err(failed("rename", &self.path))?;
        self.is_finished = true;
        directories::sync_name(data).map_err(failed("sync the name of", data))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.is_finished
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            eprintln!("could not remove {}: {error}", self.path.display());
        }
    }
}

fn sync_tree(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        } else {
            File::open(entry.path())?.sync_all()?;
        }
    }
    File::open(directory)?.sync_all()
}

/// Creates the error for an operation that the file system refused.
fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    move |error| format!("could not {what} {}: {error}", path.display()).into()
}
