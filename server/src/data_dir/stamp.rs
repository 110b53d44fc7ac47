//! `meta.properties`, the stamp of a data directory. It has the settings that the files depend on,
//! the list of logs, and the durable end of each log at the last clean stop.

use super::DataDirError;
use super::node_stamp::NodeStamp;
use super::stamp_text::value;
use crate::placement::{NodePlace, OFFSETS_PARTITIONS, Placement, TRANSACTIONS_PARTITIONS};
use crate::shard::KnownLog;
use muster_coordinator::Ids;
use muster_storage::PARTITIONS_MAX;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

pub const STAMP_FILE_NAME: &str = "meta.properties";
pub(crate) const STAMP_ASIDE_FILE_NAME: &str = "meta.properties.new";

/// The versions of the file. In version 2, `__consumer_offsets` and `__transaction_state` have the
/// same number of partitions, as servers that know no version 3 assume. In version 3 the numbers
/// differ, and those servers refuse the file. Version 4 is that of a node in a cluster, with lines
/// of its own: a server for one machine would lose what the other nodes rely on.
const VERSIONS: [&str; 3] = ["2", "3", OF_NODE];
const OF_NODE: &str = "4";

/// The contents of `meta.properties`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    pub state: State,
    pub cluster_id: String,
    /// `offsets.topic.num.partitions`. It determines the partition of each group and never changes.
    pub offsets_partitions: u32,
    /// `transaction.state.log.num.partitions`. It determines the partition of each transactional id
    /// and never changes.
    pub transactions_partitions: u32,
    /// How often the server has started.
    pub starts: u32,
    /// The kernel's boot id at the earliest start of the server whose writes may not all be on
    /// stable storage yet. None if all writes are there.
    pub boot: Option<String>,
    /// The log of each shard, by shard number.
    pub logs: Vec<KnownLog>,
    /// The place of the directory in a cluster. None for one machine. Before the formation the
    /// cluster id has no meaning.
    pub node: Option<NodeStamp>,
}

/// Each load of a shard has a number, which must be higher than those of all earlier loads. So each
/// start of the server reserves this many. (A shard that fails is loaded again, but the pauses
/// between its loads grow to minutes.)
const LIVES_PER_RUN: u32 = 1_024;

/// Whether the logs that the stamp names must exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The directory is being created. Logs may be missing, and only shard 0's may have records.
    Making,
    /// All logs exist. The server does not start if one is missing.
    Made,
}

impl Meta {
    /// The stamp of a new directory whose logs do not exist yet.
    pub fn new(placement: Placement, ids: &mut dyn Ids) -> Self {
        let cluster_id = ids.next_id().to_string();
        let logs = (0..placement.shards).map(|_| KnownLog::new(ids)).collect();
        let Placement { offsets_partitions, transactions_partitions, .. } = placement;
        Self {
            state: State::Making,
            cluster_id,
            offsets_partitions,
            transactions_partitions,
            starts: 0,
            boot: None,
            logs,
            node: None,
        }
    }

    pub fn shards(&self) -> u32 {
        self.logs.len() as u32
    }

    /// The placement of this directory. The stamp has no number of partitions of
    /// `__share_group_state`. The operator may change that number, because only partitions that
    /// have the number of a slot have records.
    pub fn placement(&self) -> Placement {
        let Self { offsets_partitions, transactions_partitions, .. } = *self;
        Placement {
            shards: self.shards(),
            offsets_partitions,
            transactions_partitions,
            share_state_partitions: offsets_partitions,
            node: NodePlace::ALONE,
        }
    }

    /// Counts that the server starts; `boot` is the kernel's present boot id. Returns whether the
    /// machine was rebooted without a clean stop before, so that writes may be missing. The old
    /// boot id then stays recorded until the missing writes have been handled.
    pub fn begin_start(&mut self, boot: &str) -> bool {
        self.starts = self.starts.saturating_add(1);
        let is_lost = self.boot.as_deref().is_some_and(|before| before != boot);
        if !is_lost {
            self.boot = Some(boot.to_owned());
        }
        is_lost
    }

    /// The number of the shards' first life after this start; see
    /// [`Common::life`](crate::shard::Common).
    pub fn first_life(&self) -> i32 {
        i32::try_from(self.starts.saturating_mul(LIVES_PER_RUN)).unwrap_or(i32::MAX)
    }

