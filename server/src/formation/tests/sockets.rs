//! Nodes with sockets, threads and directories. After its formation a node answers as its shards
//! would.

use crate::config::{Address, ClusterConfig, Config, Voter};
use crate::data_dir::{DataDir, Meta, State};
use crate::formation::dialling::Dialling;
use crate::formation::exchange::{self, Shared};
use crate::formation::forming::Forming;
use crate::formation::greetings::Greetings;
use crate::formation::node::OwnNode;
use crate::formation::{ClusterIds, form};
use crate::placement::Placement;
use crate::random::RandomIds;
use crate::shard::{LogSizes, NodeId, Session};
use muster_codec::Uuid;
use muster_coordinator::Ids;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const IDS: [u16; 3] = [1, 2, 3];
const PATIENCE: Duration = Duration::from_secs(120);
const SIZES: LogSizes = LogSizes {
    segment_bytes: Some(64 << 10),
    operation_bytes_max: 4 << 10,
    open_bytes_max: 4 << 10,
    cut_bytes: None,
};

fn placement() -> Placement {
    Placement::of_equal(1, 4)
}

/// Three nodes on this machine.
struct Place {
    root: TempDir,
    listeners: Vec<TcpListener>,
    is_stopped: Arc<AtomicBool>,
}

impl Place {
    fn new() -> Self {
        let listen = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let root = tempfile::tempdir().unwrap();
        Self { root, listeners: IDS.map(listen).into(), is_stopped: Arc::default() }
    }

    fn address(&self, id: u16) -> SocketAddr {
        self.listeners[usize::from(id) - 1].local_addr().unwrap()
    }

    fn cluster(&self, own: u16) -> ClusterConfig {
        let address = |id| {
            let address = self.address(id);
            Address { host: address.ip().to_string(), port: address.port() }
        };
        let voter = |id| Voter { id: NodeId(id), address: address(id) };
        ClusterConfig { own: NodeId(own), voters: IDS.map(voter).into(), listen: address(own) }
    }

    fn path(&self, id: u16) -> PathBuf {
        self.root.path().join(id.to_string())
    }

    fn open(&self, id: u16) -> DataDir {
        let ids = &mut RandomIds::new().unwrap();
        DataDir::open_node(&self.path(id), placement(), ids, &self.cluster(id)).unwrap()
    }

    /// Forms the cluster at one node, in a thread. Sends its stamp, and then answers for its shards
    /// until the receiver of `ended` has gone.
    fn start(&self, id: u16, formed: Sender<Meta>, ended: Receiver<()>) -> thread::JoinHandle<()> {
        let (mut directory, cluster) = (self.open(id), self.cluster(id));
        // The clone keeps the port for the answers of the shards.
        let listener = &self.listeners[usize::from(id) - 1];
        let [first, second] = [0, 1].map(|_| listener.try_clone().unwrap());
        let is_stopped = self.is_stopped.clone();
        let form = move || {
            let own =
                OwnNode::new(&cluster, &Config::default(), placement(), Session(u64::from(id)));
            let proposed = RandomIds::new().unwrap().next_id().to_string();
            let ids = ClusterIds { wanted: None, proposed };
            let (is_stopped, listen) = (&is_stopped, || Ok(first));
            let node = form(&mut directory, &own, &cluster, ids, listen, SIZES, is_stopped);
            let Some(node) = node.unwrap() else { return };
            let ids = ClusterIds { wanted: None, proposed: String::new() };
            let shards = Shared::new(Forming::new(node, cluster.ids(), ids));
            let greetings = Greetings::start(second, Arc::new(shards)).unwrap();
            formed.send(directory.meta.clone()).unwrap();
            let _ = ended.recv();
            greetings.end().unwrap();
        };
        thread::spawn(form)
    }

    /// Forms the cluster at all nodes. Returns their stamps.
    fn form(&self) -> Vec<Meta> {
        let (formed, stamps) = channel();
        let (ends, ended): (Vec<Sender<()>>, Vec<_>) = IDS.map(|_| channel()).into_iter().unzip();
        let start = |(id, ended)| self.start(id, formed.clone(), ended);
        let threads: Vec<_> = IDS.into_iter().zip(ended).map(start).collect();
        let stamps: Result<Vec<Meta>, _> =
            IDS.iter().map(|_| stamps.recv_timeout(PATIENCE)).collect();
        self.is_stopped.store(true, Ordering::Relaxed);
        drop(ends);
        threads.into_iter().for_each(|it| it.join().unwrap());
        stamps.unwrap()
    }
}

fn check(stamps: &[Meta]) {
    assert_eq!(stamps.len(), 3);
    for stamp in stamps {
        let formation = |it: &Meta| it.node.clone().unwrap().formation.unwrap();
        assert_eq!(stamp.state, State::Made);
        assert_eq!(stamp.cluster_id, stamps[0].cluster_id);
        assert_eq!(formation(stamp), formation(&stamps[0]));
    }
    assert!(Uuid::parse(&stamps[0].cluster_id).is_some());
}

#[test]
fn three_empty_directories_become_a_cluster() {
    let place = Place::new();
    let stamps = place.form();
    check(&stamps);
    for id in IDS {
        let written = Meta::read(&place.path(id)).unwrap();
        assert!(stamps.contains(&written), "{written:?}");
    }
}

