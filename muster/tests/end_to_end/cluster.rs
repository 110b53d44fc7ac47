//! Three processes on loopback that are one cluster. Any one of them may be killed.

use crate::support::offsets::{commit_request, muster};
use crate::support::{Client, PATIENCE, Server, command_with, free_ports};
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Response};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const TOPIC: &str = "orders";
const GROUPS: usize = 20;
const SHARDS: u16 = 2;

/// The nodes 1 to 3.
struct Cluster {
    place: TempDir,
    nodes: [Node; 3],
}

struct Node {
    id: u16,
    /// The first ports for clients and for other nodes.
    port: u16,
    peer_port: u16,
    server: Option<Server>,
}

impl Cluster {
    fn start() -> Self {
        let node =
            |id| Node { id, port: free_ports(SHARDS), peer_port: free_ports(SHARDS), server: None };
        let mut cluster = Self { place: tempfile::tempdir().unwrap(), nodes: [1, 2, 3].map(node) };
        cluster.start_all();
        cluster
    }

    /// Starts the nodes that do not run, at once: a new cluster needs all of them.
    fn start_all(&mut self) {
        let voters: Vec<_> =
            self.nodes.iter().map(|it| format!("{}@127.0.0.1:{}", it.id, it.peer_port)).collect();
        let voters = voters.join(",");
        let path = self.place.path();
        std::thread::scope(|scope| {
            for node in self.nodes.iter_mut().filter(|it| it.server.is_none()) {
                let (data, voters) = (path.join(node.id.to_string()), &voters);
                scope.spawn(move || node.start(data, voters));
            }
        });
    }

    /// The end of `muster cluster status` at a node: whether any node may be lost, and the text.
    fn status(&self, at: u16, options: &[&str]) -> (bool, String) {
        let broker = format!("127.0.0.1:{}", self.nodes[usize::from(at) - 1].port);
        let words = ["cluster", "status", "--bootstrap-server", &broker];
        let ended = muster([&words, options].concat());
        (ended.status == 0, ended.out + &ended.error)
    }

    fn kill(&mut self, id: u16) {
        drop(self.nodes[usize::from(id) - 1].server.take());
    }

    /// Connections to the nodes that run, to any of their shards.
    fn clients(&self) -> impl Iterator<Item = Client> {
        let running = self.nodes.iter().filter(|it| it.server.is_some());
        running.filter_map(|it| Client::try_connect(it.port))
    }

    /// The node that coordinates a group, and a connection to it. None if it is not known yet.
    fn coordinator(&self, group: &str) -> Option<(u16, Client)> {
        let find = FindCoordinatorRequest { key: group.to_owned().into(), ..Default::default() };
        self.clients().find_map(|mut client| {
            let response = client.try_call(3, find.clone().into())?;
            let Response::FindCoordinator(body) = response else { panic!("{response:?}") };
            let client = Client::try_connect(body.port as u16).filter(|_| body.error_code == 0)?;
            Some((body.node_id as u16 / 1_000, client))
        })
    }

    /// Creates the topic at the node that decides changes of the cluster.
    fn create_topic(&self) {
        let topic = CreatableTopic {
            name: TOPIC.into(),
            num_partitions: 6,
            replication_factor: 1,
            ..Default::default()
        };
        let request =
            CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
        until("the topic is created", || {
            let codes = self.clients().filter_map(|mut client| {
                let response = client.try_call(5, request.clone().into())?;
                let Response::CreateTopics(body) = response else { panic!("{response:?}") };
                Some(body.topics[0].error_code)
            });
            let done = [ErrorCode::None.code(), ErrorCode::TopicAlreadyExists.code()];
            codes.into_iter().any(|code| done.contains(&code)).then_some(())
        });
    }

    /// Commits an offset, and tries again until it is acknowledged.
    fn commit(&self, group: &str, offset: i64) {
        let request = commit_request(group, TOPIC, [0], offset, "");
        until("a commit", || {
            let (_, mut coordinator) = self.coordinator(group)?;
            let response = coordinator.try_call(8, request.clone().into())?;
            let Response::OffsetCommit(body) = response else { panic!("{response:?}") };
            let code = body.topics[0].partitions[0].error_code;
            (code == ErrorCode::None.code()).then_some(())
        });
    }

