//! Data that a shard finds at startup may be only in the page cache, if a killed process wrote
//! them. The shard makes them durable before it sends an answer that depends on them.

use muster_codec::header::RequestHeader;
use muster_codec::messages::{CreatableTopic, CreateTopicsRequest, MetadataRequest};
use muster_codec::{Request, Uuid};
use muster_coordinator::Ids;
use muster_server::clock::Times;
use muster_server::cluster::Endpoint;
use muster_server::config::Config;
use muster_server::net::ConnectionId;
use muster_server::placement::Placement;
use muster_server::shard::{Command, Common, Event, ListenerIndex, LogSizes, Shard, load};
use muster_storage::{FileDone, FileId, FileOp};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

struct Counted(u8);

impl Ids for Counted {
    fn next_id(&mut self) -> Uuid {
        self.0 += 1;
        Uuid([self.0; 16])
    }
}

fn start(data: &Path) -> (Shard, Vec<FileOp>) {
    let endpoint = Endpoint { host: "muster".to_owned(), port: 9092 };
    let common = Common {
        config: Arc::new(Config::load("", &[]).unwrap()),
        placement: Placement::of_equal(1, 1),
        endpoints: [endpoint].into_iter().collect(),
        cluster_id: "cluster".into(),
        data: "/data".into(),
        known_logs: Arc::new([]),
        partition_files_max: 4,
        audits: true,
        life: 1,
        may_have_lost_writes: false,
        stopwatch: || 0,
        space: Default::default(),
        token_keys: Default::default(),
        nodes: None,
        log_sizes: LogSizes {
            segment_bytes: Some(1 << 20),
            operation_bytes_max: 1 << 16,
            open_bytes_max: 1 << 16,
            cut_bytes: None,
        },
    };
    let loaded = load(data, &common, 0).unwrap();
    let image = loaded.image().unwrap().clone();
    loaded.into_shard(data, 4096, image, Box::new(Counted(0)), Times::both(0)).unwrap()
}

fn perform(data: &Path, files: &mut HashMap<FileId, File>, op: FileOp) -> Option<FileDone> {
    match op {
        FileOp::Open { file, path, .. } => {
            let path = data.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let options = OpenOptions::new().read(true).write(true).create(true).clone();
            files.insert(file, options.open(path).unwrap());
        }
        FileOp::Write { token, file, offset, data } => {
            files[&file].write_all_at(&data, offset).unwrap();
            return Some(FileDone::Written { token, buffer: data });
        }
        FileOp::Sync { token, .. } => return Some(FileDone::Synced { token }),
        FileOp::RemoveFile { .. } | FileOp::Close { .. } => {}
        other => panic!("{other:?}"),
    }
    None
}

/// Runs a turn of the shard, and returns its file operations.
fn turn(shard: &mut Shard, commands: &mut Vec<Command>) -> Vec<FileOp> {
    shard.work_all(Times::both(0), commands);
    shard.end_turn(Times::both(0), 0, commands);
    let mut ops = Vec::new();
    while !commands.is_empty() {
        for command in std::mem::take(commands) {
            match command {
                Command::File(op) => ops.push(op),
                Command::Mail { message, .. } => {
                    shard.step(Times::both(0), Event::Mail(message), commands)
                }
                _ => {}
            }
        }
    }
    ops
}

fn ask(shard: &mut Shard, version: i16, request: Request<'_>) -> Vec<Command> {
    let mut frame = vec![0; 4];
    let api_key = request.api_key() as i16;
    RequestHeader { api_key, api_version: version, correlation_id: 1, client_id: None }
        .write(&mut frame);
    request.write(version, &mut frame).unwrap();
    let length = frame.len() as u32 - 4;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    let connection = ConnectionId::new(0, 1);
    let mut commands = Vec::new();
    shard.step(
        Times::both(0),
        Event::Opened {
            connection,
            listener: ListenerIndex::FIRST,
            host: "/127.0.0.1".into(),
            port: 0,
        },
        &mut commands,
    );
    shard.step(Times::both(0), Event::Received { connection, data: &frame }, &mut commands);
    commands
}

/// Sends a request, and runs turns until the answer is sent. Performs only file operations that
/// `may` permits.
fn is_answered(data: &Path, version: i16, request: Request<'_>, may: fn(&FileOp) -> bool) -> bool {
    let (mut shard, mut ops) = start(data);
    let (mut files, mut commands) = (HashMap::new(), ask(&mut shard, version, request));
    for _ in 0..100 {
        ops.extend(turn(&mut shard, &mut commands));
        let mut sendable = Vec::new();
        shard.take_sendable(&mut sendable);
        if sendable.iter().any(|id| shard.output(*id).is_some()) {
            return true;
        }
        let (now, later) = ops.drain(..).partition::<Vec<_>, _>(may);
        ops = later;
        for op in now {
            if let Some(done) = perform(data, &mut files, op) {
                shard.step(Times::both(0), Event::File(done), &mut commands);
            }
        }
    }
    false
}

#[test]
fn a_start_answers_nothing_before_found_operations_are_durable() {
    let data = tempfile::tempdir().unwrap();
    let topics = vec![CreatableTopic {
        name: "orders".into(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    }];
    let create = CreateTopicsRequest { topics, ..Default::default() };
    assert!(is_answered(data.path(), 7, create.into(), |_| true));
    let metadata = || MetadataRequest::default().into();
    let but_syncs = |op: &FileOp| !matches!(op, FileOp::Sync { .. });
    assert!(!is_answered(data.path(), 9, metadata(), but_syncs));
    assert!(is_answered(data.path(), 9, metadata(), |_| true));
}
