//! Data directories and configuration files of earlier versions. This version must accept them, and
//! their groups must continue. The directories are in `tests/data/versions/`.
//! [`writes_the_directories`] wrote each of them with the server of its version.

mod rest;

use crate::share_groups::{ACCEPT, GROUP, Member, REJECT, RELEASE, TOPIC, produce_records};
use crate::support::offsets::{commit, committed, muster_log};
use crate::support::streams::{StreamsMember, Tasks, WORDS};
use crate::support::transactional::{Producer, Version, settled_offset};
use crate::support::{Client, Server, binary, create_topic, rules};
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Response};
use muster_storage::snapshot::Snapshot;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const STREAMS_GROUP: &str = "wc";
const READERS: &str = "readers";
const TRANSACTIONAL: &str = "transactional";
const MEMBERS: [&str; 2] = ["m1", "m2"];
const MEMBER_OF_SHARES: &str = "m";

/// A data directory.
#[derive(Debug, Clone, Copy)]
struct Directory {
    version: &'static str,
    /// How its server ended: `killed` or `stopped`.
    end: &'static str,
    /// Whether it also has what [`rest`] describes.
    has_rest: bool,
}

/// All directories. A release adds rows for its two directories. It never changes an existing row.
const DIRECTORIES: [Directory; 4] = [
    Directory { version: "before-4.4", end: "killed", has_rest: false },
    Directory { version: "0.1.0", end: "killed", has_rest: true },
    Directory { version: "0.1.0", end: "stopped", has_rest: true },
    SNAPSHOT_8,
];

/// The directory of a version between two releases. Its shard has a snapshot of format 8.
const SNAPSHOT_8: Directory = Directory { version: "snapshot-8", end: "killed", has_rest: true };

impl Directory {
    fn archive(&self) -> PathBuf {
        versions().join(format!("{}-{}.tar.gz", self.version, self.end))
    }

    fn config_file(&self) -> PathBuf {
        versions().join(format!("{}.properties", self.version))
    }

    /// A server with the configuration file of the version.
    fn server(&self, data: &Path) -> Server {
        let text = fs::read_to_string(self.config_file()).unwrap();
        let configs: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        Server::start(data, 1, &configs)
    }

    /// Unpacks the directory to `data`, and starts a server on it.
    fn open(&self, data: &Path) -> Server {
        println!("{self:?}");
        self.tar(&["-xzf"], data);
        self.server(data)
    }

    fn tar(&self, words: &[&str], data: &Path) {
        let mut tar = Command::new("tar");
        tar.args(words).arg(self.archive()).arg("-C").arg(data).arg(".");
        assert!(tar.status().unwrap().success());
    }
}

fn versions() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/versions")
}

/// A heartbeat of the member of the share group.
fn share_beat(client: &mut Client, epoch: i32) -> ShareGroupHeartbeatResponse<'static> {
    let request = ShareGroupHeartbeatRequest {
        group_id: GROUP.into(),
        member_id: MEMBER_OF_SHARES.into(),
        member_epoch: epoch,
        subscribed_topic_names: (epoch == 0).then(|| vec![TOPIC.into()]),
        ..Default::default()
    };
    let Response::ShareGroupHeartbeat(answer) = client.call(1, request.into()) else { panic!() };
    assert_eq!(answer.error_code, 0, "{answer:?}");
    answer
}

fn described(server: &Server, version: i16) -> DescribedStreamsGroup<'static> {
    let group_ids = vec![STREAMS_GROUP.into()];
    let request = StreamsGroupDescribeRequest { group_ids, ..Default::default() };
    let mut client = server.coordinator(STREAMS_GROUP);
    let Response::StreamsGroupDescribe(answer) = client.call(version, request.into()) else {
        panic!()
    };
    answer.groups.into_iter().next().unwrap()
}

