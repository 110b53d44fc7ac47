//! The nodes of a cluster: `node.id`, `controller.quorum.voters`, and the listener for the other
//! nodes.

use super::listeners::first_twice;
use super::{Address, Config, SecurityProtocol};
use muster_runtime::replicas::NodeId;

/// The number of nodes of a cluster.
const NODES: usize = 3;

/// The cluster that a server is a node of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    /// This node, which is one of the voters.
    pub own: NodeId,
    /// All nodes, in the order of their ids.
    pub voters: Vec<Voter>,
    /// The address on which shard 0 listens for the other nodes. Shard i adds i to the port.
    pub listen: Address,
}

/// A node of a cluster, and the address at which the other nodes reach its shard 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Voter {
    pub id: NodeId,
    pub address: Address,
}

impl ClusterConfig {
    /// The ids of all nodes, in order.
    pub fn ids(&self) -> Vec<NodeId> {
        self.voters.iter().map(|it| it.id).collect()
    }

    /// All nodes but this one, in the order of their ids.
    pub fn others(&self) -> impl Iterator<Item = &Voter> {
        self.voters.iter().filter(|it| it.id != self.own)
    }
}

impl Config {
    /// The cluster that this node is part of. None for one machine: with one voter or none, or in
    /// the file of a Kafka broker that is not a controller, too.
    ///
    /// # Errors
    /// The number of voters is not that of a cluster, a voter is malformed or has the id or the
    /// address of another, this node is none of them, or the connections between nodes would need
    /// TLS.
    pub fn cluster(&self) -> Result<Option<ClusterConfig>, String> {
        const KEY: &str = "controller.quorum.voters";
        let texts = &self.controller_quorum_voters;
        if texts.len() <= 1 {
            return Ok(None);
        }
        if self.is_beside(texts) {
            return Ok(None);
        }
        let voters = texts.iter().map(|text| {
            voter(text).ok_or_else(|| {
                format!("{KEY}: {text} is not of the form ID@HOST:PORT, with an ID up to 65535")
            })
        });
        let mut voters = voters.collect::<Result<Vec<_>, _>>()?;
        let own = self.own_of(&voters)?;
        if voters.len() != NODES {
            let count = voters.len();
            return Err(format!(
                "{KEY} names {count} nodes: a cluster has {NODES} in this version, and without a \
                 second voter the server is one machine"
            ));
        }
        if let Some(NodeId(id)) = first_twice(voters.iter().map(|it| it.id)) {
            return Err(format!("{KEY}: two voters have the id {id}"));
        }
        if let Some(address) = first_twice(voters.iter().map(|it| &it.address)) {
            return Err(format!("{KEY}: two voters have the address {address}"));
        }
        let listen = self.peer_listener()?.unwrap_or_else(|| own.address.clone());
        check_loopback(voters.iter().map(|it| &it.address).chain([&listen]))?;
        voters.sort_by_key(|it| it.id);
        Ok(Some(ClusterConfig { own: own.id, voters, listen }))
    }

    /// Whether the voters are those of a Kafka cluster, and the config is that of a broker beside
    /// them: one that is no controller, or one that was moved from ZooKeeper.
    fn is_beside(&self, voters: &[String]) -> bool {
        let roles = self.process_roles.as_deref().unwrap_or_default();
        let is_broker = !roles.is_empty() && roles.iter().all(|it| it != "controller");
        let was_moved = self.node_id.is_none() && self.broker_id >= 0;
        let own = self.node_id.map(|it| it.to_string());
        let is_own = |text: &String| text.split_once('@').map(|(id, _)| id) == own.as_deref();
        (is_broker || was_moved) && (own.is_none() || !voters.iter().any(is_own))
    }

    /// This node among the voters.
    fn own_of(&self, voters: &[Voter]) -> Result<Voter, String> {
        let own = voters.iter().find(|it| Some(i32::from(it.id.0)) == self.node_id);
        match (own, self.node_id) {
            (Some(own), _) => Ok(own.clone()),
            (None, None) => {
                Err("node.id is not set: it says which of controller.quorum.voters this node is"
                    .to_owned())
            }
            (None, Some(id)) => Err(format!(
                "node.id={id} is none of the nodes in controller.quorum.voters: each node of a \
                 cluster has to be one of them"
            )),
        }
    }

    /// The listener for the other nodes, if `listeners` has one of `controller.listener.names`.
    fn peer_listener(&self) -> Result<Option<Address>, String> {
        let names = self.controller_listener_names.as_deref().unwrap_or_default();
        // Without the key there are no listeners, as muster's default is for clients.
        let texts = if self.set_text("listeners").is_some() { &self.listeners[..] } else { &[] };
        let of = |text: &String| {
            let (name, address) = super::listeners::name_and_address(text)?;
            names.iter().any(|it| it == name).then(|| (name.to_owned(), address))
        };
        let Some((name, address)) = texts.iter().find_map(of) else { return Ok(None) };
        match self.security_protocol(&name) {
            Ok(protocol) if protocol != SecurityProtocol::Plaintext => Err(format!(
                "listener.security.protocol.map gives the listener {name} for the other nodes {}, \
                 but between nodes there is only PLAINTEXT in this version",
                protocol.name()
            )),
            // As in Kafka, such a listener needs no entry in the map.
            _ => Ok(Some(address)),
        }
    }
}

/// Parses `ID@HOST:PORT`.
fn voter(text: &str) -> Option<Voter> {
    let (id, address) = text.trim().split_once('@')?;
    let address = Address::parse(address).filter(|it| !it.host.is_empty())?;
    Some(Voter { id: NodeId(id.parse().ok()?), address })
}

