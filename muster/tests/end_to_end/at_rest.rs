//! Data directories that were damaged while no server ran. The next server serves all acknowledged
//! data, or refuses to start and says why. It deletes nothing.

use crate::support::files::contents;
use crate::support::offsets::{commit, committed, muster_log};
use crate::support::{Server, command, create_topic, free_ports, produce, said};
use muster_storage::layout::{Block, BlockHeader, SegmentHeader};
use std::fs;
use std::path::{Path, PathBuf};

const GROUPS: i64 = 5;

fn group(number: i64) -> String {
    format!("group-{number}")
}

/// A server with this number of shards, a topic, and a committed offset of each group.
fn filled(data: &Path, shards: u16, configs: &[&str]) -> Server {
    let server = Server::start(data, shards, configs);
    create_topic(&server, "orders", 1);
    (0..GROUPS).for_each(|number| commit(&server, &group(number), "orders", 0, number));
    server
}

/// The data directory of a [`filled`] server after a clean stop. With one shard, the topic has a
/// record.
fn stopped(shards: u16) -> tempfile::TempDir {
    let data = tempfile::tempdir().unwrap();
    let mut server = filled(data.path(), shards, &[]);
    if shards == 1 {
        produce(&mut server.client(0), "orders", b"one").unwrap();
    }
    assert!(server.stop().success());
    data
}

/// Expects that the server refuses to start and changes no file. Returns its output.
#[track_caller]
fn refused(data: &Path, shards: u16) -> String {
    let before = contents(data);
    let output = command(data, free_ports(shards), shards, &[]).output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(contents(data) == before, "something was changed: {text}");
    text
}

/// Starts a server, and expects that it serves all committed offsets.
#[track_caller]
fn serves(data: &Path, shards: u16) -> Server {
    let server = Server::start(data, shards, &[]);
    for number in 0..GROUPS {
        let found = committed(&server, &group(number));
        assert_eq!(found[&("orders".to_owned(), 0)].0, number);
    }
    server
}

/// The names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn segment(data: &Path) -> PathBuf {
    data.join("shards-1/0/00000000000000000001.log")
}

/// The blocks of a segment, with their offsets.
fn blocks(path: &Path) -> Vec<(usize, BlockHeader)> {
    let bytes = fs::read(path).unwrap();
    let starts = (512..bytes.len()).step_by(512);
    starts.filter_map(|at| Some((at, Block::read(&bytes[at..]).ok()?.header))).collect()
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_start_without_its_logs_is_refused_until_they_are_back() {
    let data = stopped(1);
    let path = |name: &str| data.path().join(name);
    for name in ["shards-1/0", "shards-1", "shards-1/0/00000000000000000001.log"] {
        let aside = tempfile::tempdir_in(data.path().parent().unwrap()).unwrap();
        fs::rename(path(name), aside.path().join("it")).unwrap();
        let text = refused(data.path(), 1);
        let expected = if name.ends_with(".log") { "is missing" } else { "the log in" };
        assert!(text.contains("shards-1/0") && text.contains(expected), "{name}: {text}");
        let verified = muster_log(["verify", data.path().to_str().unwrap()]);
        assert_eq!(verified.status, 1, "{verified:?}");
        fs::rename(aside.path().join("it"), path(name)).unwrap();
    }
    serves(data.path(), 1);
}

#[test]
fn a_start_without_a_stamp_or_with_a_damaged_one_is_refused() {
    let data = stopped(1);
    let stamp = data.path().join("meta.properties");
    let whole = fs::read_to_string(&stamp).unwrap();
    fs::remove_file(&stamp).unwrap();
    let text = refused(data.path(), 2);
    assert!(text.contains("it was in use: it has") && text.contains("shards-1, topics"), "{text}");
    assert!(text.contains("muster log recover"), "{text}");
    // This change flips a single bit.
    fs::write(&stamp, whole.replace("shards=1", "shards=3")).unwrap();
    let text = refused(data.path(), 1);
    assert!(text.contains("meta.properties is damaged: the checksum"), "{text}");
    fs::write(&stamp, whole).unwrap();
    serves(data.path(), 1);
}

#[test]
fn swapped_directories_are_refused() {
    let data = stopped(2);
    let path = |name: &str| data.path().join(name);
    let swap = || {
        fs::rename(path("shards-2/0"), path("aside")).unwrap();
        fs::rename(path("shards-2/1"), path("shards-2/0")).unwrap();
        fs::rename(path("aside"), path("shards-2/1")).unwrap();
    };
    swap();
    assert!(refused(data.path(), 2).contains("is another one"));
    assert!(refused(data.path(), 3).contains("is another one"));
    swap();
    serves(data.path(), 2);
}

#[test]
fn unknown_entries_stay_and_unneeded_ones_go_to_the_trash() {
    let data = stopped(1);
    let path = |name: &str| data.path().join(name);
    fs::create_dir(path("shards-1.bak")).unwrap();
    fs::copy(segment(data.path()), path("shards-1.bak/log")).unwrap();
    fs::write(path("notes.txt"), "mine").unwrap();
    let old = fs::read(segment(data.path())).unwrap();
    assert!(serves(data.path(), 2).stop().success());
    assert!(path("shards-1.bak/log").exists() && path("notes.txt").exists());
    let trash = names(&path("trash"));
    let [name] = &trash[..] else { panic!("{trash:?}") };
    assert!(name.ends_with("Z-shards-1"), "{name}");
    let kept = path("trash").join(name).join("0/00000000000000000001.log");
    assert_eq!(fs::read(kept).unwrap(), old);
    // The trash is removed after its retention time.
    let mut server = Server::start(data.path(), 2, &["trash.retention.ms=0"]);
    server.says("trash/");
    assert!(names(&path("trash")).is_empty());
    assert!(server.stop().success());
    assert!(path("shards-1.bak/log").exists() && path("notes.txt").exists());
}

#[test]
fn directories_of_unknown_topics_go_to_the_trash() {
    let data = stopped(1);
    let directory = "topics/AAAAAAAAQACAAAAAAAAAAA-0";
    fs::create_dir_all(data.path().join(directory)).unwrap();
    fs::write(data.path().join(directory).join("00000000000000000000.log"), "records").unwrap();
    let server = serves(data.path(), 1);
    server.says("belong to no known topic: moved to trash/");
    let trash = data.path().join("trash");
    let place = trash.join(&names(&trash)[0]).join("AAAAAAAAQACAAAAAAAAAAA-0");
    assert_eq!(fs::read(place.join("00000000000000000000.log")).unwrap(), b"records");
}

#[test]
fn one_bit_in_the_last_block_after_a_clean_stop_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let mut server = filled(data.path(), 1, &[]);
    create_topic(&server, "last", 1);
    produce(&mut server.client(0), "last", b"one").unwrap();
    assert!(server.stop().success());
    let (last, _) = *blocks(&segment(data.path())).last().unwrap();
    change(&segment(data.path()), |bytes| bytes[last + 60] ^= 1);
    let text = refused(data.path(), 1);
    assert!(text.contains(&format!("byte {last} of segment 1")), "{text}");
    assert!(text.contains("was durable at the last clean stop"), "{text}");
    change(&segment(data.path()), |bytes| bytes[last + 60] ^= 1);
    serves(data.path(), 1);
}