fn tasks(of: &[StreamsGroupTaskIds<'_>]) -> Tasks {
    of.iter().map(|it| (it.subtopology_id.to_string(), it.partitions.clone())).collect()
}

/// The members of the streams group as they were when the server ended.
fn members(server: &Server) -> Vec<StreamsMember> {
    let group = described(server, 1);
    assert_eq!(group.group_state, "Stable", "{group:?}");
    let member = |id: &'static str| {
        let of = group.members.iter().find(|it| it.member_id == id).unwrap();
        let client = server.coordinator(STREAMS_GROUP);
        let mut member = StreamsMember::new(client, STREAMS_GROUP, id);
        member.epoch = of.member_epoch;
        member.active = tasks(&of.assignment.active_tasks);
        member.standby = tasks(&of.assignment.standby_tasks);
        member
    };
    MEMBERS.map(member).into()
}

#[test]
fn members_of_a_streams_group_keep_their_tasks() {
    for directory in DIRECTORIES {
        let data = tempfile::tempdir().unwrap();
        streams_continue(directory.open(data.path()));
    }
}

#[test]
fn records_of_a_share_group_come_once_more_and_no_others() {
    for directory in DIRECTORIES {
        let data = tempfile::tempdir().unwrap();
        shares_continue(directory.open(data.path()));
    }
}

#[test]
fn committed_offsets_are_there_those_of_transactions_among_them() {
    for directory in DIRECTORIES {
        let data = tempfile::tempdir().unwrap();
        let server = directory.open(data.path());
        offsets_are_there(&server);
        drop(server);
        let checked = muster_log(["verify".as_ref(), data.path().as_os_str()]);
        assert_eq!(checked.status, 0, "{directory:?}: {checked:?}");
    }
}

#[test]
fn classic_and_consumer_groups_open_transactions_configs_and_acls_continue() {
    for directory in DIRECTORIES.iter().filter(|it| it.has_rest) {
        let data = tempfile::tempdir().unwrap();
        let mut server = directory.open(data.path());
        rest::check(&server);
        server.kill();
        rest::check_again(&server.restart());
    }
}

/// This version cannot read the snapshot. It loads the groups from the log, which has all of the
/// state, and writes a new snapshot.
#[test]
fn a_snapshot_of_an_earlier_format_is_replayed_past() {
    let (data, refusal) = (tempfile::tempdir().unwrap(), "its format is 8, and this version reads");
    SNAPSHOT_8.tar(&["-xzf"], data.path());
    let checked = muster_log(["verify".as_ref(), data.path().as_os_str()]);
    assert_eq!(checked.status, 0, "{checked:?}");
    assert!(checked.out.contains(refusal), "{checked:?}");
    let mut server = SNAPSHOT_8.server(data.path());
    server.says(refusal);
    rest::check(&server);
    offsets_are_there(&server);
    let path = data.path().join("shards-1/0/snapshot");
    let until = Instant::now() + Duration::from_secs(60);
    while Snapshot::open(&fs::read(&path).unwrap()).is_err() {
        assert!(Instant::now() < until, "no snapshot is written");
        std::thread::sleep(Duration::from_millis(5));
    }
    server.kill();
    server = server.restart();
    // The log line shows that the new snapshot is used: its groups are not loaded yet.
    server.line_with("not read yet");
    rest::check_again(&server);
}

#[test]
fn a_configuration_file_is_accepted_as_it_is() {
    for directory in DIRECTORIES {
        let checked = binary()
            .args(["serve", "--check-config"])
            .arg(directory.config_file())
            .output()
            .unwrap();
        assert!(checked.status.success(), "{directory:?}: {checked:?}");
    }
}

fn streams_continue(mut server: Server) {
    for _ in 0..2 {
        let mut members = members(&server);
        for member in &mut members {
            let (epoch, active) = (member.epoch, member.active.clone());
            assert_eq!(active.values().flatten().count(), 2, "{active:?}");
            member.beat();
            assert_eq!((member.epoch, &member.active), (epoch, &active), "{}", member.id);
        }
        server.kill();
        server = server.restart();
    }
    let (mut members, epoch) = (members(&server), described(&server, 1).group_epoch);
    members.remove(1).leave();
    let all = |it: &[StreamsMember]| it[0].active.values().flatten().count() == 4;
    StreamsMember::beat_until(&mut members, "one member has all tasks", all);
    assert!(described(&server, 1).group_epoch > epoch);
}

