//! Recovery of a shard's log: from arbitrary bytes, and from a valid log with changed files.
//!
//! Properties: recovery either fails, or returns a prefix of the written operations, unchanged. A
//! log that opens accepts appends, and still has them at its next startup.

#[path = "../../../storage/tests/common/mod.rs"]
mod disk;

use crate::memory::within;
use arbitrary::{Arbitrary, Unstructured};
use disk::{
    Disk, Replayed, State, TOPICS, compact, compacting_config, part, recover, settle, small_config,
};
use muster_storage::shard_log::recovery::segment_file_name;
use muster_storage::{LogConfig, Recovered, Recovery, ShardLog};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

const GRANTED_BYTES: usize = 8 << 20;
const FILE_BYTES_MAX: usize = 64 << 10;
const EDITS_MAX: usize = 8;
const BLOCK_BYTES: usize = 512;

/// Uses arbitrary bytes as segments. Input: sequence numbers, lengths, bytes.
pub fn raw(mut input: &[u8]) {
    let mut files = BTreeMap::new();
    while let Some(([sequence, high, low], rest)) = input.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let (bytes, rest) = rest.split_at(length.min(rest.len()));
        files.insert(u64::from(*sequence), bytes);
        input = rest;
    }
    within(GRANTED_BYTES, || {
        let mut recovery = Recovery::new(TOPICS).replicated(small_config().slots);
        for (sequence, bytes) in files {
            if recovery.items(sequence, bytes, |_| {}).is_err() {
                return;
            }
        }
        drop(recovery.finish());
    });
}

/// Changes the files of a valid log. Input: which log; edits.
pub fn edits(input: &[u8]) {
    let mut u = Unstructured::new(input);
    let Ok(base) = u.choose(&*BASES) else { return };
    let mut disk = base.disk.clone();
    let mut forged = false;
    for _ in 0..EDITS_MAX {
        match Edit::arbitrary(&mut u) {
            Ok(edit) if !u.is_empty() => forged |= edit.apply(&base.config, &mut disk),
            _ => break,
        }
    }
    within(GRANTED_BYTES, || {
        let Ok((recovered, replayed)) = recover(&disk, &base.config.dir) else { return };
        if forged {
            return;
        }
        assert!(base.replayed.starts_with(&replayed), "batches not as they were written");
        check_continuation(base, disk, recovered, &replayed);
    });
}

/// Checks that the log accepts a record, can be compacted if its config says so, and opens again
/// with all records.
fn check_continuation(base: &Base, mut disk: Disk, recovered: Recovered, replayed: &[Replayed]) {
    let mut log = ShardLog::new(base.config.clone(), recovered);
    let (key, value) = (&b"new"[..], &b"value"[..]);
    log.append(part(0), 1_000, [(key, Some(value))]).unwrap();
    settle(&mut log, &mut disk, 1_000);
    let mut now = 1_000;
    compact(&mut log, &mut disk, &mut now);
    disk.crash();
    let (_, again) = recover(&disk, &base.config.dir).unwrap();
    let mut expected = State::of(replayed);
    expected.put(0, key, Some(value));
    assert_eq!(State::of(&again), expected, "the state after the append");
}

/// A change of files. A field with `block` in its name counts blocks; `at` counts bytes.
#[derive(Debug, Arbitrary)]
enum Edit {
    Byte {
        file: u8,
        at: u16,
        byte: u8,
    },
    Zeros {
        file: u8,
        block: u8,
        count: u8,
    },
    /// Copies a block over another. This is what a misdirected write does. It also stands for a
    /// block that was not replaced by its newer version.
    CopyBlock {
        from: u8,
        from_block: u8,
        to: u8,
        to_block: u8,
    },
    Length {
        file: u8,
        blocks: u8,
    },
    Remove {
        file: u8,
    },
    Renumber {
        file: u8,
        sequence: u8,
    },
    /// Changes one of the first 256 bytes of a block, or of a segment header, and makes the
    /// checksum valid. No real disk does this.
    Forge {
        file: u8,
        block: u8,
        at: u8,
        byte: u8,
    },
}

