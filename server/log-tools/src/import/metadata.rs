//! Reads the configs of topics, groups and client metrics subscriptions from the log of Kafka's
//! controllers: the newest snapshot of `__cluster_metadata-0`, and the records after it.

use super::kafka_dirs::KafkaDirs;
use super::kafka_partition::KafkaPartition;
use crate::damage::Damage;
use crate::decompress;
use crate::segment_file::{Located, SegmentFile, names};
use muster_codec::{Reader, Uuid};
use muster_server::Failure;
use muster_server::cluster::{CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, Overrides, TOPIC_RESOURCE};
use muster_server::config::{ClientMetricsConfig, Config, GroupConfig, TopicConfig};
use std::collections::BTreeMap;
use std::path::Path;

/// The topic of Kafka's controllers.
const METADATA_TOPIC: &str = "__cluster_metadata";

/// The suffix of snapshots. The name of a snapshot begins with the offset at which it ends.
const SNAPSHOT_SUFFIX: &str = ".checkpoint";

/// The frame version that all records have.
const FRAME_VERSION: u32 = 1;

// The record types used here (`MetadataRecordType`).
const TOPIC: u32 = 2;
const CONFIG: u32 = 4;
const REMOVE_TOPIC: u32 = 9;
const BEGIN_TRANSACTION: u32 = 23;
const END_TRANSACTION: u32 = 24;
const ABORT_TRANSACTION: u32 = 25;

/// Configs by resource type and resource name.
pub(super) type Configs = BTreeMap<(i8, String), Overrides>;

/// The configs and topics in the controllers' log.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    state: State,
    /// If the controllers have a transaction open: the state before it began.
    before: Option<State>,
    buffer: Vec<u8>,
}

#[derive(Debug, Default, Clone)]
struct State {
    configs: Configs,
    topics: BTreeMap<Uuid, String>,
}

impl Metadata {
    /// Reads the configs. None if no directory contains the log.
    ///
    /// # Errors
    /// The log is damaged, Kafka has to recover it first, or the file system fails.
    pub(super) fn read(kafka: &KafkaDirs) -> Result<Option<Configs>, Failure> {
        let Some((_, replicas)) = kafka.of_topic(METADATA_TOPIC).next() else { return Ok(None) };
        let log = KafkaPartition::longest(replicas, kafka.may_be_torn)?;
        let mut metadata = Self::default();
        let mut from = 0;
        if let Some((end, name)) = newest_snapshot(&log.directory)? {
            let mut file = SegmentFile::open(log.directory.join(name))?;
            let path = file.path().to_owned();
            while let Some(located) = file.next()? {
                metadata.batch(&path, &located)?;
            }
            from = end;
        }
        log.each(|path, located| {
            if located.batch.header.base_offset < from {
                Ok(())
            } else {
                metadata.batch(path, located)
            }
        })?;
        Ok(Some(metadata.before.unwrap_or(metadata.state).configs))
    }

