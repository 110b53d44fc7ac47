//! FORMAT.md must agree with the code, and the bytes must not change between versions.

#![allow(clippy::unwrap_used)]

mod common;

use common::{
    CLUSTER, Disk, Found, compact, compacting_config, part, records, recover, settle, small_config,
    values,
};
use muster_storage::layout::{
    BLOCK_HEADER_BYTES, BLOCK_MAGIC, COMPACTED_HEADER_BYTES, COMPACTED_VERSION, FORMAT_VERSION,
    PARTITION_BYTES, REPLICATED_COMPACTED_VERSION, REPLICATED_VERSION, SEGMENT_HEADER_BYTES,
    SEGMENT_MAGIC,
};
use muster_storage::limits::{
    BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, OPEN_BYTES_MAX, OPERATION_BYTES_MAX,
    PARTITION_INDEX_SPAN_BYTES, SEGMENT_BYTES_DEFAULT, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN,
    SHARD_INDEX_SPAN_BYTES, SNAPSHOT_CHUNK_BYTES,
};
use muster_storage::log_partition::{PARTITIONS_MAX, UNPARTITIONED};
use muster_storage::partition_log::{
    RECOVERY_POINT_BYTES, RECOVERY_POINTS_BODY_AT, RECOVERY_POINTS_HEADER_BYTES,
    RECOVERY_POINTS_MAGIC, RECOVERY_POINTS_VERSION, START_OFFSET_MAGIC, START_OFFSET_SLOT_BYTES,
    START_OFFSET_SLOT_STRIDE, START_OFFSET_VERSION,
};
use muster_storage::slot_entry::{
    CHANGE_BYTES, GROUP_MAX, INDEX_LIMIT, MEMBERS_MAX, NODE_GROUP, SLOT_ENTRY_BYTES, TERM_LIMIT,
};
use muster_storage::snapshot::{
    REPLICATED_SNAPSHOT_VERSION, SECTION_ROW_BYTES, SNAPSHOT_BODY_AT, SNAPSHOT_HEADER_BYTES,
    SNAPSHOT_MAGIC, SNAPSHOT_VERSION,
};
use muster_storage::{Recovered, ShardLog};

const FORMAT: &str = include_str!("../FORMAT.md");