#[test]
fn a_formation_continues_after_restarts() {
    let place = Place::new();
    let directories: BTreeMap<NodeId, Uuid> = IDS
        .map(|id| (NodeId(id), place.open(id).meta.node.unwrap().directory))
        .into_iter()
        .collect();
    // Nodes 1 and 3 have recorded the formation, and node 3 has begun to make its log.
    for id in [1, 3] {
        place.open(id).record_formation("AAAA", &directories).unwrap();
    }
    let log = place.path(3).join("shards-1/0");
    std::fs::create_dir_all(&log).unwrap();
    std::fs::write(log.join("00000000000000000001.log"), [7; 5_000]).unwrap();
    let stamps = place.form();
    assert!(stamps.iter().all(|it| it.cluster_id == "AAAA"), "{stamps:?}");
    assert_eq!(stamps[0].node.as_ref().unwrap().formation.as_ref().unwrap().nodes, directories);
    // A node that is formed waits for no other.
    let mut again = place.open(2);
    let cluster = place.cluster(2);
    let own = OwnNode::new(&cluster, &Config::default(), placement(), Session(9));
    let ids = ClusterIds { wanted: None, proposed: String::new() };
    let listen = || Err("the port of a formed node is for its shards".into());
    let formed = form(&mut again, &own, &cluster, ids, listen, SIZES, &AtomicBool::new(false));
    let node = formed.unwrap().unwrap();
    assert_eq!((&*node.cluster_id, &node.directories), ("AAAA", &directories));
    assert_eq!(&*node.nodes().ids, [NodeId(1), NodeId(2), NodeId(3)]);
}

/// Strangers at the port of node 1: some say nothing, some say rubbish.
#[test]
fn strangers_do_not_stop_a_formation() {
    let place = Place::new();
    let address = place.address(1);
    let is_ended = Arc::<AtomicBool>::default();
    let ended = is_ended.clone();
    let (begun, has_begun) = channel();
    let strangers = thread::spawn(move || {
        let mut idle = Vec::new();
        while !ended.load(Ordering::Relaxed) {
            if idle.len() == 150 {
                idle.clear();
                let _ = begun.send(());
            }
            let timeout = Duration::from_secs(1);
            let Ok(mut stream) = TcpStream::connect_timeout(&address, timeout) else { continue };
            match idle.len() % 3 {
                0 => drop(stream.write_all(&[0x16; 100])),
                1 => drop(stream.write_all(b"muster\0\x01\xff\xff")),
                _ => {}
            }
            idle.push(stream);
        }
    });
    let (formed, stamps) = channel();
    let (end, ended) = channel();
    let first = place.start(1, formed, ended);
    has_begun.recv_timeout(PATIENCE).unwrap();
    let (others, of_others) = channel();
    let (ends, ended): (Vec<Sender<()>>, Vec<_>) = [2, 3].map(|_| channel()).into_iter().unzip();
    let start = |(id, ended)| place.start(id, others.clone(), ended);
    let threads: Vec<_> = [2, 3].into_iter().zip(ended).map(start).collect();
    let mut all = vec![stamps.recv_timeout(PATIENCE).unwrap()];
    all.extend([2, 3].map(|_| of_others.recv_timeout(PATIENCE).unwrap()));
    is_ended.store(true, Ordering::Relaxed);
    drop((end, ends));
    threads.into_iter().chain([first]).for_each(|it| it.join().unwrap());
    strangers.join().unwrap();
    check(&all);
}

#[test]
fn a_node_that_waits_can_be_stopped() {
    let place = Place::new();
    let (formed, stamps) = channel();
    let (_end, ended) = channel();
    let waits = place.start(1, formed, ended);
    place.is_stopped.store(true, Ordering::Relaxed);
    waits.join().unwrap();
    assert!(stamps.recv().is_err(), "it is not formed");
    assert_eq!(Meta::read(&place.path(1)).unwrap().state, State::Making);
}

fn waiting(own: u16, cluster: &ClusterConfig) -> Arc<Shared> {
    let mut node =
        OwnNode::new(cluster, &Config::default(), placement(), Session(u64::from(own) + 10));
    node.directory = Uuid([own as u8; 16]);
    let ids = ClusterIds { wanted: None, proposed: "AAAA".to_owned() };
    Arc::new(Shared::new(Forming::new(node, cluster.ids(), ids)))
}

#[test]
fn the_listener_and_its_connections_are_closed_at_the_end() {
    let mut place = Place::new();
    let (cluster, address) = (place.cluster(1), place.address(1));
    let shared = waiting(1, &cluster);
    let greetings = Greetings::start(place.listeners.remove(0), shared).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let hello = waiting(2, &ClusterConfig { own: NodeId(2), ..cluster });
    let hello = hello.forming().hello_to(NodeId(1));
    exchange::write(&mut stream, &hello).unwrap();
    let answer = exchange::read(&mut stream, Instant::now() + PATIENCE).unwrap().unwrap();
    assert_eq!((answer.from.node, answer.to, answer.refusal), (NodeId(1), (NodeId(2), 0), 0));
    greetings.end().unwrap();
    assert_eq!(stream.read(&mut [0; 9]).unwrap_or(0), 0);
    assert!(TcpStream::connect(address).is_err());
}

/// A node dials one that answers with what is no hello, and another one that does not listen.
#[test]
fn a_node_that_answers_rubbish_is_not_heard() {
    let mut place = Place::new();
    let (cluster, rubbish) = (place.cluster(1), place.listeners.remove(1));
    drop(place.listeners.remove(1));
    let shared = waiting(1, &cluster);
    let dialling = Dialling::start(&cluster, &shared).unwrap();
    let (mut stream, _) = rubbish.accept().unwrap();
    stream.write_all(b"HTTP/1.1 400 Bad Request\r\n").unwrap();
    let said = |why: &str| shared.forming().waits_for().iter().any(|(_, it)| it.contains(why));
    let deadline = Instant::now() + PATIENCE;
    while !(said("does not speak the protocol between nodes") && said("refused")) {
        assert!(Instant::now() < deadline, "{:?}", shared.forming().waits_for());
        shared.wait(Duration::from_millis(10));
    }
    dialling.end();
}