    fn batch(&mut self, path: &Path, located: &Located<'_>) -> Result<(), Failure> {
        let Located { at, batch } = located;
        if batch.header.is_control() {
            return Ok(());
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let replayed = decompress::records(batch, &mut buffer).and_then(|mut records| {
            records.try_for_each(|record| {
                let record = record.map_err(|error| error.to_string())?;
                let value = record.value.unwrap_or_default();
                self.record(value).map_err(|error| error.to_string())
            })
        });
        self.buffer = buffer;
        replayed.map_err(|what| Damage::new(path, *at, what).into())
    }

    /// Applies a record. A record of a type that is not used here is ignored. The types that are
    /// used have one version so far; later versions may only add fields.
    fn record(&mut self, value: &[u8]) -> muster_codec::wire::Result<()> {
        let mut reader = Reader::new(value);
        if reader.uvarint()? != FRAME_VERSION {
            return Err(muster_codec::DecodeError::InvalidBatch("not a controller record"));
        }
        let record_type = reader.uvarint()?;
        let _version = reader.uvarint()?;
        match record_type {
            TOPIC => {
                let name = compact_string(&mut reader)?.unwrap_or_default();
                self.state.topics.insert(Uuid(reader.array()?), name);
            }
            REMOVE_TOPIC => {
                if let Some(name) = self.state.topics.remove(&Uuid(reader.array()?)) {
                    self.state.configs.remove(&(TOPIC_RESOURCE, name));
                }
            }
            CONFIG => self.config(&mut reader)?,
            BEGIN_TRANSACTION => self.before = Some(self.state.clone()),
            END_TRANSACTION => self.before = None,
            ABORT_TRANSACTION => self.state = self.before.take().unwrap_or_default(),
            _ => {}
        }
        Ok(())
    }

    fn config(&mut self, reader: &mut Reader<'_>) -> muster_codec::wire::Result<()> {
        let resource_type = reader.i8()?;
        let resource = compact_string(reader)?.unwrap_or_default();
        let name = compact_string(reader)?.unwrap_or_default();
        let overrides = self.state.configs.entry((resource_type, resource)).or_default();
        match compact_string(reader)? {
            Some(value) => overrides.insert(name, value),
            None => overrides.remove(&name),
        };
        Ok(())
    }
}

fn compact_string(reader: &mut Reader<'_>) -> muster_codec::wire::Result<Option<String>> {
    let Some(len) = reader.compact_length()? else { return Ok(None) };
    Ok(Some(String::from_utf8_lossy(reader.take(len)?).into_owned()))
}

/// The newest snapshot: the offset at which it ends, and its name, `<offset>-<epoch>.checkpoint`.
fn newest_snapshot(directory: &Path) -> Result<Option<(i64, String)>, Failure> {
    let numbered = |name: String| {
        let (offset, _) = name.strip_suffix(SNAPSHOT_SUFFIX)?.split_once('-')?;
        Some((offset.parse().ok()?, name))
    };
    Ok(names(directory)?.into_iter().filter_map(numbered).max())
}

/// Removes configs of resources that are not imported: of topics that are left out, and of
/// resources other than topics, groups and client metrics subscriptions. Also removes configs that
/// muster would reject, and returns the reasons for these.
pub(super) fn retain_valid(
    configs: &mut Configs,
    defaults: &Config,
    has_topic: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut notes = Vec::new();
    configs.retain(|(resource_type, resource), overrides| {
        let is_ours = match *resource_type {
            TOPIC_RESOURCE => has_topic(resource),
            GROUP_RESOURCE | CLIENT_METRICS_RESOURCE => true,
            _ => return false,
        };
        overrides.retain(|name, value| {
            let alone = Overrides::from([(name.clone(), value.clone())]);
            let valid = validate(*resource_type, defaults, &alone);
            if let (true, Err(why)) = (is_ours, &valid) {
                notes.push(format!("{name}={value} of {resource} is left out: {why}"));
            }
            valid.is_ok()
        });
        if let (true, Err(why)) = (is_ours, validate(*resource_type, defaults, overrides)) {
            notes.push(format!("the configs of {resource} are left out: {why}"));
            return false;
        }
        is_ours && !overrides.is_empty()
    });
    notes
}

fn validate(resource_type: i8, defaults: &Config, overrides: &Overrides) -> Result<(), String> {
    match resource_type {
        TOPIC_RESOURCE => TopicConfig::validate(defaults, overrides),
        CLIENT_METRICS_RESOURCE => {
            ClientMetricsConfig::parse(overrides).map(drop).map_err(|invalid| invalid.to_string())
        }
        _ => GroupConfig::validate(defaults, overrides),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::wire::put_uvarint;

    fn record(record_type: u32, fields: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        [FRAME_VERSION, record_type, 0].iter().for_each(|it| put_uvarint(&mut out, *it));
        out.extend(fields.concat());
        out
    }

    fn string(text: &str) -> Vec<u8> {
        let mut out = vec![text.len() as u8 + 1];
        out.extend(text.as_bytes());
        out
    }

    fn config(name: &str, value: &str) -> Vec<u8> {
        record(CONFIG, &[&[2], &string("orders"), &string(name), &string(value), &[0]])
    }

    fn read(records: &[Vec<u8>]) -> Vec<(String, String)> {
        let mut metadata = Metadata::default();
        records.iter().for_each(|record| metadata.record(record).unwrap());
        let state = metadata.before.unwrap_or(metadata.state);
        state.configs.into_values().flatten().collect()
    }

    #[test]
    fn the_newest_value_counts_until_the_topic_is_removed() {
        let topic = record(TOPIC, &[&string("orders"), &[7; 16], &[0]]);
        let set = [topic, config("a", "1"), config("b", "2"), config("a", "3")];
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(read(&set), [pair("a", "3"), pair("b", "2")]);
        let unset = record(CONFIG, &[&[2], &string("orders"), &string("b"), &[0], &[0]]);
        assert_eq!(read(&[&set[..], &[unset]].concat()), [pair("a", "3")]);
        let gone = record(REMOVE_TOPIC, &[&[7; 16], &[0]]);
        assert_eq!(read(&[&set[..], &[gone]].concat()), []);
    }

    #[test]
    fn a_transaction_of_the_controllers_counts_when_it_ends() {
        let mut records = vec![config("a", "1"), record(BEGIN_TRANSACTION, &[&[0]])];
        records.push(config("a", "2"));
        let value = |records: &[Vec<u8>]| read(records)[0].1.clone();
        assert_eq!(value(&records), "1");
        let ended = |record_type| [&records[..], &[record(record_type, &[&[0]])]].concat();
        assert_eq!(value(&ended(END_TRANSACTION)), "2");
        assert_eq!(value(&ended(ABORT_TRANSACTION)), "1");
    }

    #[test]
    fn malformed_records_are_refused() {
        for bytes in [&[][..], &[0], &[2, 4, 0], &[1], &[1, 4, 0, 2, 0xff, 0xff, 0xff, 0xff, 0x0f]]
        {
            assert!(Metadata::default().record(bytes).is_err(), "{bytes:?}");
        }
        let unknown = record(99, &[&[1, 2, 3]]);
        assert!(Metadata::default().record(&unknown).is_ok());
    }
}
