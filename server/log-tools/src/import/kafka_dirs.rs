//! Finds the partitions in Kafka's log directories.

use super::failed;
use crate::segment_file::names;
use muster_codec::Uuid;
use muster_server::Failure;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The file that Kafka writes at a clean shutdown and removes at startup.
const CLEAN_SHUTDOWN_FILE: &str = ".kafka_cleanshutdown";

/// The log directories of a stopped cluster.
#[derive(Debug)]
pub(super) struct KafkaDirs {
    pub(super) cluster_id: Option<String>,
    /// Directories by topic and partition. There are several if brokers have replicas of a
    /// partition.
    partitions: BTreeMap<(String, i32), Vec<PathBuf>>,
    /// Whether brokers may have been killed (`--unclean`), so that ends of logs may be torn.
    pub(super) may_be_torn: bool,
}

impl KafkaDirs {
    /// Lists the directories.
    ///
    /// # Errors
    /// A directory cannot be read, is not Kafka's, or belongs to another cluster than the first;
    /// Kafka was not stopped cleanly; or there are no partitions.
    pub(super) fn find(directories: &[PathBuf], unclean: bool) -> Result<Self, Failure> {
        let mut found =
            Self { cluster_id: None, partitions: BTreeMap::new(), may_be_torn: unclean };
        for directory in directories {
            found.add(directory, unclean)?;
        }
        if found.partitions.is_empty() {
            return Err("there are no partitions in these directories".into());
        }
        Ok(found)
    }

    fn add(&mut self, directory: &Path, unclean: bool) -> Result<(), Failure> {
        let meta = directory.join("meta.properties");
        let text = fs::read_to_string(&meta).map_err(|error| {
            format!(
                "{}: not a log directory of Kafka's: meta.properties: {error}",
                directory.display()
            )
        })?;
        let cluster_id = text.lines().find_map(|line| line.strip_prefix("cluster.id="));
        let cluster_id = cluster_id.map(|id| id.trim().to_owned());
        if self.cluster_id.is_some() && cluster_id != self.cluster_id {
            return Err(format!("{} belongs to another cluster", meta.display()).into());
        }
        self.cluster_id = cluster_id;
        if !unclean && !directory.join(CLEAN_SHUTDOWN_FILE).exists() {
            return Err(format!(
                "{} has no {CLEAN_SHUTDOWN_FILE}: Kafka runs, or was killed. Stop it; or, with \
                 --unclean, torn batches at the end of a log are left out, as Kafka would do",
                directory.display()
            )
            .into());
        }
        for name in names(directory)? {
            let path = directory.join(&name);
            if let Some(partition) = parse(&name).filter(|_| path.is_dir()) {
                self.partitions.entry(partition).or_default().push(path);
            }
        }
        Ok(())
    }

    /// The number of partitions of a topic, derived from the highest partition number.
    pub(super) fn partition_count(&self, topic: &str) -> u32 {
        self.of_topic(topic).last().map_or(0, |(index, _)| index as u32 + 1)
    }

    /// The partitions of a topic, each with the directories of its replicas.
    pub(super) fn of_topic(
        &self,
        topic: &str,
    ) -> impl DoubleEndedIterator<Item = (i32, &[PathBuf])> {
        let range = (topic.to_owned(), 0)..=(topic.to_owned(), i32::MAX);
        self.partitions.range(range).map(|((_, index), replicas)| (*index, &**replicas))
    }

    /// The names of all topics.
    pub(super) fn topics(&self) -> Vec<&str> {
        let mut topics: Vec<_> = self.partitions.keys().map(|(topic, _)| &**topic).collect();
        topics.dedup();
        topics
    }

    /// Checks that the topic has `count` partitions.
    ///
    /// # Errors
    /// One of the partitions is in none of the directories.
    pub(super) fn require_all(&self, topic: &str, count: u32) -> Result<(), Failure> {
        let mut there = self.of_topic(topic).map(|(index, _)| index as u32).peekable();
        for index in 0..count {
            if there.next_if_eq(&index).is_none() {
                return Err(format!(
                    "{topic}-{index} is in none of the directories: give those of all brokers, or \
                     --partial"
                )
                .into());
            }
        }
        Ok(())
    }
}

/// Parses `<topic>-<partition>`; rejects names such as `<topic>-<partition>.<id>-delete`.
fn parse(name: &str) -> Option<(String, i32)> {
    let (topic, index) = name.rsplit_once('-')?;
    let number: i32 = index.parse().ok()?;
    let is_plain = number.to_string() == index && !topic.is_empty();
    is_plain.then(|| (topic.to_owned(), number))
}

/// The topic id in a partition's directory. None if the version of Kafka that created the topic had
/// no topic ids.
pub(super) fn topic_id(partition: &Path) -> Result<Option<Uuid>, Failure> {
    let path = partition.join("partition.metadata");
    if !path.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(&path).map_err(failed("read", &path))?;
    let id = text.lines().find_map(|line| line.strip_prefix("topic_id:"));
    let id = id.and_then(|id| Uuid::parse(id.trim())).filter(|id| !id.is_zero());
    id.map(Some).ok_or_else(|| format!("{}: it has no topic id", path.display()).into())
}

/// The log start offset in Kafka's checkpoint; 0 if it has none.
pub(super) fn start_offset(partition: &Path, topic: &str, index: i32) -> Result<i64, Failure> {
    let Some(directory) = partition.parent() else { return Ok(0) };
    let path = directory.join("log-start-offset-checkpoint");
    if !path.exists() {
        return Ok(0);
    }
    let text = fs::read_to_string(&path).map_err(failed("read", &path))?;
    for line in text.lines().skip(2) {
        let words: Vec<_> = line.split(' ').collect();
        let [name, number, offset] = words[..] else { continue };
        if name == topic && number.parse() == Ok(index) {
            let offset = offset.parse().ok().filter(|offset| *offset >= 0);
            return offset.ok_or_else(|| format!("{}: {line:?}", path.display()).into());
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_partitions_are_recognised() {
        let found = |name: &str| parse(name);
        assert_eq!(found("a-b-12"), Some(("a-b".to_owned(), 12)));
        assert_eq!(found("__consumer_offsets-0"), Some(("__consumer_offsets".to_owned(), 0)));
        for other in ["orders-3.5d8f-delete", "orders", "-1", "orders-01", "orders-+1", "a-"] {
            assert_eq!(found(other), None, "{other}");
        }
    }
}
