//! Directories of nodes: new, waiting, forming, formed, and those of others.

use super::*;
use crate::config::{Address, Voter};
use crate::data_dir::{STAMP_FILE_NAME, stamp_file};
use crate::random::RandomIds;
use crate::shard::tests::world::World;
use crate::shard::{Common, LoadError, load};
use std::fs;
use tempfile::{TempDir, tempdir};

const SLOTS: u32 = 7;
const SIZES: LogSizes = LogSizes {
    segment_bytes: Some(64 << 10),
    operation_bytes_max: 4 << 10,
    open_bytes_max: 4 << 10,
    cut_bytes: None,
};

fn cluster(own: u16, ids: [u16; 3]) -> ClusterConfig {
    let address = |id| Address { host: "localhost".to_owned(), port: 9_000 + id };
    let voter = |id| Voter { id: NodeId(id), address: address(id) };
    ClusterConfig { own: NodeId(own), voters: ids.map(voter).into(), listen: address(own) }
}

fn try_open(path: &Path, shards: u32, cluster: &ClusterConfig) -> Result<DataDir, DataDirError> {
    let placement = Placement::of_equal(shards, SLOTS);
    DataDir::open_node(path, placement, &mut RandomIds::new().unwrap(), cluster)
}

fn open(path: &Path, shards: u32) -> DataDir {
    try_open(path, shards, &cluster(2, [1, 2, 3])).unwrap()
}

fn node(directory: &DataDir) -> &NodeStamp {
    directory.meta.node.as_ref().unwrap()
}

fn nodes_with(own: Uuid) -> BTreeMap<NodeId, Uuid> {
    [(NodeId(1), Uuid([1; 16])), (NodeId(2), own), (NodeId(3), Uuid([3; 16]))].into()
}

/// A directory of node 2 whose formation is recorded.
fn forming(shards: u32) -> (TempDir, DataDir) {
    let place = tempdir().unwrap();
    let mut directory = open(place.path(), shards);
    let nodes = nodes_with(node(&directory).directory);
    directory.record_formation("X", &nodes).unwrap();
    (place, directory)
}

fn complete(directory: &mut DataDir, shards: u32) {
    directory.complete_formation(Placement::of_equal(shards, SLOTS), SIZES).unwrap();
}

/// Loads the logs of all shards, as a server does.
fn load_all(directory: &DataDir) -> Result<(), LoadError> {
    let of_cluster = node(directory).formation.as_ref().unwrap();
    let ids = of_cluster.nodes.keys().copied().collect();
    let world = World::of_shards(directory.meta.shards(), &["offsets.topic.num.partitions=7"]);
    let common = Common {
        placement: directory.meta.placement(),
        known_logs: directory.meta.logs.as_slice().into(),
        nodes: Some(Nodes { own: node(directory).id, ids, others: [].into() }),
        ..world.common
    };
    (0..directory.meta.shards()).try_for_each(|it| load(&directory.path, &common, it).map(drop))
}

#[test]
fn the_id_of_a_directory_is_on_the_disk_at_once_and_stays() {
    let place = tempdir().unwrap();
    let id = node(&open(place.path(), 1)).directory;
    assert_eq!(Meta::read(place.path()).unwrap().node.unwrap().directory, id);
    // While there is no formation, all settings may change.
    let again = DataDir::open_node(
        place.path(),
        Placement::of_equal(3, 20),
        &mut RandomIds::new().unwrap(),
        &cluster(2, [2, 5, 6]),
    );
    let again = again.unwrap();
    assert_eq!((node(&again).directory, again.meta.placement()), (id, Placement::of_equal(3, 20)));
}

