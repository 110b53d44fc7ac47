//! Data directories that are new, in use, damaged, or not muster's.

use super::*;
use crate::random::RandomIds;
use muster_storage::limits::SEGMENT_BYTES_MIN;
use std::os::fd::AsRawFd;

#[path = "../../../muster/tests/end_to_end/support/files.rs"]
#[allow(unreachable_pub, reason = "the tests of the binary use it, too")]
mod files;

use files::contents;

const SMALL: LogSizes = LogSizes {
    segment_bytes: Some(16 << 10),
    operation_bytes_max: 4 << 10,
    open_bytes_max: 4 << 10,
    cut_bytes: None,
};

fn open(path: &Path, shards: u32) -> Result<DataDir, DataDirError> {
    let placement = Placement::of_equal(shards, 50);
    DataDir::open(path, placement, SMALL, &mut RandomIds::new().unwrap())
}

fn segment(path: &Path, shard: u32) -> PathBuf {
    path.join(log_directory(2, shard)).join("00000000000000000001.log")
}

#[test]
fn a_directory_keeps_its_cluster_id_and_logs() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path(), 2).unwrap();
    let meta = first.meta.clone();
    assert_eq!((meta.state, meta.shards()), (State::Made, 2));
    drop(first);
    let again = open(dir.path(), 4).unwrap();
    assert_eq!(again.meta, meta, "the cluster id and the logs of the first start");
}

#[test]
fn a_new_directory_has_the_log_of_each_shard() {
    let dir = tempfile::tempdir().unwrap();
    let meta = open(dir.path(), 2).unwrap().meta;
    for (number, known) in (0..).zip(&meta.logs) {
        let log = read_log(&dir.path().join(log_directory(2, number)), |_| {}).unwrap();
        assert_eq!((log.log_id(), log.position()), (Some(known.id), 0));
    }
    assert_ne!(meta.logs[0].id, meta.logs[1].id);
}

#[test]
fn an_interrupted_creation_of_a_directory_is_repeated() {
    let whole = tempfile::tempdir().unwrap();
    let made = open(whole.path(), 2).unwrap().meta.clone();
    let making = Meta { state: State::Making, ..made.clone() };
    let log = fs::read(segment(whole.path(), 0)).unwrap();
    for left in [None, Some(0), Some(512), Some(5_000), Some(log.len())] {
        let dir = tempfile::tempdir().unwrap();
        making.write(dir.path()).unwrap();
        if let Some(len) = left {
            fs::create_dir_all(segment(dir.path(), 0).parent().unwrap()).unwrap();
            fs::write(segment(dir.path(), 0), &log[..len]).unwrap();
        }
        // Such a short segment is left only if its header was not written yet, so it has only
        // zeros.
        if left.is_some_and(|len| len < log.len()) {
            fs::write(segment(dir.path(), 0), vec![0; left.unwrap()]).unwrap();
        }
        assert_eq!(open(dir.path(), 1).unwrap().meta, made, "{left:?}");
        assert_eq!(fs::read(segment(dir.path(), 0)).unwrap(), log, "{left:?}");
    }
}

#[test]
fn a_stop_before_the_first_stamp_leaves_a_new_directory() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("meta.properties.new"), "version=2\nsta").unwrap();
    fs::create_dir(dir.path().join("lost+found")).unwrap();
    open(dir.path(), 1).unwrap();
}

#[test]
fn logs_of_another_directory_are_refused_during_creation() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let meta = open(one.path(), 2).unwrap().meta.clone();
    drop(open(other.path(), 2).unwrap());
    Meta { state: State::Making, ..meta }.write(one.path()).unwrap();
    fs::copy(segment(other.path(), 1), segment(one.path(), 1)).unwrap();
    let error = open(one.path(), 2).unwrap_err();
    assert!(matches!(error, DataDirError::Log(LoadError::OtherLog { .. })), "{error}");
    assert!(error.is_damage() && error.to_string().contains("shards-2/1"), "{error}");
}

#[test]
fn a_directory_without_its_stamp_is_refused_and_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path(), 2).unwrap());
    fs::create_dir(dir.path().join("topics")).unwrap();
    fs::remove_file(stamp_file(dir.path())).unwrap();
    let before = contents(dir.path());
    for error in
        [open(dir.path(), 3).unwrap_err(), DataDir::open_read_only(dir.path()).unwrap_err()]
    {
        assert!(error.is_damage(), "{error}");
        assert!(error.to_string().contains("shards-2, topics"), "{error}");
    }
    assert!(contents(dir.path()) == before);
}

#[test]
fn a_directory_of_kafka_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(stamp_file(dir.path()), "version=1\nbroker.id=0\n").unwrap();
    let error = open(dir.path(), 1).unwrap_err();
    assert!(error.to_string().contains("muster log import"), "{error}");
}

#[test]
fn a_damaged_stamp_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path(), 1).unwrap());
    let text = fs::read_to_string(stamp_file(dir.path())).unwrap();
    fs::write(stamp_file(dir.path()), text.replace("shards=1", "shards=3")).unwrap();
    let error = open(dir.path(), 1).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains("checksum"), "{error}");
}

