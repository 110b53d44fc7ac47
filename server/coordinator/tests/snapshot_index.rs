//! A snapshot's file changes while it is mapped. A look-up in its index must return what was
//! written, or report damage.
#![allow(clippy::unwrap_used)]

use muster_codec::records::{GroupRecord, OffsetCommitKey, OffsetCommitValue};
use muster_coordinator::{Config, Coordinator, SnapshotPart};
use snapshots::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

mod common;
mod snapshots;

const GROUPS: usize = 100;

/// A mapped file. Its bytes change from `before` to `after` when `has_changed` is set.
struct Mapped {
    before: Vec<u8>,
    after: Vec<u8>,
    has_changed: AtomicBool,
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        if self.has_changed.load(Ordering::Relaxed) { &self.after } else { &self.before }
    }
}

fn id(number: usize) -> String {
    format!("group-{number:04}")
}

/// A file with groups of one offset each, and the fingerprints of the groups.
fn written() -> (File, Vec<Option<u64>>) {
    let mut coordinator = Coordinator::new(Config::default());
    for number in 0..GROUPS {
        let key = OffsetCommitKey { group: id(number).into(), topic: "t".into(), partition: 0 };
        let value = OffsetCommitValue { offset: number as i64, ..Default::default() };
        coordinator.replay(&GroupRecord::OffsetCommit(key, Some(value)), 1);
    }
    let file = snapshots::snapshot(&mut coordinator, 1);
    let prints = (0..GROUPS).map(|number| coordinator.fingerprint(&id(number))).collect();
    (file, prints)
}

/// Opens the file, and changes it after that.
fn changed_after(file: &File, change: impl FnOnce(&mut [u8])) -> Coordinator {
    let SnapshotPart { at, len, .. } = file.index;
    let (before, mut after) = (file.bytes.clone(), file.bytes.clone());
    change(&mut after[at as usize..(at + len) as usize]);
    let mapped = Arc::new(Mapped { before, after, has_changed: false.into() });
    let coordinator = snapshots::open_bytes(Config::default(), mapped.clone(), file.index).unwrap();
    mapped.has_changed.store(true, Ordering::Relaxed);
    coordinator
}

/// Looks up a group. If no damage is found, the group must be as it was written. Returns whether
/// damage was found.
fn finds_damage(coordinator: &mut Coordinator, number: usize, print: Option<u64>) -> bool {
    let found = coordinator.fingerprint(&id(number));
    let is_damaged = coordinator.damage().is_some();
    assert!(is_damaged || found == print, "{} is {found:?}, not {print:?}", id(number));
    is_damaged
}

#[test]
fn each_changed_bit_of_the_index_is_noticed() {
    let (file, prints) = written();
    for at in (0..file.index.len as usize).step_by(31) {
        let change = |index: &mut [u8]| index[at] ^= 1 << (at % 8);
        let mut coordinator = changed_after(&file, change);
        let found = (0..GROUPS).any(|it| finds_damage(&mut coordinator, it, prints[it]));
        // The first 8 bytes are the number of groups. It is read only when the file is opened.
        assert!(found || at < 8, "byte {at}");
    }
}

#[test]
fn a_zeroed_page_damages_each_group_in_it() {
    let (file, prints) = written();
    for (number, print) in prints.into_iter().enumerate() {
        let mut coordinator = changed_after(&file, |index| index[4096..8192].fill(0));
        finds_damage(&mut coordinator, number, print);
    }
    let mut coordinator = changed_after(&file, |index| index[4096..8192].fill(0));
    coordinator.load_members();
    assert_eq!(
        coordinator.damage().map(ToString::to_string).as_deref(),
        Some("the index was changed after it was opened")
    );
}

#[test]
fn an_index_with_another_checksum_is_not_opened() {
    let (mut file, _) = written();
    file.index.crc ^= 1;
    assert!(snapshots::open(Config::default(), &file).is_none());
}
