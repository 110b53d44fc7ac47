//! `muster log dump` and `muster log verify` on directories of a stopped server, intact and
//! damaged.

use crate::support::files::contents;
use crate::support::offsets::{Ended, commit, commit_request, muster_log};
use crate::support::{Server, create_topic, produce};
use muster_storage::layout::Block;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const GROUPS: [&str; 3] = ["orders", "bills", "mails"];

/// A data directory of two shards with groups, a topic and some records.
fn directory() -> tempfile::TempDir {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path(), 2, &[]);
    create_topic(&server, "payments", 1);
    for (offset, group) in (0..9).zip(GROUPS.iter().cycle()) {
        commit(&server, group, "payments", 0, offset);
    }
    let mut shards = (0..2).map(|shard| server.client(shard));
    let leader = shards.find_map(|mut it| leads(&mut it).then_some(it));
    let mut leader = leader.expect("one of the shards leads the partition");
    for value in [&b"one"[..], b"two", b"three"] {
        produce(&mut leader, "payments", value).unwrap();
    }
    assert!(server.stop().success());
    data
}

fn leads(client: &mut crate::support::Client) -> bool {
    use muster_codec::messages::*;
    let topic = ListOffsetsTopic {
        name: "payments".into(),
        partitions: vec![ListOffsetsPartition { timestamp: -1, ..Default::default() }],
    };
    let request = ListOffsetsRequest { topics: vec![topic], ..Default::default() };
    let response = client.call(5, request.into());
    let muster_codec::Response::ListOffsets(body) = response else { panic!() };
    body.topics[0].partitions[0].error_code == 0
}

fn log(command: &str, data: &Path, words: &[&str]) -> Ended {
    muster_log([command, data.to_str().unwrap()].iter().chain(words))
}

fn verify(data: &Path) -> Ended {
    log("verify", data, &[])
}

/// The first segment of shard 1, which coordinates some of the groups.
fn segment(data: &Path) -> PathBuf {
    data.join("shards-2/1/00000000000000000001.log")
}

/// The offsets of the blocks of a segment.
fn blocks(path: &Path) -> Vec<usize> {
    let bytes = fs::read(path).unwrap();
    let starts = (512..bytes.len()).step_by(512);
    starts.filter(|at| Block::read(&bytes[*at..]).is_ok()).collect()
}

fn change(path: &Path, at: usize, bytes: &[u8]) {
    let mut file = fs::read(path).unwrap();
    file[at..at + bytes.len()].copy_from_slice(bytes);
    fs::write(path, file).unwrap();
}

#[test]
fn a_dump_has_every_record_as_text_and_as_json() {
    let data = directory();
    let text = log("dump", data.path(), &[]);
    assert_eq!(text.status, 0, "{text:?}");
    for part in [
        r#"OffsetCommit {"data":{"group":"bills","partition":0,"topic":"payments"},"type":"1"}"#,
        r#"Topic {"data":{"topicId":"#,
        r#""key" = "three""#,
        "payments-0",
        "the end of the blocks",
    ] {
        assert!(text.out.contains(part), "{part} in {}", text.out);
    }
    let json = log("dump", data.path(), &["--json", "--group", "mails"]);
    assert_eq!(json.status, 0, "{json:?}");
    let lines = json.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let records: Vec<Value> = lines.filter(|line| line["kind"] == "record").collect();
    let offsets: Vec<i64> =
        records.iter().map(|it| it["payload"]["data"]["offset"].as_i64().unwrap()).collect();
    assert_eq!(offsets, [2, 5, 8]);
    assert!(records.iter().all(|it| it["key"]["data"]["group"] == "mails"));
    assert!(records[0]["timestamp"].is_i64(), "a number, as with Kafka's tools");
    let nothing = log("dump", data.path(), &["--group", "nope"]);
    assert_eq!(nothing.status, 1, "{nothing:?}");
    assert!(nothing.out.contains("no record of group nope was found"), "{nothing:?}");
    let commits = text.out.lines().filter(|line| line.contains("OffsetCommit {"));
    for line in commits {
        let times = line.matches("Z").count();
        assert!(line.contains(", time 20") && times >= 2, "times are readable: {line}");
    }
    let keys = log("dump", data.path(), &["--json", "--group", "mails", "--keys-only"]);
    assert!(keys.out.contains("mails") && !keys.out.contains("payload"), "{}", keys.out);
}