#[test]
fn a_log_shorter_than_its_snapshot_is_refused_and_the_snapshot_stays() {
    let data = tempfile::tempdir().unwrap();
    let mut server = filled(data.path(), 1, &["metadata.log.max.snapshot.interval.ms=100"]);
    server.has_snapshot_at(GROUPS + 1);
    server.kill();
    let whole = fs::read(segment(data.path())).unwrap();
    let blocks = blocks(&segment(data.path()));
    let lost = blocks.iter().find(|(_, block)| block.first_position > 2).unwrap().0;
    change(&segment(data.path()), |bytes| bytes[lost..].fill(0));
    let text = refused(data.path(), 1);
    assert!(text.contains("was durable when its snapshot was named"), "{text}");
    fs::remove_file(segment(data.path())).unwrap();
    refused(data.path(), 1);
    names(&data.path().join("shards-1/0")).iter().filter(|it| it.ends_with(".log")).for_each(
        |it| {
            fs::remove_file(data.path().join("shards-1/0").join(it)).unwrap();
        },
    );
    let text = refused(data.path(), 1);
    assert!(text.contains("is missing"), "{text}");
    fs::write(segment(data.path()), whole).unwrap();
    serves(data.path(), 1);
}

#[test]
fn a_torn_end_after_a_kill_is_cut_logged_and_kept() {
    let data = tempfile::tempdir().unwrap();
    filled(data.path(), 1, &[]).kill();
    let path = segment(data.path());
    let (last, block) = *blocks(&path).last().unwrap();
    let (header, _) = SegmentHeader::read(&fs::read(&path).unwrap()).unwrap();
    let end = (last + block.length as usize).next_multiple_of(header.block_bytes as usize);
    change(&path, |bytes| bytes[end..end + 700].fill(0x4d));
    let mut server = serves(data.path(), 1);
    server.says(&format!("bytes from byte {end} on are no whole block"));
    let trash = data.path().join("trash");
    let kept = fs::read(trash.join(&names(&trash)[0])).unwrap();
    assert!(kept[..700] == [0x4d; 700] && kept[700..].iter().all(|byte| *byte == 0));
    commit(&server, "another", "orders", 0, 7);
    server.kill();
    serves(data.path(), 1);
    assert_eq!(names(&trash).len(), 1, "nothing was cut again");
}

#[test]
fn a_second_server_is_refused_whatever_files_are_removed() {
    let data = tempfile::tempdir().unwrap();
    let server = filled(data.path(), 1, &[]);
    for name in [".lock", "meta.properties"] {
        let _ = fs::remove_file(data.path().join(name));
        let output = command(data.path(), free_ports(1), 1, &[]).output().unwrap();
        let text = said(&output);
        assert!(!output.status.success() && text.contains("held by another process"), "{text}");
    }
    commit(&server, "another", "orders", 0, 7);
}