/// Refuses addresses at which other hosts could read and change what the nodes say to each other.
fn check_loopback<'a>(mut addresses: impl Iterator<Item = &'a Address>) -> Result<(), String> {
    let is_loopback = |it: &Address| {
        it.host.eq_ignore_ascii_case("localhost") || it.ip().is_some_and(|ip| ip.is_loopback())
    };
    match addresses.find(|it| !is_loopback(it)) {
        None => Ok(()),
        Some(address) => Err(format!(
            "controller.quorum.voters: {address} is no loopback address, but this version has no \
             TLS between nodes, and so forms clusters on one machine only"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOTERS: &str = "controller.quorum.voters=3@[::1]:9394,1@127.0.0.1:9192,2@localhost:9293";

    fn cluster(words: &[&str]) -> Result<Option<ClusterConfig>, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let (config, findings) = Config::read("", &words);
        let cluster = config.cluster();
        let fatal: Vec<String> = findings.fatal().map(ToString::to_string).collect();
        assert_eq!(fatal, cluster.as_ref().err().cloned().as_slice(), "a rule of the configs");
        cluster
    }

    fn error(words: &[&str]) -> String {
        cluster(words).unwrap_err()
    }

    #[test]
    fn three_voters_are_a_cluster() {
        let found = cluster(&["node.id=2", VOTERS]).unwrap().unwrap();
        assert_eq!(found.ids(), [NodeId(1), NodeId(2), NodeId(3)]);
        assert_eq!((found.own, found.listen.to_string()), (NodeId(2), "localhost:9293".to_owned()));
        let others: Vec<String> = found.others().map(|it| it.address.to_string()).collect();
        assert_eq!(others, ["127.0.0.1:9192", "[::1]:9394"]);
    }

    #[test]
    fn the_listener_for_controllers_is_for_the_other_nodes() {
        let listeners = "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:7000";
        let names = "controller.listener.names=CONTROLLER";
        let listen = |words: &[&str]| {
            let words = [&["node.id=1", VOTERS], words].concat();
            cluster(&words).map(|it| it.unwrap().listen.to_string())
        };
        assert_eq!(listen(&[listeners, names]).unwrap(), "127.0.0.1:7000");
        assert_eq!(listen(&[names]).unwrap(), "127.0.0.1:9192");
        let map = "listener.security.protocol.map=CONTROLLER:SSL,PLAINTEXT:PLAINTEXT";
        let refused = listen(&[listeners, names, map]).unwrap_err();
        assert!(refused.contains("CONTROLLER for the other nodes SSL"), "{refused}");
        let all = "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://:7000";
        assert!(listen(&[all, names]).unwrap_err().contains(":7000 is no loopback address"));
    }

    #[test]
    fn one_voter_or_none_is_one_machine() {
        for words in [
            &["node.id=1"][..],
            &["node.id=1", "controller.quorum.voters=1@kafka:9093"],
            &["controller.quorum.bootstrap.servers=a:1,b:2,c:3"],
        ] {
            assert_eq!(cluster(words), Ok(None), "{words:?}");
        }
    }

    #[test]
    fn a_broker_beside_the_controllers_of_kafka_is_one_machine() {
        let voters = "controller.quorum.voters=1@a:1,2@b:1,3@c:1";
        assert_eq!(cluster(&["node.id=4", "process.roles=broker", voters]), Ok(None));
        let many = "controller.quorum.voters=100001@a:1,100002@b:1,100003@c:1";
        assert_eq!(cluster(&["node.id=100004", "process.roles=broker", many]), Ok(None));
        assert_eq!(cluster(&["broker.id=4", voters]), Ok(None));
        assert!(error(&["node.id=3", "process.roles=broker", voters]).contains("a:1 is no loop"));
    }

    #[test]
    fn other_numbers_of_voters_are_refused() {
        for voters in ["1@localhost:1,2@localhost:2", "1@[::1]:1,2@[::1]:2,3@[::1]:3,4@[::1]:4"] {
            let refused = error(&["node.id=1", &format!("controller.quorum.voters={voters}")]);
            assert!(refused.contains("a cluster has 3"), "{refused}");
        }
    }

    #[test]
    fn each_node_is_one_of_the_voters_with_an_address_of_its_own() {
        assert!(error(&[VOTERS]).starts_with("node.id is not set"));
        assert!(error(&["node.id=4", VOTERS]).starts_with("node.id=4 is none"));
        for (voters, part) in [
            ("1@[::1]:1,1@[::1]:2,2@[::1]:3", "two voters have the id 1"),
            ("1@[::1]:1,2@[::1]:2,3@[::1]:2", "two voters have the address [::1]:2"),
            ("1@[::1]:1,2@10.0.0.7:2,3@[::1]:3", "10.0.0.7:2 is no loopback address"),
            ("1@[::1]:1,2@[::1]:2,65536@[::1]:3", "65536@[::1]:3 is not of the form"),
            ("1@[::1]:1,2@[::1]:2,3@[::1]", "3@[::1] is not of the form"),
            ("1@[::1]:1,2@:2,3@[::1]:3", "2@:2 is not of the form"),
            ("1@[::1]:1,[::1]:2,3@[::1]:3", "[::1]:2 is not of the form"),
        ] {
            let refused = error(&["node.id=1", &format!("controller.quorum.voters={voters}")]);
            assert!(refused.contains(part), "{refused}");
        }
    }
}