#[test]
fn a_formed_node_has_logs_that_can_be_loaded() {
    let (place, mut directory) = forming(2);
    complete(&mut directory, 2);
    assert!(node(&directory).formation.as_ref().unwrap().is_complete);
    assert!(directory.meta.logs.iter().all(|it| it.end > 0), "{:?}", directory.meta);
    load_all(&directory).unwrap();
    let meta = directory.meta.clone();
    drop(directory);
    let again = open(place.path(), 2);
    assert_eq!(again.meta, meta);
    drop(again);
    // A log that has lost all blocks but its header is not loaded.
    let segment = place.path().join(log_directory(2, 1)).join("00000000000000000001.log");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[block_bytes(place.path()).unwrap() as usize..].fill(0);
    fs::write(&segment, bytes).unwrap();
    assert!(load_all(&open(place.path(), 2)).is_err());
}

#[test]
fn an_interrupted_formation_is_repeated() {
    // Logs that were made in part, whole, or for another number of shards.
    for (shards, left) in [(1, "shards-1/0/00000000000000000001.log"), (2, "shards-3/x")] {
        let (place, directory) = forming(shards);
        drop(directory);
        let left = place.path().join(left);
        fs::create_dir_all(left.parent().unwrap()).unwrap();
        fs::write(&left, vec![7; 5_000]).unwrap();
        let mut directory = open(place.path(), shards);
        complete(&mut directory, shards);
        load_all(&directory).unwrap();
        assert_eq!(fs::read_dir(place.path().join("trash")).unwrap().count(), 1);
    }
    let (place, mut directory) = forming(1);
    let before = fs::read(stamp_file(place.path())).unwrap();
    complete(&mut directory, 1);
    drop(directory);
    // The last write was lost.
    fs::write(stamp_file(place.path()), before).unwrap();
    // There may be more shards at the next start, as long as there are no logs.
    let mut directory = open(place.path(), 2);
    assert_eq!(directory.meta.cluster_id, "X");
    complete(&mut directory, 2);
    load_all(&directory).unwrap();
}

#[test]
fn a_stamp_that_was_not_replaced_is_the_old_one() {
    let place = tempdir().unwrap();
    drop(open(place.path(), 1));
    fs::write(place.path().join("meta.properties.new"), "version=4\nsta").unwrap();
    assert_eq!(node(&open(place.path(), 1)).formation, None);
}

#[test]
fn a_directory_of_others_is_refused_and_unchanged() {
    let refused = |place: &TempDir, shards, cluster: &ClusterConfig, why: &str| {
        let before = fs::read(place.path().join(STAMP_FILE_NAME)).unwrap();
        let error = try_open(place.path(), shards, cluster).unwrap_err();
        assert!(error.to_string().contains(why) && !error.is_damage(), "{error}");
        assert_eq!(fs::read(place.path().join(STAMP_FILE_NAME)).unwrap(), before);
    };
    let own = cluster(2, [1, 2, 3]);
    let (place, mut directory) = forming(1);
    complete(&mut directory, 1);
    drop(directory);
    refused(&place, 1, &cluster(1, [1, 2, 3]), "is that of node 2, and this is node 1");
    let why = "of the cluster of the nodes 1, 2, 3, and controller.quorum.voters names 2, 3, 4";
    refused(&place, 1, &cluster(2, [2, 3, 4]), why);
    refused(&place, 2, &own, "has the logs of 1 shards");
    let placement = Placement::of_equal(1, SLOTS + 1);
    let ids = &mut RandomIds::new().unwrap();
    let error = DataDir::open_node(place.path(), placement, ids, &own).unwrap_err();
    assert!(matches!(error, DataDirError::Partitions { .. }), "{error}");
    // Without the other nodes, and for a change without a server.
    let open = DataDir::open(place.path(), Placement::of_equal(1, SLOTS), SIZES, ids);
    let error = open.unwrap_err().to_string();
    assert!(error.contains("is that of node 2 of a cluster: name all nodes"), "{error}");
    let error = DataDir::hold(place.path()).unwrap_err().to_string();
    assert!(error.contains("while the cluster runs"), "{error}");
    let machine = tempdir().unwrap();
    drop(DataDir::open(machine.path(), Placement::of_equal(1, SLOTS), SIZES, ids).unwrap());
    refused(&machine, 1, &own, "is that of one machine");
}
