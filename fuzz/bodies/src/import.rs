//! `muster log import` of arbitrary files in a Kafka directory. Input: flags, then files, each as
//! its index in [`FILES`], its length and its bytes.
//!
//! Properties: a data directory is created completely or not at all, and never if a dry run fails.

use crate::batches::repair_each;
use crate::memory::within;
use muster_log_tools::{Import, LogCommand, Verdict, carry_out};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The limit of memory. The records of one batch may take 256 MiB. When their buffer grows to this
/// size, the old buffer, which is half as large, exists at the same time.
const GRANTED_BYTES: usize = 448 << 20;

/// The files that an input may contain, of two brokers.
pub const FILES: [&str; 14] = [
    "a/__consumer_offsets-0/00000000000000000000.log",
    "a/__consumer_offsets-1/00000000000000000000.log",
    "a/__consumer_offsets-2/00000000000000000000.log",
    "a/__consumer_offsets-0/00000000000000000005.log",
    "b/__consumer_offsets-0/00000000000000000000.log",
    "a/orders-0/00000000000000000000.log",
    "a/orders-0/00000000000000000005.log",
    "a/orders-0/partition.metadata",
    "b/orders-0/00000000000000000000.log",
    "a/__cluster_metadata-0/00000000000000000000.log",
    "a/__cluster_metadata-0/00000000000000000243-0000000005.checkpoint",
    "a/log-start-offset-checkpoint",
    "a/meta.properties",
    "b/meta.properties",
];

const OFFSETS_PARTITIONS: u32 = 3;

// The flags of an input.
pub const REPAIRS: u8 = 1;
pub const UNCLEAN: u8 = 2;
pub const WITH_DATA: u8 = 4;
pub const PARTIAL: u8 = 8;
/// Four flags. Only if all of them are set, a data directory is written, because this takes a
/// hundred times as long as a dry run.
pub const WRITES: u8 = 0xf0;

pub fn run(input: &[u8]) {
    let Some((flags, rest)) = input.split_first() else { return };
    let directory = tempfile::tempdir().unwrap();
    let kafka = directory.path().join("kafka");
    let brokers = lay_out(&kafka, *flags, rest);
    let import = |dry_run| {
        let import = Import {
            kafka: brokers.iter().map(|broker| kafka.join(broker)).collect(),
            data: directory.path().join("data"),
            shards: Some(1),
            offsets_partitions: Some(OFFSETS_PARTITIONS),
            with_data: flags & WITH_DATA != 0,
            data_of: Vec::new(),
            partial: flags & PARTIAL != 0,
            unclean: flags & UNCLEAN != 0,
            dry_run,
        };
        let mut out = Vec::new();
        within(GRANTED_BYTES, || carry_out(&LogCommand::Import(import), &mut out))
    };
    let is_well = matches!(import(true), Ok(Verdict::Good));
    assert_eq!(names(directory.path()), ["kafka"], "a dry run writes nothing");
    if flags & WRITES == WRITES {
        let is_there = matches!(import(false), Ok(Verdict::Good));
        assert!(is_well || !is_there, "the dry run had refused it");
        let left: &[&str] = if is_there { &["data", "kafka"] } else { &["kafka"] };
        assert_eq!(names(directory.path()), left);
    }
}

/// Writes the files. Returns the brokers' directories.
fn lay_out(kafka: &Path, flags: u8, rest: &[u8]) -> Vec<&'static str> {
    let mut files = split(rest);
    let mut brokers: Vec<_> = files.keys().filter_map(|name| name.split('/').next()).collect();
    brokers.dedup();
    for meta in &FILES[FILES.len() - 2..] {
        if brokers.iter().any(|broker| meta.starts_with(broker)) {
            files.entry(meta).or_insert_with(|| b"cluster.id=c\n".to_vec());
        }
    }
    for (name, mut bytes) in files {
        if flags & REPAIRS != 0 && (name.ends_with(".log") || name.ends_with(".checkpoint")) {
            repair_each(&mut bytes);
        }
        let path = kafka.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    if flags & UNCLEAN == 0 {
        let stopped =
            |broker: &&str| fs::write(kafka.join(broker).join(".kafka_cleanshutdown"), "");
        brokers.iter().try_for_each(stopped).unwrap();
    }
    fs::create_dir_all(kafka).unwrap();
    brokers
}

fn split(mut rest: &[u8]) -> BTreeMap<&'static str, Vec<u8>> {
    let mut files = BTreeMap::new();
    while let Some(([file, high, low], behind)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let (bytes, behind) = behind.split_at(length.min(behind.len()));
        files.insert(FILES[usize::from(*file) % FILES.len()], bytes.to_vec());
        rest = behind;
    }
    files
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string();
    let mut names: Vec<_> = entries.map(|entry| name(entry).unwrap()).collect();
    names.sort_unstable();
    names
}