#[test]
fn the_constants_in_the_document_are_those_of_the_code() {
    let constants: [(&str, u64); 44] = [
        ("FORMAT_VERSION", FORMAT_VERSION.into()),
        ("COMPACTED_VERSION", COMPACTED_VERSION.into()),
        ("REPLICATED_VERSION", REPLICATED_VERSION.into()),
        ("REPLICATED_COMPACTED_VERSION", REPLICATED_COMPACTED_VERSION.into()),
        ("SLOT_ENTRY_BYTES", SLOT_ENTRY_BYTES as u64),
        ("NODE_GROUP", NODE_GROUP.into()),
        ("GROUP_MAX", GROUP_MAX.into()),
        ("INDEX_LIMIT", INDEX_LIMIT),
        ("TERM_LIMIT", TERM_LIMIT.into()),
        ("CHANGE_BYTES", CHANGE_BYTES as u64),
        ("MEMBERS_MAX", MEMBERS_MAX as u64),
        ("COMPACTED_HEADER_BYTES", COMPACTED_HEADER_BYTES as u64),
        ("SEGMENT_MAGIC", SEGMENT_MAGIC.into()),
        ("SEGMENT_HEADER_BYTES", SEGMENT_HEADER_BYTES as u64),
        ("BLOCK_MAGIC", BLOCK_MAGIC.into()),
        ("BLOCK_HEADER_BYTES", BLOCK_HEADER_BYTES as u64),
        ("PARTITION_BYTES", PARTITION_BYTES as u64),
        ("BLOCK_BYTES_MIN", BLOCK_BYTES_MIN.into()),
        ("BLOCK_BYTES_MAX", BLOCK_BYTES_MAX.into()),
        ("SEGMENT_BYTES_MIN", SEGMENT_BYTES_MIN.into()),
        ("SEGMENT_BYTES_DEFAULT", SEGMENT_BYTES_DEFAULT.into()),
        ("SEGMENT_BYTES_MAX", SEGMENT_BYTES_MAX.into()),
        ("OPERATION_BYTES_MAX", OPERATION_BYTES_MAX as u64),
        ("OPEN_BYTES_MAX", OPEN_BYTES_MAX as u64),
        ("PARTITIONS_MAX", PARTITIONS_MAX as u64),
        ("SHARD_INDEX_SPAN_BYTES", SHARD_INDEX_SPAN_BYTES.into()),
        ("PARTITION_INDEX_SPAN_BYTES", PARTITION_INDEX_SPAN_BYTES.into()),
        ("START_OFFSET_MAGIC", START_OFFSET_MAGIC.into()),
        ("START_OFFSET_VERSION", START_OFFSET_VERSION.into()),
        ("START_OFFSET_SLOT_BYTES", START_OFFSET_SLOT_BYTES as u64),
        ("START_OFFSET_SLOT_STRIDE", START_OFFSET_SLOT_STRIDE as u64),
        ("RECOVERY_POINTS_MAGIC", RECOVERY_POINTS_MAGIC.into()),
        ("RECOVERY_POINTS_VERSION", RECOVERY_POINTS_VERSION.into()),
        ("RECOVERY_POINTS_HEADER_BYTES", RECOVERY_POINTS_HEADER_BYTES as u64),
        ("RECOVERY_POINTS_BODY_AT", RECOVERY_POINTS_BODY_AT as u64),
        ("RECOVERY_POINT_BYTES", RECOVERY_POINT_BYTES as u64),
        ("SNAPSHOT_MAGIC", SNAPSHOT_MAGIC.into()),
        ("SNAPSHOT_VERSION", SNAPSHOT_VERSION.into()),
        ("REPLICATED_SNAPSHOT_VERSION", REPLICATED_SNAPSHOT_VERSION.into()),
        ("SNAPSHOT_HEADER_BYTES", SNAPSHOT_HEADER_BYTES as u64),
        ("SECTION_ROW_BYTES", SECTION_ROW_BYTES as u64),
        ("SNAPSHOT_BODY_AT", SNAPSHOT_BODY_AT),
        ("SNAPSHOT_CHUNK_BYTES", SNAPSHOT_CHUNK_BYTES as u64),
        ("UNPARTITIONED", UNPARTITIONED.into()),
    ];
    for (name, value) in constants {
        let row = FORMAT.lines().find(|line| line.starts_with(&format!("| `{name}` | ")));
        let row = row.unwrap_or_else(|| panic!("{name} is not in FORMAT.md"));
        let written = row.split('|').nth(2).unwrap().trim().trim_start_matches('-');
        let read = match written.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
            None => written.parse().unwrap(),
        };
        assert_eq!(read, value, "{name}");
    }
    let is_constant = |line: &&str| {
        let name = line.strip_prefix("| `").and_then(|rest| rest.split('`').next());
        name.is_some_and(|name| name.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'_')))
    };
    let rows = FORMAT.lines().filter(is_constant).count();
    assert_eq!(rows, constants.len(), "a constant that is not checked");
}

#[test]
fn every_recovery_case_of_the_code_has_its_row_and_its_test() {
    let code = include_str!("../src/shard_log/recovery/case.rs");
    let tests = [include_str!("recovery.rs"), include_str!("replicated_log.rs")];
    let letter = |line: &str| match line.as_bytes() {
        [case @ b'A'..=b'Z', b','] => Some(char::from(*case)),
        _ => None,
    };
    let cases: Vec<char> = code.lines().filter_map(|line| letter(line.trim())).collect();
    assert_eq!(cases, ('A'..='S').collect::<Vec<_>>());
    for case in cases {
        assert!(FORMAT.contains(&format!("\n| {case} | ")), "no row {case}");
        assert!(
            tests.iter().any(|it| it.contains(&format!("fn case_{}_", case.to_ascii_lowercase()))),
            "no test {case}"
        );
    }
}

/// A segment with two blocks, without the zeros that follow.
fn golden() -> Vec<u8> {
    let mut disk = Disk::default();
    let mut log = ShardLog::new(small_config(), Recovered::default());
    let record = |value| [(&b"key"[..], value)];
    log.append(part(CLUSTER), 1_000, record(Some(&b"cluster"[..]))).unwrap();
    log.append(part(7), 1_001, record(Some(&b"first"[..]))).unwrap();
    log.append(part(7), 1_002, record(None)).unwrap();
    settle(&mut log, &mut disk, 2_000);
    log.append(part(7), 1_003, record(Some(&b"second block"[..]))).unwrap();
    settle(&mut log, &mut disk, 2_000);
    let (_, segment) = disk.live.pop_first().unwrap();
    segment[..3 * 512].to_vec()
}

