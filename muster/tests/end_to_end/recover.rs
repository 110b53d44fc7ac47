//! `muster log recover`: its output for a damaged directory, and the state after the loss was
//! accepted.

use crate::support::files::contents;
use crate::support::offsets::{Ended, commit, committed, muster_log};
use crate::support::{Server, command, create_topic, free_ports, said};
use muster_storage::layout::Block;
use std::fs;
use std::path::{Path, PathBuf};

const GROUPS: i64 = 6;

fn group(number: i64) -> String {
    format!("group-{number}")
}

/// A data directory with a topic and a commit of each group, after a clean stop.
fn stopped(shards: u16) -> tempfile::TempDir {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path(), shards, &[]);
    create_topic(&server, "orders", 2);
    (0..GROUPS).for_each(|number| commit(&server, &group(number), "orders", 0, number));
    assert!(server.stop().success());
    data
}

/// The numbers of the groups that still have their commits.
fn groups(server: &Server) -> Vec<i64> {
    let key = ("orders".to_owned(), 0);
    let has = |number: &i64| {
        committed(server, &group(*number)).get(&key).is_some_and(|(offset, _)| offset == number)
    };
    (0..GROUPS).filter(has).collect()
}

fn recover(data: &Path, words: &[&str]) -> Ended {
    muster_log(["recover", data.to_str().unwrap()].iter().chain(words))
}

/// Runs the recovery. Checks that nothing changes without `--accept-loss`, and that a server can
/// start afterwards. Returns the output.
#[track_caller]
fn recovered(data: &Path, words: &[&str]) -> String {
    let before = contents(data);
    let found = recover(data, words);
    assert_eq!(found.status, 1, "{found:?}");
    assert!(found.out.contains("LOST") && found.out.contains("nothing was changed"), "{found:?}");
    assert!(contents(data) == before, "the directory was changed");
    let mut all = words.to_vec();
    all.push("--accept-loss");
    let repaired = recover(data, &all);
    assert_eq!(repaired.status, 0, "{repaired:?}");
    let again = recover(data, &[]);
    assert_eq!(
        (again.status, &*again.out),
        (0, "good: there is nothing to recover\n"),
        "{again:?}"
    );
    let verified = muster_log(["verify", data.to_str().unwrap()]);
    assert_eq!(verified.status, 0, "{verified:?}");
    repaired.out
}

fn segment(data: &Path, shard: &str) -> PathBuf {
    data.join(shard).join("00000000000000000001.log")
}