    /// Records the durable end of each shard's log.
    pub fn record_ends(&mut self, ends: &[u64]) {
        for (log, end) in self.logs.iter_mut().zip(ends) {
            log.end = log.end.max(*end);
        }
    }

    /// Reads the stamp of a directory, even while a server holds the directory.
    ///
    /// # Errors
    /// The stamp cannot be read, is damaged, or is Kafka's.
    pub fn read(directory: &Path) -> Result<Self, DataDirError> {
        let path = stamp_file(directory);
        let bytes = fs::read(&path).map_err(|error| super::failed("read", &path, error))?;
        let text = String::from_utf8_lossy(&bytes);
        if is_kafkas(&text) {
            return Err(DataDirError::OfKafka { path: directory.to_owned() });
        }
        Self::parse(&text).map_err(|what| DataDirError::Damaged { path, what })
    }

    /// Replaces the stamp durably and atomically.
    ///
    /// # Errors
    /// A file system operation failed.
    pub fn write(&self, directory: &Path) -> Result<(), DataDirError> {
        let (file, fresh) = (stamp_file(directory), directory.join(STAMP_ASIDE_FILE_NAME));
        let write = || {
            fs::write(&fresh, self.to_string())?;
            File::open(&fresh)?.sync_all()?;
            fs::rename(&fresh, &file)?;
            File::open(directory)?.sync_all()
        };
        write().map_err(|error| super::failed("write", &file, error))
    }

    /// # Errors
    /// The reason as text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let version = value(text, "version")?;
        if !VERSIONS.contains(&version) {
            let known = VERSIONS.join(", ");
            return Err(format!("version={version}, and this server reads version={known}"));
        }
        let covered = text.rfind("checksum=").ok_or("checksum= is missing")?;
        if text[covered..] != checksum_line(&text[..covered]) {
            return Err("the checksum does not match".to_owned());
        }
        let state = match value(text, "state")? {
            "making" => State::Making,
            "made" => State::Made,
            other => return Err(format!("state={other}")),
        };
        let node = (version == OF_NODE).then(|| NodeStamp::parse(text)).transpose()?;
        let formation = node.as_ref().and_then(|it| it.formation.as_ref());
        if node.is_some() && formation.is_some_and(|it| it.is_complete) != (state == State::Made) {
            return Err("state= and cluster.state= contradict each other".to_owned());
        }
        let log = |number| {
            let id = value(text, &format!("log.{number}"))?;
            let id = u64::from_str_radix(id, 16).map_err(|_| format!("log.{number}={id}"))?;
            Ok(KnownLog { id, end: parsed(text, &format!("end.{number}"))? })
        };
        let shards: u32 = positive(text, "shards")?;
        let offsets_partitions = partitions(text, OFFSETS_PARTITIONS)?;
        Ok(Self {
            state,
            cluster_id: value(text, "cluster.id")?.to_owned(),
            offsets_partitions,
            // Earlier servers had the same number of partitions in both topics.
            transactions_partitions: value(text, TRANSACTIONS_PARTITIONS)
                .map_or(Ok(offsets_partitions), |_| partitions(text, TRANSACTIONS_PARTITIONS))?,
            // Earlier servers without transactions did not write these keys.
            starts: value(text, "starts").map_or(Ok(0), |_| parsed(text, "starts"))?,
            boot: value(text, "boot").ok().filter(|boot| *boot != "none").map(str::to_owned),
            logs: (0..shards).map(log).collect::<Result<_, String>>()?,
            node,
        })
    }
}

impl fmt::Display for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.state == State::Making { "making" } else { "made" };
        let is_equal = self.offsets_partitions == self.transactions_partitions;
        let version = match &self.node {
            Some(_) => OF_NODE,
            None => VERSIONS[usize::from(!is_equal)],
        };
        let mut text =
            format!("version={version}\nstate={state}\ncluster.id={}\n", self.cluster_id);
        text += &format!("{OFFSETS_PARTITIONS}={}\n", self.offsets_partitions);
        text += &format!("{TRANSACTIONS_PARTITIONS}={}\n", self.transactions_partitions);
        text += &format!("starts={}\n", self.starts);
        text += &format!("boot={}\n", self.boot.as_deref().unwrap_or("none"));
        text += &format!("shards={}\n", self.shards());
        for (number, KnownLog { id, end }) in self.logs.iter().enumerate() {
            text += &format!("log.{number}={id:016x}\nend.{number}={end}\n");
        }
        text += &self.node.as_ref().map(NodeStamp::lines).unwrap_or_default();
        f.write_str(&text)?;
        f.write_str(&checksum_line(&text))
    }
}