/// To accept a new format, raise `FORMAT_VERSION` and rewrite the file with MUSTER_GOLDEN=write.
#[test]
fn the_bytes_of_a_segment_do_not_change_unnoticed() {
    let path = "tests/data/golden-segment.bin";
    if std::env::var_os("MUSTER_GOLDEN").is_some_and(|what| what == "write") {
        std::fs::write(path, golden()).unwrap();
    }
    assert!(std::fs::read(path).unwrap() == golden(), "the format of segments has changed");
}

/// A complete compacted segment: a tombstone, a batch that lost a record, and a batch that lost all
/// records.
fn golden_compacted() -> Vec<u8> {
    let mut disk = Disk::default();
    let config = compacting_config();
    let mut log = ShardLog::new(config.clone(), Recovered::default());
    let mut now = 10_000;
    let a = (&b"a"[..], Some(&b"1"[..]));
    log.append(part(CLUSTER), now, [a]).unwrap();
    log.append(part(7), now, [a, (b"b", Some(b"2"))]).unwrap();
    log.append(part(7), now, [(&b"c"[..], None)]).unwrap();
    settle(&mut log, &mut disk, now);
    log.append(part(7), now, [a]).unwrap();
    log.append(part(8), now, [a, a]).unwrap();
    while !disk.live.contains_key(&config.dir.join("00000000000000000003.log")) {
        log.append(part(9), now, [(&b"key"[..], Some(&[0; 3_000][..]))]).unwrap();
        settle(&mut log, &mut disk, now);
    }
    compact(&mut log, &mut disk, &mut now);
    disk.live.pop_first().unwrap().1
}

#[test]
fn the_bytes_of_a_compacted_segment_do_not_change_unnoticed() {
    let path = "tests/data/golden-compacted.bin";
    if std::env::var_os("MUSTER_GOLDEN").is_some_and(|what| what == "write") {
        std::fs::write(path, golden_compacted()).unwrap();
    }
    assert!(std::fs::read(path).unwrap() == golden_compacted(), "the format has changed");
}

#[test]
fn the_golden_compacted_segment_is_read() {
    let mut disk = Disk::default();
    let segment = std::fs::read("tests/data/golden-compacted.bin").unwrap();
    disk.live.insert(small_config().dir.join("00000000000000000001.log"), segment);
    let (_, replayed) = recover(&disk, &small_config().dir).unwrap();
    let found = records(&replayed);
    let text = |((partition, offset), it): (&(i32, i64), &Found)| {
        let value = it.value.as_ref().map_or("-".into(), |value| String::from_utf8_lossy(value));
        format!("{partition}@{offset} {}={value} {}", it.key[0] as char, it.timestamp)
    };
    let texts: Vec<_> = found.iter().take(5).map(text).collect();
    let left = ["-1@0 a=1 10000", "7@1 b=2 10000", "7@2 c=- 10000", "7@3 a=1 10000"];
    assert_eq!(texts[..4], left);
    assert_eq!(texts[4], "8@1 a=1 10000");
}

#[test]
fn the_golden_segment_is_read() {
    let mut disk = Disk::default();
    let mut segment = std::fs::read("tests/data/golden-segment.bin").unwrap();
    segment.resize(small_config().segment_bytes as usize, 0);
    disk.live.insert(small_config().dir.join("00000000000000000001.log"), segment);
    let (recovered, replayed) = recover(&disk, &small_config().dir).unwrap();
    assert_eq!(recovered.position(), 4);
    let partitions: Vec<i32> = replayed.iter().map(|batch| batch.partition).collect();
    assert_eq!(partitions, [CLUSTER, 7, 7]);
    assert_eq!(values(&replayed[0].bytes), [b"cluster"]);
    assert_eq!(values(&replayed[2].bytes), [b"second block"]);
    assert_eq!(replayed[2].base_offset, 2);
}