/// The offsets of the blocks of a segment.
fn blocks(path: &Path) -> Vec<usize> {
    let bytes = fs::read(path).unwrap();
    let starts = (512..bytes.len()).step_by(512);
    starts.filter(|at| Block::read(&bytes[*at..]).is_ok()).collect()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn an_intact_directory_needs_no_recovery_and_a_served_one_is_refused() {
    let data = stopped(1);
    let good = recover(data.path(), &["--accept-loss"]);
    assert_eq!((good.status, &*good.out), (0, "good: there is nothing to recover\n"), "{good:?}");
    let server = Server::start(data.path(), 1, &[]);
    let held = recover(data.path(), &["--accept-loss"]);
    assert_eq!(held.status, 2, "{held:?}");
    assert!(held.error.contains("held by another process"), "{held:?}");
    assert_eq!(groups(&server).len(), GROUPS as usize);
}

#[test]
fn a_missing_log_is_replaced_by_an_empty_one_and_the_others_stay() {
    let data = stopped(2);
    let before = {
        let server = Server::start(data.path(), 2, &[]);
        let mut kept = (0..GROUPS).collect::<Vec<_>>();
        kept.retain(|number| server.coordinators().shard(&group(*number)) == Some(0));
        kept
    };
    fs::remove_dir_all(data.path().join("shards-2/1")).unwrap();
    let output = recovered(data.path(), &[]);
    assert!(output.contains("LOST shards-2/1: it is missing"), "{output}");
    assert_eq!(groups(&Server::start(data.path(), 2, &[])), before);
}

#[test]
fn a_log_without_the_topics_leaves_their_directories_in_the_trash() {
    let data = stopped(1);
    fs::create_dir_all(data.path().join("topics/AAAAAAAAQACAAAAAAAAAAA-0")).unwrap();
    fs::remove_dir_all(data.path().join("shards-1")).unwrap();
    let output = recovered(data.path(), &[]);
    assert!(
        output.contains("topics/AAAAAAAAQACAAAAAAAAAAA-0 belongs to no known topic"),
        "{output}"
    );
    let trash = fs::read_dir(data.path().join("trash")).unwrap().map(Result::unwrap);
    let mut names = trash.map(|entry| entry.file_name().into_string().unwrap());
    assert!(names.any(|name| name.ends_with("Z-topics-AAAAAAAAQACAAAAAAAAAAA-0")));
    assert_eq!(groups(&Server::start(data.path(), 1, &[])), [0; 0]);
}

#[test]
fn a_damaged_block_costs_the_operations_in_it() {
    let data = stopped(1);
    let path = segment(data.path(), "shards-1/0");
    let blocks = blocks(&path);
    let whole = fs::read(&path).unwrap();
    // The log has blocks of the topic and of each group.
    assert!(blocks.len() > 4);
    flip(&path, blocks[4] + 60);
    let output = recovered(data.path(), &[]);
    assert!(output.contains("not a block, but blocks follow"), "{output}");
    assert!(output.contains("Lost: operation 5 ("), "{output}");
    assert_eq!(groups(&Server::start(data.path(), 1, &[])), [0, 1, 2, 4, 5]);
    // The old log is kept, so an operator can restore it by hand.
    let trash = fs::read_dir(data.path().join("trash")).unwrap();
    let kept = trash.map(|entry| entry.unwrap().path()).find(|it| it.is_dir());
    let kept = kept.unwrap().join("00000000000000000001.log");
    let mut bytes = fs::read(kept).unwrap();
    bytes[blocks[4] + 60] ^= 1;
    assert!(bytes == whole);
}

#[test]
fn a_damaged_last_block_costs_its_operations() {
    let data = stopped(1);
    let path = segment(data.path(), "shards-1/0");
    flip(&path, *blocks(&path).last().unwrap() + 60);
    let output = recovered(data.path(), &[]);
    assert!(output.contains(&format!("it ends at operation {GROUPS}")), "{output}");
    let server = Server::start(data.path(), 1, &[]);
    server.says("are no whole block");
    assert_eq!(groups(&server), (0..GROUPS - 1).collect::<Vec<_>>());
}

#[test]
fn a_log_shorter_than_its_snapshot_continues_with_it() {
    let data = tempfile::tempdir().unwrap();
    let rules = ["metadata.log.max.snapshot.interval.ms=100"];
    let mut server = Server::start(data.path(), 1, &rules);
    create_topic(&server, "orders", 1);
    (0..GROUPS).for_each(|number| commit(&server, &group(number), "orders", 0, number));
    server.has_snapshot_at(GROUPS + 1);
    server.kill();
    let path = segment(data.path(), "shards-1/0");
    let last = *blocks(&path).last().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[last..].fill(0);
    fs::write(&path, bytes).unwrap();
    let output = recovered(data.path(), &[]);
    assert!(output.contains("neither in the snapshot"), "{output}");
    assert_eq!(groups(&Server::start(data.path(), 1, &[])), (0..GROUPS).collect::<Vec<_>>());
}

#[test]
fn a_snapshot_and_the_blocks_behind_it_outlive_a_damaged_log() {
    let data = tempfile::tempdir().unwrap();
    let rules = ["metadata.log.max.snapshot.interval.ms=100"];
    let mut server = Server::start(data.path(), 1, &rules);
    create_topic(&server, "orders", 1);
    (0..GROUPS).for_each(|number| commit(&server, &group(number), "orders", 0, 70 + number));
    (0..GROUPS).for_each(|number| commit(&server, &group(number), "orders", 0, number));
    server.has_snapshot_at(2 * GROUPS + 1);
    server.kill();
    // This server writes no snapshot, so its three commits are only in blocks after the last one.
    let mut server = Server::start(data.path(), 1, &[]);
    ["first", "second", "third"].iter().for_each(|late| commit(&server, late, "orders", 0, 7));
    server.kill();
    let path = segment(data.path(), "shards-1/0");
    let blocks = blocks(&path);
    let newest = blocks.len() - 2;
    [3, newest].iter().for_each(|at| flip(&path, blocks[*at] + 60));
    let output = recovered(data.path(), &[]);
    assert!(output.contains("neither in the snapshot"), "{output}");
    let server = Server::start(data.path(), 1, &[]);
    assert_eq!(groups(&server).len(), GROUPS as usize);
    let late = ["first", "second", "third"].map(|late| committed(&server, late).len());
    assert_eq!(late, [1, 0, 1], "only the commit in the damaged block is lost");
}

#[test]
fn a_lost_stamp_is_rebuilt_from_the_logs() {
    let data = stopped(2);
    let stamp = data.path().join("meta.properties");
    let whole = fs::read_to_string(&stamp).unwrap();
    fs::remove_file(&stamp).unwrap();
    let found = recover(data.path(), &[]);
    assert_eq!(found.status, 2, "{found:?}");
    assert!(found.error.contains("--offsets-partitions N"), "{found:?}");
    let wrong = recover(data.path(), &["--offsets-partitions", "7"]);
    assert_eq!(wrong.status, 2, "{wrong:?}");
    assert!(wrong.error.contains("would not be there with these numbers"), "{wrong:?}");
    let output = recovered(data.path(), &["--offsets-partitions", "50"]);
    assert!(!output.contains("new id"), "{output}");
    let cluster = whole.lines().find(|line| line.starts_with("cluster.id=")).unwrap();
    let text = fs::read_to_string(&stamp).unwrap();
    assert!(text.contains(cluster), "the id that clients know is in the log: {text}");
    assert_eq!(groups(&Server::start(data.path(), 2, &[])).len(), GROUPS as usize);
    // The readable part of a damaged stamp is used.
    fs::write(&stamp, whole.replace("shards=2", "shards=6")).unwrap();
    recovered(data.path(), &[]);
    let text = fs::read_to_string(&stamp).unwrap();
    assert!(text.contains(cluster), "{text}");
    assert_eq!(groups(&Server::start(data.path(), 2, &[])).len(), GROUPS as usize);
}

#[test]
fn a_directory_of_the_first_format_is_converted() {
    let data = stopped(1);
    let first = "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\nshards=1\n\
                 offsets.topic.num.partitions=50\n";
    fs::write(data.path().join("meta.properties"), first).unwrap();
    let output = command(data.path(), free_ports(1), 1, &[]).output().unwrap();
    let text = said(&output);
    assert!(!output.status.success() && text.contains("version=1"), "{text}");
    recovered(data.path(), &[]);
    assert_eq!(groups(&Server::start(data.path(), 1, &[])).len(), GROUPS as usize);
}

#[test]
fn an_interrupted_recovery_is_completed_by_the_next() {
    let data = stopped(1);
    let path = |name: &str| data.path().join(name);
    let log = segment(data.path(), "shards-1/0");
    let blocks = blocks(&log);
    flip(&log, blocks[4] + 60);
    let old = fs::read(&log).unwrap();
    recovered(data.path(), &[]);
    // Restores the state in which the new log is complete, but has not replaced the old one yet.
    fs::rename(path("shards-1/0"), path("shards-1/0.recovered")).unwrap();
    fs::create_dir(path("shards-1/0")).unwrap();
    fs::write(&log, old).unwrap();
    let output = command(data.path(), free_ports(1), 1, &[]).output().unwrap();
    assert!(!output.status.success());
    recover(data.path(), &["--accept-loss"]);
    assert_eq!(groups(&Server::start(data.path(), 1, &[])), [0, 1, 2, 4, 5]);
}