#[test]
fn a_dump_can_be_narrowed_to_positions_a_shard_or_a_topic() {
    let data = directory();
    let topic = log("dump", data.path(), &["--topic", "payments"]);
    assert!(topic.out.contains("\"three\"") && !topic.out.contains("OffsetCommit"), "{topic:?}");
    let cluster = log("dump", data.path(), &["--shard", "0", "--from", "1", "--to", "1"]);
    assert!(cluster.out.contains("positions 1 to 1") && !cluster.out.contains("positions 2 to"));
    assert!(!cluster.out.contains("shards-2/1"), "{cluster:?}");
    let missing = log("dump", data.path(), &["--shard", "2"]);
    assert_eq!(missing.status, 2, "{missing:?}");
    let unknown = log("dump", data.path(), &["--topic", "receipts"]);
    assert_eq!(unknown.status, 2, "{unknown:?}");
}

#[test]
fn a_directory_that_a_server_left_is_good_and_not_changed() {
    let data = directory();
    let before = contents(data.path());
    let good = verify(data.path());
    assert_eq!((good.status, good.error.as_str()), (0, ""), "{good:?}");
    assert!(good.out.contains("payments-0, 1 segments, offsets 0 to 3"), "{good:?}");
    assert!(good.out.lines().last().unwrap().starts_with("good, "), "{good:?}");
    assert_eq!(log("dump", data.path(), &[]).status, 0);
    assert!(contents(data.path()) == before, "nothing is changed");
}

#[test]
fn a_served_directory_cannot_be_verified_but_dumped() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), 1, &[]);
    create_topic(&server, "payments", 1);
    commit(&server, "orders", "payments", 0, 7);
    let held = verify(data.path());
    assert_eq!(held.status, 2);
    assert!(held.error.contains("is held by another process. If it is a server: "), "{held:?}");
    assert!(held.error.contains("`muster backup` makes a copy"), "{held:?}");
    let dump = log("dump", data.path(), &["--group", "orders"]);
    assert_eq!(dump.status, 0, "{dump:?}");
    assert!(dump.out.contains("a server has the directory open"), "{dump:?}");
    assert!(dump.out.contains(r#""offset":7"#), "{dump:?}");
    commit(&server, "orders", "payments", 0, 8);
}

#[test]
fn a_directory_is_good_after_kill_9_at_any_moment() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path(), 1, &[]);
    create_topic(&server, "payments", 1);
    for round in 0..4 {
        std::thread::scope(|scope| {
            let (port, server) = (server.port, &mut server);
            for worker in 0..3 {
                scope.spawn(move || commit_until_it_ends(port, &format!("group-{worker}")));
            }
            std::thread::sleep(std::time::Duration::from_millis(20 + 13 * round));
            server.kill();
        });
        let good = verify(data.path());
        assert_eq!(good.status, 0, "{good:?}");
        server = server.restart();
    }
}

/// Commits without a pause until the server ends.
fn commit_until_it_ends(port: u16, group: &str) {
    let mut client = crate::support::Client::connect(port);
    let request = commit_request(group, "payments", [0], 1, "");
    while client.try_call(8, request.clone().into()).is_some() {}
}

#[test]
fn other_directories_are_refused_and_not_changed() {
    let data = tempfile::tempdir().unwrap();
    for words in [["verify"], ["dump"]] {
        let refused = log(words[0], data.path(), &[]);
        assert_eq!(refused.status, 2, "{refused:?}");
        assert!(refused.error.contains("meta.properties"), "{refused:?}");
    }
    assert_eq!(muster_log(["verify"]).status, 2);
    assert_eq!(fs::read_dir(data.path()).unwrap().count(), 0);
}

#[test]
fn a_changed_byte_is_reported_with_its_place() {
    let data = directory();
    let path = segment(data.path());
    let blocks = blocks(&path);
    change(&path, blocks[0] + 60, &[0xff; 4]);
    let damaged = verify(data.path());
    assert_eq!(damaged.status, 1, "{damaged:?}");
    let place = format!("DAMAGED shards-2/1/00000000000000000001.log: byte {}: ", blocks[0]);
    assert!(damaged.out.contains(&place), "{damaged:?}");
    let loss = "no operation before it is whole, and later ones may be lost";
    assert!(damaged.out.contains(loss), "{damaged:?}");
    let dump = log("dump", data.path(), &[]);
    assert_eq!(dump.status, 1);
    assert!(dump.out.contains(&place) && dump.out.contains("OffsetCommit"), "the rest is there");
    let to = tempfile::tempdir().unwrap();
    let export = log("export", data.path(), &["--to", to.path().to_str().unwrap()]);
    assert_eq!(export.status, 1, "{export:?}");
    assert!(export.error.contains(&format!("is damaged at byte {}", blocks[0])), "{export:?}");
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0, "no half export");
}