    /// The committed offset.
    fn committed(&self, group: &str) -> i64 {
        let topic = OffsetFetchRequestTopics {
            name: TOPIC.into(),
            partition_indexes: vec![0],
            ..Default::default()
        };
        let wanted = OffsetFetchRequestGroup {
            group_id: group.to_owned().into(),
            topics: Some(vec![topic]),
            ..Default::default()
        };
        let request = OffsetFetchRequest { groups: vec![wanted], ..Default::default() };
        until("an answer about a commit", || {
            let (_, mut coordinator) = self.coordinator(group)?;
            let response = coordinator.try_call(8, request.clone().into())?;
            let Response::OffsetFetch(body) = response else { panic!("{response:?}") };
            let of_group = &body.groups[0];
            let is_answer = of_group.error_code == ErrorCode::None.code();
            is_answer.then(|| of_group.topics[0].partitions[0].committed_offset)
        })
    }
}

impl Node {
    fn start(&mut self, data: PathBuf, voters: &str) {
        let listen = format!("127.0.0.1:{}", self.port);
        let id = self.id.to_string();
        let arguments = ["--listen", &listen, "--node", &id, "--peers", voters];
        let command = command_with(&data, SHARDS, &arguments);
        self.server = Some(Server::of(command, &data, self.port, SHARDS));
    }
}

/// Tries again until there is a result.
fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(result) = attempt() {
            return result;
        }
        assert!(began.elapsed() < PATIENCE, "there is no success: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn groups() -> impl Iterator<Item = String> {
    (0..GROUPS).map(|it| format!("group-{it}"))
}

#[test]
fn commits_survive_the_loss_of_each_node() {
    let mut cluster = Cluster::start();
    cluster.create_topic();
    let mut offset = 0;
    for lost in [1, 2, 3] {
        offset += 1;
        groups().for_each(|group| cluster.commit(&group, offset));
        cluster.kill(lost);
        for group in groups() {
            assert_eq!(cluster.committed(&group), offset, "{group}, without node {lost}");
        }
        offset += 1;
        groups().for_each(|group| cluster.commit(&group, offset));
        cluster.start_all();
    }
    groups().for_each(|group| assert_eq!(cluster.committed(&group), offset, "{group}"));
}

#[test]
fn commits_survive_the_loss_of_all_nodes() {
    let mut cluster = Cluster::start();
    cluster.create_topic();
    groups().for_each(|group| cluster.commit(&group, 7));
    (1..=3).for_each(|id| cluster.kill(id));
    cluster.start_all();
    groups().for_each(|group| assert_eq!(cluster.committed(&group), 7, "{group}"));
    groups().for_each(|group| cluster.commit(&group, 8));
}

#[test]
fn the_status_names_the_node_that_is_lost_and_waits_until_it_is_back() {
    let mut cluster = Cluster::start();
    cluster.create_topic();
    groups().for_each(|group| cluster.commit(&group, 1));
    let (may_lose_any, text) = cluster.status(1, &["--wait", "60"]);
    assert!(may_lose_any, "{text}");
    assert!(text.ends_with("any one machine may be lost: yes\n"), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 6, "{text}");
    let address = format!("127.0.0.1:{}", cluster.nodes[2].peer_port);
    assert!(lines[4].starts_with("3      ") && lines[4].contains(&address), "{text}");
    assert!(lines[2..5].iter().all(|it| it.contains("51/51")), "{text}");
    cluster.kill(3);
    groups().for_each(|group| cluster.commit(&group, 2));
    until("the status without node 3", || {
        let (may_lose_any, text) = cluster.status(1, &[]);
        assert!(!may_lose_any, "{text}");
        text.ends_with("NO (node 3 is not heard)\n").then_some(())
    });
    cluster.start_all();
    let (may_lose_any, text) = cluster.status(2, &["--wait"]);
    assert!(may_lose_any, "{text}");
}

#[test]
fn the_status_of_one_machine_says_so() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), 1, &[]);
    let broker = format!("127.0.0.1:{}", server.port);
    let ended = muster(["cluster", "status", "--bootstrap-server", &broker]);
    assert!(ended.status != 0 && ended.error.contains("is one machine"), "{ended:?}");
}