#[test]
fn ends_only_grow() {
    let dir = tempfile::tempdir().unwrap();
    let mut directory = open(dir.path(), 2).unwrap();
    directory.record_ends(&[7, 3], true).unwrap();
    directory.record_ends(&[5, 9], true).unwrap();
    let ends: Vec<u64> = Meta::read(dir.path()).unwrap().logs.iter().map(|log| log.end).collect();
    assert_eq!(ends, [7, 9]);
}

#[test]
fn an_existing_directory_needs_no_access_to_its_parent() {
    let directory = tempfile::tempdir().unwrap();
    let held = File::open(directory.path()).unwrap();
    // A path whose parent directory cannot be synced, even by root.
    let path = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
    assert!(directories::sync_name(&path).is_err());
    drop(open(&path, 1).unwrap());
}

#[test]
fn a_held_directory_is_refused_whichever_file_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let _first = open(dir.path(), 1).unwrap();
    fs::write(dir.path().join(".lock"), "").unwrap();
    let error = open(dir.path(), 1).unwrap_err();
    assert!(matches!(error, DataDirError::Held { .. }), "{error}");
    for entry in fs::read_dir(dir.path()).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    let error = open(dir.path(), 1).unwrap_err();
    assert!(matches!(error, DataDirError::Held { .. }), "{error}");
}

#[test]
fn a_look_keeps_servers_out_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    assert!(DataDir::open_read_only(dir.path()).is_err(), "not a data directory");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    let served = open(dir.path(), 1).unwrap();
    let error = DataDir::open_read_only(dir.path()).unwrap_err();
    assert!(matches!(error, DataDirError::Held { .. }), "{error}");
    drop(served);
    let looks = [
        DataDir::open_read_only(dir.path()).unwrap(),
        DataDir::open_read_only(dir.path()).unwrap(),
    ];
    let error = open(dir.path(), 1).unwrap_err();
    assert!(matches!(error, DataDirError::Held { .. }), "{error}");
    drop(looks);
    open(dir.path(), 1).unwrap();
}

#[test]
fn another_number_of_offsets_partitions_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path(), 1).unwrap());
    let placement = Placement::of_equal(1, 10);
    let ids = &mut RandomIds::new().unwrap();
    let error = DataDir::open(dir.path(), placement, SMALL, ids).unwrap_err();
    assert!(error.to_string().contains("offsets.topic.num.partitions=50"), "{error}");
}

#[test]
fn partitions_of_transactions_are_those_of_the_first_start() {
    let dir = tempfile::tempdir().unwrap();
    let config = |words: &[&str]| {
        Config::load("", &words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()).unwrap()
    };
    let placement = Placement { transactions_partitions: 7, ..Config::default().placement(1) };
    let ids = &mut RandomIds::new().unwrap();
    drop(DataDir::open(dir.path(), placement, SMALL, ids).unwrap());
    let directory = open(dir.path(), 1).unwrap();
    let mut set = config(&["transaction.state.log.num.partitions=50"]);
    let error = directory.keep_transactions_partitions(&mut set).unwrap_err();
    assert!(error.to_string().contains("transaction.state.log.num.partitions=7"), "{error}");
    for words in [&[][..], &["transaction.state.log.num.partitions=7"]] {
        let mut kept = config(words);
        directory.keep_transactions_partitions(&mut kept).unwrap();
        assert_eq!(kept.placement(1), placement);
        assert_eq!(kept.set_text("transaction.state.log.num.partitions"), Some("7"));
    }
}

#[test]
fn a_new_directory_has_its_first_records_even_if_it_was_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let placement = Placement::of_equal(2, 50);
    let record = crate::cluster::config_record(4, "", "num.partitions", Some("3".to_owned()));
    let open = || {
        let first = |_: &mut Meta| Ok(vec![record.clone()]);
        let ids = &mut RandomIds::new().unwrap();
        DataDir::open_or_make(dir.path(), placement, SMALL, ids, first).unwrap()
    };
    let ends = |made: &DataDir| made.meta.logs.iter().map(|log| log.end).collect::<Vec<_>>();
    assert_eq!(ends(&open()), [1, 0], "a log that loses it is found");
    let mut made = open();
    assert_eq!(ends(&made), [1, 0], "once");
    made.meta.state = State::Making;
    made.record_start().unwrap();
    drop(made);
    assert_eq!(ends(&open()), [2, 0], "the log has the records twice, which are the same");
}

#[test]
fn the_logs_of_a_new_directory_have_the_configured_size() {
    let dir = tempfile::tempdir().unwrap();
    let sizes = LogSizes { segment_bytes: Some(SEGMENT_BYTES_MIN), ..LogSizes::default() };
    let placement = Placement::of_equal(2, 50);
    let ids = &mut RandomIds::new().unwrap();
    drop(DataDir::open(dir.path(), placement, sizes, ids).unwrap());
    let len = fs::metadata(segment(dir.path(), 1)).unwrap().len();
    assert_eq!(len, u64::from(SEGMENT_BYTES_MIN / 16), "the first segment is small");
}