#[test]
fn a_torn_end_is_normal_and_reported() {
    let data = directory();
    let path = segment(data.path());
    let last = *blocks(&path).last().unwrap();
    let end = last + Block::read(&fs::read(&path).unwrap()[last..]).unwrap().padded_len(512);
    change(&path, end, &[0xff; 4]);
    let torn = verify(data.path());
    assert_eq!(torn.status, 0, "{torn:?}");
    assert!(torn.out.contains(&format!("byte {end}: 512 bytes that are no whole")), "{torn:?}");
    assert_eq!(log("dump", data.path(), &[]).status, 0);
}

#[test]
fn a_torn_last_block_after_a_clean_stop_is_damage() {
    let data = directory();
    let path = segment(data.path());
    let last = *blocks(&path).last().unwrap();
    change(&path, last + 60, &[0xff; 4]);
    let damaged = verify(data.path());
    assert_eq!(damaged.status, 1, "{damaged:?}");
    let place = format!("from byte {last} of segment 1 on are no whole block");
    assert!(damaged.out.contains("DAMAGED shards-2/1: "), "{damaged:?}");
    assert!(damaged.out.contains(&place) && damaged.out.contains("clean stop"), "{damaged:?}");
}

#[test]
fn missing_or_swapped_logs_are_damage() {
    let data = directory();
    let (one, other) = (data.path().join("shards-2/0"), data.path().join("shards-2/1"));
    let aside = data.path().join("aside");
    fs::rename(&one, &aside).unwrap();
    let missing = verify(data.path());
    assert_eq!(missing.status, 1, "{missing:?}");
    assert!(missing.out.contains("DAMAGED shards-2/0: the log in "), "{missing:?}");
    fs::rename(&other, &one).unwrap();
    fs::rename(&aside, &other).unwrap();
    let swapped = verify(data.path());
    assert_eq!(swapped.status, 1, "{swapped:?}");
    assert!(swapped.out.contains("is another one"), "{swapped:?}");
}

#[test]
fn an_unfinished_directory_is_good() {
    let data = directory();
    let path = data.path().join("meta.properties");
    let text = fs::read_to_string(&path).unwrap().replace("state=made", "state=making");
    let covered = &text[..text.rfind("checksum=").unwrap()];
    let checksum = crc32c::crc32c(covered.as_bytes());
    fs::write(&path, format!("{covered}checksum={checksum:08x}\n")).unwrap();
    fs::remove_dir_all(data.path().join("shards-2")).unwrap();
    let good = verify(data.path());
    assert_eq!(good.status, 0, "{good:?}");
    assert!(good.out.contains("is not complete yet"), "{good:?}");
}

#[test]
fn a_damaged_or_missing_stamp_is_damage() {
    let data = directory();
    let path = data.path().join("meta.properties");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("shards=2", "shards=6")).unwrap();
    let damaged = verify(data.path());
    assert_eq!(damaged.status, 1, "{damaged:?}");
    fs::remove_file(&path).unwrap();
    let gone = verify(data.path());
    assert_eq!(gone.status, 1, "{gone:?}");
    assert!(
        gone.error.contains("it was in use") && gone.error.contains("shards-2, topics"),
        "{gone:?}"
    );
}

#[test]
fn missing_segments_and_foreign_files_are_reported() {
    let data = directory();
    fs::write(data.path().join("notes.txt"), "mine").unwrap();
    fs::write(data.path().join("shards-2/0/compacted.new"), "half").unwrap();
    fs::create_dir(data.path().join("shards-3")).unwrap();
    let noted = verify(data.path());
    assert_eq!(noted.status, 0, "{noted:?}");
    assert!(noted.out.contains("note: notes.txt: not a file of muster"), "{noted:?}");
    assert!(noted.out.contains("compacted.new: left from a stop during compaction"), "{noted:?}");
    assert!(noted.out.contains("note: shards-3: left from a change"), "{noted:?}");
    fs::remove_file(segment(data.path())).unwrap();
    let missing = verify(data.path());
    assert_eq!(missing.status, 1, "{missing:?}");
    assert!(missing.out.contains("the segment before it is missing"), "{missing:?}");
}

