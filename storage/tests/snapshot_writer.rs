//! Writing a snapshot: after a crash at any point, the old or the new snapshot exists.

#![allow(clippy::unwrap_used)]

mod common;

use common::Disk;
use muster_storage::snapshot::{
    Part, SNAPSHOT_ASIDE_FILE_NAME, SNAPSHOT_BODY_AT, SNAPSHOT_FILE_NAME, Snapshot, SnapshotHeader,
    SnapshotNews, SnapshotWriter, WriterConfig,
};
use muster_storage::{FileId, FileOp, FileToken};
use std::path::Path;

const NEWEST: u64 = 20;

fn writer() -> SnapshotWriter {
    SnapshotWriter::new(WriterConfig {
        dir: "shard-0".into(),
        file: FileId(9),
        token: FileToken(5 << 56),
    })
}

fn path() -> &'static Path {
    Path::new("shard-0/snapshot")
}

/// Writes a snapshot with a body of `len` bytes. The file operations are performed one after the
/// other, and `each` is called before each of them.
fn write(
    disk: &mut Disk,
    writer: &mut SnapshotWriter,
    len: usize,
    mut each: impl FnMut(&Disk, &FileOp),
) {
    let body: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
    let (mut given, mut news) = (0, None);
    let mut ops = Vec::new();
    writer.begin(&mut ops);
    while news.is_none() {
        if writer.has_room() && given < len {
            let to = len.min(given + 100_000);
            writer.body().extend(&body[given..to]);
            given = to;
        } else if given == len && !writer.is_idle() && writer.has_room() {
            let part = Part::of(SNAPSHOT_BODY_AT, &body);
            assert_eq!(writer.body_end(), SNAPSHOT_BODY_AT + len as u64);
            let (log_id, from, newest) = (1, 10, NEWEST);
            writer.finish(SnapshotHeader {
                log_id,
                from,
                newest,
                sections: Part::of(SNAPSHOT_BODY_AT, &[]),
                log: part,
                ..Default::default()
            });
        }
        news = writer.poll(NEWEST, &mut ops);
        for op in std::mem::take(&mut ops) {
            each(disk, &op);
            if let Some(done) = disk.perform(op) {
                assert_eq!(writer.done(done, &mut ops), None);
            }
        }
    }
    assert!(matches!(news, Some(SnapshotNews::Written(_))));
}

#[test]
fn a_snapshot_holds_the_bytes_that_were_appended() {
    for len in [0, 1, 4_096, 300_000, 1_000_000] {
        let mut disk = Disk::default();
        write(&mut disk, &mut writer(), len, |_, _| {});
        disk.crash();
        let file = &disk.live[path()];
        let opened = Snapshot::open(file).unwrap();
        assert_eq!(opened.log.len(), len);
        assert_eq!(disk.dir(Path::new("shard-0")).keys().collect::<Vec<_>>(), [SNAPSHOT_FILE_NAME]);
    }
}

#[test]
fn after_a_crash_at_any_point_a_whole_snapshot_is_there() {
    let (mut disk, mut writer) = (Disk::default(), writer());
    write(&mut disk, &mut writer, 1_000, |disk, _| {
        assert!(!disk.durable.contains_key(path()), "nothing before the rename");
    });
    let old = disk.durable[path()].clone();
    let mut is_renamed = false;
    write(&mut disk, &mut writer, 700_000, |disk, op| {
        assert_eq!(disk.durable[path()] == old, !is_renamed, "{op:?}");
        let mut crashed = disk.clone();
        crashed.tear(op, 4_096, |block| block % 2 == 1);
        crashed.crash();
        assert!(Snapshot::open(&crashed.live[path()]).is_ok());
        is_renamed |= matches!(op, FileOp::Rename { .. });
    });
    assert_eq!(Snapshot::open(&disk.durable[path()]).unwrap().log.len(), 700_000);
}

#[test]
fn a_snapshot_is_renamed_once_the_log_is_flushed_as_far() {
    let (mut disk, mut writer, mut ops) = (Disk::default(), writer(), Vec::new());
    writer.begin(&mut ops);
    let empty = Part::of(SNAPSHOT_BODY_AT, &[]);
    let header =
        SnapshotHeader { newest: NEWEST, sections: empty, log: empty, ..Default::default() };
    writer.finish(header);
    for _ in 0..3 {
        assert_eq!(writer.poll(NEWEST - 1, &mut ops), None);
        for done in disk.perform_all(std::mem::take(&mut ops)) {
            writer.done(done, &mut ops);
        }
    }
    assert!(!disk.live.contains_key(path()));
    assert!(matches!(writer.poll(NEWEST, &mut ops), Some(SnapshotNews::Written(_))));
    disk.perform_all(ops);
    assert!(Snapshot::open(&disk.live[path()]).is_ok());
}

#[test]
fn a_snapshot_that_was_given_up_leaves_no_file() {
    let (mut disk, mut writer, mut ops) = (Disk::default(), writer(), Vec::new());
    writer.begin(&mut ops);
    writer.body().extend(vec![7; 600_000]);
    assert_eq!(writer.poll(0, &mut ops), None);
    writer.give_up(&mut ops);
    assert!(!writer.is_idle(), "a write is under way");
    for done in disk.perform_all(std::mem::take(&mut ops)) {
        assert_eq!(writer.done(done, &mut ops), None);
    }
    disk.perform_all(std::mem::take(&mut ops));
    assert!(writer.is_idle());
    assert!(!disk.live.contains_key(&Path::new("shard-0").join(SNAPSHOT_ASIDE_FILE_NAME)));
    write(&mut disk, &mut writer, 10, |_, _| {});
}