/// The path of a directory's stamp.
pub fn stamp_file(directory: &Path) -> PathBuf {
    directory.join(STAMP_FILE_NAME)
}

fn parsed<T: std::str::FromStr>(text: &str, key: &str) -> Result<T, String> {
    let value = value(text, key)?;
    value.parse().map_err(|_| format!("{key}={value}"))
}

/// The value of a key as a positive number.
///
/// # Errors
/// The key is missing, or its value is not a positive number.
fn positive(text: &str, key: &str) -> Result<u32, String> {
    let number = parsed(text, key)?;
    if number == 0 { Err(format!("{key}=0")) } else { Ok(number) }
}

/// The value of a key as the number of partitions of an internal topic.
///
/// # Errors
/// The key is missing, or its value is not a possible number of partitions.
pub fn partitions(text: &str, key: &str) -> Result<u32, String> {
    let count = positive(text, key)?;
    let is_possible = count as usize <= PARTITIONS_MAX;
    is_possible.then_some(count).ok_or_else(|| format!("{key}={count}"))
}

/// The last line of a stamp: the checksum of all lines before it.
fn checksum_line(text: &str) -> String {
    format!("checksum={:08x}\n", crc32c::crc32c(text.as_bytes()))
}

/// Whether the file is Kafka's: each Kafka log directory has a `meta.properties`, too.
fn is_kafkas(text: &str) -> bool {
    ["node.id", "broker.id"].iter().any(|key| value(text, key).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_dir::{Formation, is_of_node};
    use muster_codec::Uuid;
    use muster_runtime::replicas::NodeId;
    use std::collections::BTreeMap;

    fn meta() -> Meta {
        let logs = vec![KnownLog { id: 0x1f, end: 301 }, KnownLog { id: u64::MAX, end: 0 }];
        let cluster_id = "AAAAAAAAAAAAAAAAAAAAAA".to_owned();
        let boot = Some("11111111-2222".to_owned());
        Meta {
            state: State::Made,
            cluster_id,
            offsets_partitions: 50,
            transactions_partitions: 20,
            starts: 7,
            boot,
            logs,
            node: None,
        }
    }

    /// The stamps of a node before, during and after the formation of its cluster.
    fn of_node() -> [Meta; 3] {
        let nodes: BTreeMap<_, _> = [1, 7, 9].map(|it| (NodeId(it), Uuid([it as u8; 16]))).into();
        let stamp = |formation| NodeStamp { id: NodeId(7), directory: Uuid([7; 16]), formation };
        let formation = |is_complete| Some(Formation { nodes: nodes.clone(), is_complete });
        let of = |state, formation| Meta { state, node: Some(stamp(formation)), ..meta() };
        let (forming, formed) = (formation(false), formation(true));
        [of(State::Making, None), of(State::Making, forming), of(State::Made, formed)]
    }

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let alone = [State::Making, State::Made].map(|state| Meta { state, ..meta() });
        for meta in alone.into_iter().chain(of_node()) {
            meta.write(directory.path()).unwrap();
            assert_eq!(Meta::read(directory.path()).unwrap(), meta);
        }
    }

    #[test]
    fn no_bit_of_a_stamp_can_change() {
        for whole in of_node().iter().chain([&meta()]).map(Meta::to_string) {
            for at in 0..whole.len() {
                for bit in 0..8 {
                    let mut bytes = whole.clone().into_bytes();
                    bytes[at] ^= 1 << bit;
                    let changed = String::from_utf8_lossy(&bytes);
                    assert!(Meta::parse(&changed).is_err(), "byte {at}, bit {bit}: {changed}");
                }
            }
        }
    }

    #[test]
    fn a_stamp_that_is_cut_off_or_longer_is_damaged() {
        for whole in of_node().iter().chain([&meta()]).map(Meta::to_string) {
            for len in 0..whole.len() {
                assert!(Meta::parse(&whole[..len]).is_err(), "{len} bytes");
            }
            assert!(Meta::parse(&(whole + "end.0=1\n")).is_err());
        }
    }

    #[test]
    fn the_stamp_of_a_node_has_lines_of_its_own() {
        let [waiting, _, formed] = of_node().map(|it| it.to_string());
        assert!(waiting.starts_with("version=4\nstate=making\n"), "{waiting}");
        assert!(!waiting.contains("cluster.nodes="), "{waiting}");
        let lines = "cluster.node=7\ncluster.directory=BwcHBwcHBwcHBwcHBwcHBw\n\
             cluster.nodes=1:AQEBAQEBAQEBAQEBAQEBAQ,7:BwcHBwcHBwcHBwcHBwcHBw,\
             9:CQkJCQkJCQkJCQkJCQkJCQ\ncluster.state=formed\nchecksum=";
        assert!(formed.contains(lines), "{formed}");
        assert!(is_of_node(&formed) && is_of_node(&waiting) && !is_of_node(&meta().to_string()));
    }

    #[test]
    fn lines_of_a_node_that_contradict_each_other_are_damage() {
        let formed = of_node()[2].to_string();
        for (part, other, why) in [
            ("state=made", "state=making", "contradict"),
            ("cluster.state=formed", "cluster.state=forming", "contradict"),
            ("cluster.state=formed", "cluster.state=ended", "cluster.state=ended"),
            ("cluster.state=formed\n", "", "cluster.state= is missing"),
            ("cluster.node=7", "cluster.node=8", "lacks node 8"),
            ("cluster.node=7\n", "", "cluster.node= is missing"),
            (",9:CQkJ", ",9:", "cluster.nodes="),
            ("directory=BwcH", "directory=AAAA", "lacks node 7"),
        ] {
            let end = formed.find("checksum=").unwrap();
            let changed = formed[..end].replacen(part, other, 1);
            let error = Meta::parse(&(changed.clone() + &checksum_line(&changed))).unwrap_err();
            assert!(error.contains(why), "{part}: {error}");
        }
    }

    #[test]
    fn writes_may_be_lost_until_a_clean_stop_after_another_run_of_the_machine() {
        let mut meta = Meta { boot: None, ..meta() };
        assert!(!meta.begin_start("a") && !meta.begin_start("a"));
        assert!(meta.begin_start("b") && meta.begin_start("b"));
        meta.boot = None;
        assert!(!meta.begin_start("b"));
        assert_eq!((meta.starts, meta.first_life()), (12, 12 * 1_024));
    }

    #[test]
    fn a_stamp_of_a_server_without_transactions_is_read() {
        let whole = meta().to_string();
        let end = whole.find("checksum=").unwrap();
        let is_new =
            |line: &&str| ["starts=", "boot=", "transaction"].iter().any(|it| line.starts_with(it));
        let old: Vec<_> = whole[..end].lines().filter(|line| !is_new(line)).collect();
        let old = old.join("\n").replace("version=3", "version=2") + "\n";
        let read = Meta::parse(&(old.clone() + &checksum_line(&old))).unwrap();
        assert_eq!(read, Meta { transactions_partitions: 50, starts: 0, boot: None, ..meta() });
    }

    #[test]
    fn earlier_servers_refuse_other_numbers_of_partitions() {
        assert!(meta().to_string().starts_with("version=3\n"));
        let same = Meta { transactions_partitions: 50, ..meta() };
        assert!(same.to_string().starts_with("version=2\n"));
    }

    #[test]
    fn more_partitions_than_a_log_can_have_are_damage() {
        for (offsets_partitions, transactions_partitions) in [(10_001, 1), (1, 10_001), (1, 0)] {
            let wrong = Meta { offsets_partitions, transactions_partitions, ..meta() };
            assert!(Meta::parse(&wrong.to_string()).is_err());
        }
    }

    #[test]
    fn a_stamp_of_kafka_is_recognised() {
        let directory = tempfile::tempdir().unwrap();
        let kafkas = "#\nversion=1\nnode.id=1\ncluster.id=x\ndirectory.id=y\n";
        fs::write(stamp_file(directory.path()), kafkas).unwrap();
        let error = Meta::read(directory.path()).unwrap_err();
        assert!(matches!(error, DataDirError::OfKafka { .. }), "{error}");
    }
}