#[test]
fn a_user_topic_is_checked_up_to_its_last_batch() {
    let data = directory();
    let topics = data.path().join("topics");
    let partition = fs::read_dir(topics).unwrap().next().unwrap().unwrap().path();
    let path = partition.join("00000000000000000000.log");
    let len = fs::read(&path).unwrap().len();
    // The server was stopped cleanly, so a crash cannot be the reason for this damage.
    change(&path, len - 1, &[0xff]);
    let damaged = verify(data.path());
    assert_eq!(damaged.status, 1, "{damaged:?}");
    let refused = "does not match. Readers of payments-0 get CORRUPT_MESSAGE";
    assert!(damaged.out.contains(refused), "{damaged:?}");
    // Missing records are not explained either.
    fs::remove_dir_all(&partition).unwrap();
    let damaged = verify(data.path());
    assert_eq!(damaged.status, 1, "{damaged:?}");
    assert!(damaged.out.contains("everything before offset 3 was on the disk"), "{damaged:?}");
}

#[test]
fn a_torn_end_of_a_user_topic_is_normal_after_a_crash() {
    let data = directory();
    fs::remove_dir_all(data.path().join("recovery-points")).unwrap();
    let topics = data.path().join("topics");
    let partition = fs::read_dir(topics).unwrap().next().unwrap().unwrap().path();
    let path = partition.join("00000000000000000000.log");
    let len = fs::read(&path).unwrap().len();
    change(&path, len - 1, &[0xff]);
    let torn = verify(data.path());
    assert_eq!(torn.status, 0, "{torn:?}");
    assert!(torn.out.contains("startup cuts the log here"), "{torn:?}");
    // If a later segment exists, the one before it was synced. A crash can then not damage it.
    for base in [3, 4] {
        fs::write(partition.join(format!("{base:020}.log")), b"").unwrap();
    }
    let damaged = verify(data.path());
    assert_eq!(damaged.status, 1, "{damaged:?}");
    assert!(damaged.out.contains("the checksum does not match"), "{damaged:?}");
}

#[test]
fn a_snapshot_is_printed_and_checked_against_the_log() {
    let data = tempfile::tempdir().unwrap();
    let configs = ["metadata.log.max.record.bytes.between.snapshots=1"];
    let mut server = Server::start(data.path(), 1, &configs);
    create_topic(&server, "payments", 1);
    let path = data.path().join("shards-1/0/snapshot");
    let mut offset = 0;
    let holds_group = || {
        let bytes = fs::read(&path).unwrap_or_default();
        bytes.windows(6).any(|bytes| bytes == b"orders")
    };
    while !holds_group() {
        commit(&server, "orders", "payments", 0, offset);
        offset += 1;
    }
    commit(&server, "orders", "payments", 0, offset);
    assert!(server.stop().success());
    let good = verify(data.path());
    assert_eq!(good.status, 0, "{good:?}");
    assert!(good.out.contains("shards-1/0/snapshot: ") && good.out.contains(" 1 groups, from"));
    let dump = log("dump", data.path(), &["--json", "--group", "orders"]);
    let of_snapshot = |line: &&str| line.contains("shards-1/0/snapshot") && line.contains("record");
    let records: Vec<&str> = dump.out.lines().filter(of_snapshot).collect();
    assert!(records.iter().any(|line| line.contains(r#""record":"OffsetCommit""#)), "{dump:?}");
    let bytes = fs::read(&path).unwrap();
    let at = bytes.windows(6).position(|bytes| bytes == b"orders").unwrap();
    change(&path, at, b"borders");
    let damaged = verify(data.path());
    assert_eq!(damaged.status, 1, "{damaged:?}");
    assert!(damaged.out.contains("DAMAGED shards-1/0/snapshot: byte 0: "), "{damaged:?}");
    assert_eq!(log("dump", data.path(), &[]).status, 1);
    // A snapshot that was cut is damaged. A snapshot of another format version is not.
    fs::write(&path, "MSNP").unwrap();
    assert_eq!(verify(data.path()).status, 1);
    fs::write(&path, [&b"MSNP\0\x63"[..], &[0; 200]].concat()).unwrap();
    let other = verify(data.path());
    assert!(other.status == 0 && other.out.contains("startup replays the log"), "{other:?}");
}