impl Edit {
    /// Applies the edit. Returns true if the edit is a forgery: the changed bytes look valid
    /// although no log wrote them.
    fn apply(&self, config: &LogConfig, disk: &mut Disk) -> bool {
        match *self {
            Self::Byte { file, at, byte } => {
                let Some(bytes) = bytes(disk, file) else { return false };
                let at = usize::from(at) % bytes.len().max(1);
                bytes.get_mut(at).into_iter().for_each(|it| *it = byte);
            }
            Self::Zeros { file, block, count } => {
                let Some(bytes) = bytes(disk, file) else { return false };
                let start = bytes.len().min(usize::from(block) * BLOCK_BYTES);
                let end = bytes.len().min(start + usize::from(count) * BLOCK_BYTES);
                bytes[start..end].fill(0);
            }
            Self::CopyBlock { from, from_block, to, to_block } => {
                let from =
                    bytes(disk, from).and_then(|it| block(it, from_block)).map(|it| it.to_vec());
                let to = bytes(disk, to).and_then(|it| block(it, to_block));
                from.zip(to).into_iter().for_each(|(from, to)| to.copy_from_slice(&from));
            }
            Self::Length { file, blocks } => {
                let Some(bytes) = bytes(disk, file) else { return false };
                bytes.resize((usize::from(blocks) * BLOCK_BYTES).min(FILE_BYTES_MAX), 0);
            }
            Self::Remove { file } => {
                let Some(path) = path(disk, file) else { return false };
                disk.live.remove(&path);
            }
            Self::Renumber { file, sequence } => {
                let Some(path) = path(disk, file) else { return false };
                let bytes = disk.live.remove(&path).unwrap();
                disk.live.insert(config.dir.join(segment_file_name(sequence.into())), bytes);
            }
            Self::Forge { file, block: at_block, at, byte } => {
                let Some(rest) = bytes(disk, file).and_then(|it| from_block(it, at_block)) else {
                    return false;
                };
                forge(rest, at.into(), byte);
                return true;
            }
        }
        disk.durable = disk.live.clone();
        false
    }
}

/// Sets a byte of a block or of a segment header, and makes the checksum valid.
fn forge(bytes: &mut [u8], at: usize, byte: u8) {
    bytes.get_mut(at).into_iter().for_each(|it| *it = byte);
    if bytes.len() < BLOCK_BYTES {
        return;
    }
    let length = u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]) as usize;
    let covered = match (bytes.starts_with(b"MSEG"), bytes[5]) {
        (true, 1) => 40,
        (true, _) => 76,
        (false, _) => length.clamp(16, bytes.len()),
    };
    let crc = crc32c::crc32c(&bytes[12..covered]);
    bytes[8..12].copy_from_slice(&crc.to_be_bytes());
}

fn path(disk: &Disk, file: u8) -> Option<PathBuf> {
    let count = disk.live.len().max(1);
    disk.live.keys().nth(usize::from(file) % count).cloned()
}

fn bytes(disk: &mut Disk, file: u8) -> Option<&mut Vec<u8>> {
    disk.live.get_mut(&path(disk, file)?)
}

fn from_block(bytes: &mut [u8], number: u8) -> Option<&mut [u8]> {
    bytes.get_mut(usize::from(number) * BLOCK_BYTES..)
}

fn block(bytes: &mut [u8], number: u8) -> Option<&mut [u8]> {
    from_block(bytes, number)?.get_mut(..BLOCK_BYTES)
}

/// A valid log with its batches.
struct Base {
    config: LogConfig,
    disk: Disk,
    replayed: Vec<Replayed>,
}

/// Four logs: one with a single segment and one with several, both without compaction; one that was
/// compacted before it reused files, and one after.
static BASES: LazyLock<[Base; 4]> = LazyLock::new(|| {
    [
        Base::new(small_config(), 6),
        Base::new(small_config(), 120),
        Base::new(compacting_config(), 300),
        Base::new(compacting_config(), 1_500),
    ]
});

impl Base {
    fn new(config: LogConfig, operations: usize) -> Self {
        let mut disk = Disk::default();
        let mut log = ShardLog::new(config.clone(), Recovered::default());
        let mut now = 0;
        for operation in 0..operations {
            let key = [b'k', (operation * 7 % 23) as u8];
            let value = vec![operation as u8; 200 + operation % 5 * 100];
            let value = (!operation.is_multiple_of(11)).then_some(&value[..]);
            now += 10;
            log.append(part((operation % 3) as i32 - 1), now, [(&key[..], value)]).unwrap();
            settle(&mut log, &mut disk, now);
            if operation.is_multiple_of(64) {
                compact(&mut log, &mut disk, &mut now);
            }
        }
        disk.close_all();
        let (_, replayed) = recover(&disk, &config.dir).unwrap();
        Self { config, disk, replayed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logs_have_the_forms_that_they_stand_for() {
        let compacted = |base: &Base| {
            let mut files = base.disk.live.values();
            files.any(|it| {
                muster_storage::layout::SegmentHeader::read(it)
                    .is_ok_and(|(it, _)| it.compacted.is_some())
            })
        };
        assert!(BASES[..2].iter().all(|base| !compacted(base)));
        assert!(BASES[2..].iter().all(compacted));
        assert!(BASES.iter().all(|base| !base.replayed.is_empty()));
        assert!(BASES[1].disk.live.len() > 2, "several segments");
    }
}