/// The member acquires two records again: the one that it released, and the one that it had
/// acquired but not acknowledged when the server ended.
fn shares_continue(mut server: Server) {
    let mut client = server.coordinator(GROUP);
    let request = ShareGroupDescribeRequest { group_ids: vec![GROUP.into()], ..Default::default() };
    let Response::ShareGroupDescribe(answer) = client.call(1, request.into()) else { panic!() };
    let epoch = answer.groups[0].members[0].member_epoch;
    assert_eq!(share_beat(&mut client, epoch).member_epoch, epoch, "the member is known");
    let mut member = Member::new(&server, MEMBER_OF_SHARES);
    assert_eq!(member.acquire(), [(2, 2, 2), (4, 4, 1)]);
    assert_eq!(member.acknowledge(&[(2, 2, ACCEPT), (4, 4, ACCEPT)]), (0, Some(0)));
    server.kill();
    let server = server.restart();
    produce_records(&server, 1);
    let mut member = Member::new(&server, MEMBER_OF_SHARES);
    assert_eq!(member.acquire(), [(6, 6, 1)]);
}

fn offsets_are_there(server: &Server) {
    let at_7 = [((WORDS.to_owned(), 1), (7, "at 7".to_owned()))];
    assert_eq!(committed(server, READERS), at_7.into());
    assert_eq!(settled_offset(server, TRANSACTIONAL, WORDS), 5);
    let mut producer = Producer::begin(server, "x", Version::Two, WORDS);
    assert_eq!(producer.commit(server, TRANSACTIONAL, 6), 0);
    assert_eq!(producer.end(server, true), 0);
    assert_eq!(settled_offset(server, TRANSACTIONAL, WORDS), 6);
}

/// Writes the directories of the version in the last row. `MUSTER_BINARY` is its server.
#[test]
#[ignore = "a release runs it once, see CONTRIBUTING.md"]
fn writes_the_directories() {
    let version = DIRECTORIES[DIRECTORIES.len() - 1].version;
    for directory in DIRECTORIES.iter().filter(|it| it.version == version) {
        let data = tempfile::tempdir().unwrap();
        let mut server = directory.server(data.path());
        // The member has to exist until the server ends: it has acquired a record and not
        // acknowledged it.
        let _member = fill(&server);
        rest::fill(&server);
        match directory.end {
            "killed" => server.kill(),
            _ => assert!(server.stop().success()),
        }
        directory.tar(&["-czf"], data.path());
    }
}

/// Makes the content of a directory. Returns the member of the share group.
fn fill(server: &Server) -> Member {
    create_topic(server, WORDS, 2);
    create_topic(server, TOPIC, 1);
    let new = |id| StreamsMember::new(server.coordinator(STREAMS_GROUP), STREAMS_GROUP, id);
    let mut of_streams: Vec<_> = MEMBERS.map(new).into();
    let is_shared = |all: &[StreamsMember]| {
        let counts = all.iter().map(|it| it.active.values().flatten().count());
        counts.eq([2, 2]) && described(server, 0).group_state == "Stable"
    };
    StreamsMember::beat_until(&mut of_streams, "the tasks are shared", is_shared);

    let earliest = [("share.auto.offset.reset", Some("earliest"))];
    rules::alter(server, rules::GROUP, GROUP, &earliest);
    produce_records(server, 6);
    let mut client = server.coordinator(GROUP);
    let mut epoch = 0;
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let answer = share_beat(&mut client, epoch);
        epoch = answer.member_epoch;
        let assigned = answer.assignment.map_or(0, |it| it.topic_partitions.len());
        if assigned > 0 {
            break;
        }
        assert!(Instant::now() < until, "no partitions are assigned");
    }
    let mut member = Member::new(server, MEMBER_OF_SHARES);
    assert_eq!(member.acquire(), [(0, 5, 1)]);
    let parts = [(0, 1, ACCEPT), (2, 2, RELEASE), (3, 3, REJECT), (5, 5, ACCEPT)];
    assert_eq!(member.acknowledge(&parts), (0, Some(0)));

    commit(server, READERS, WORDS, 1, 7);
    let mut producer = Producer::begin(server, "x", Version::Two, WORDS);
    assert_eq!(producer.commit(server, TRANSACTIONAL, 5), ErrorCode::None as i16);
    assert_eq!(producer.end(server, true), 0);
    assert_eq!(settled_offset(server, TRANSACTIONAL, WORDS), 5);
    member
}
