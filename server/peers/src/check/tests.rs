//! Each difference between two nodes, with its sentence.

use super::*;
use bytes::Bytes;
use muster_replication::Session;

const OWN: NodeId = NodeId(1);
const OTHER: NodeId = NodeId(2);
const DIRECTORY: Uuid = Uuid([2; 16]);

/// The number of an unknown directory, as in FORMAT.md.
const DIRECTORY_NUMBER: u8 = 3;

fn identity(node: NodeId) -> Identity {
    Identity {
        cluster: "Zk8s".to_owned(),
        node,
        session: Session(5),
        directory: Uuid([node.0 as u8; 16]),
        shard: 1,
        shards: 4,
        slots: 50,
        transactions_partitions: 50,
        election_timeout_ms: 1_000,
        features: 1,
        clients: Bytes::new(),
    }
}

fn hello() -> Hello {
    Hello { from: identity(OTHER), to: (OWN, 1), refusal: 0 }
}

/// The refusal of a hello by node 1, which has dialled node 2.
fn refused(change: impl Fn(&mut Hello)) -> Refusal {
    let mut hello = hello();
    change(&mut hello);
    check(&identity(OWN), &hello, Some((OTHER, 1)), Some(DIRECTORY)).unwrap_err()
}

#[test]
fn equal_nodes_are_not_refused() {
    for directory in [None, Some(DIRECTORY)] {
        for dialled in [None, Some((OTHER, 1))] {
            assert_eq!(check(&identity(OWN), &hello(), dialled, directory), Ok(()));
        }
    }
    // Processes, directories and numbers of shards may differ.
    let from = Identity { session: Session(6), shard: 1, shards: 2, ..identity(OTHER) };
    assert_eq!(check(&identity(OWN), &Hello { from, ..hello() }, None, None), Ok(()));
}

#[test]
fn a_wrong_address_has_a_sentence() {
    let table = [
        (
            refused(|it| it.from.node = NodeId(3)),
            "shard 1 of node 3 has answered at the address of shard 1 of node 2: check \
             controller.quorum.voters",
        ),
        (
            refused(|it| it.from.shard = 2),
            "shard 2 of node 2 has answered at the address of shard 1 of node 2: check \
             controller.quorum.voters",
        ),
        (
            refused(|it| it.to.0 = NodeId(3)),
            "node 2 has this address for shard 1 of node 3: check controller.quorum.voters there",
        ),
        (
            refused(|it| it.to.1 = 2),
            "node 2 has this address for shard 2 of node 1: check controller.quorum.voters there",
        ),
    ];
    for (refusal, sentence) in table {
        assert_eq!(refusal.to_string(), sentence);
    }
}

#[test]
fn each_difference_has_a_sentence() {
    let table = [
        (
            refused(|it| it.from.cluster = "Other".to_owned()),
            "node 2 is part of the cluster Other, and this one of Zk8s: check \
             controller.quorum.voters",
        ),
        (
            refused(|it| it.from.cluster = String::new()),
            "node 2 is not part of the cluster Zk8s yet: if it has been, start it with the \
             directory that it had",
        ),
        (
            refused(|it| it.from.directory = Uuid([9; 16])),
            "node 2 has the directory CQkJCQkJCQkJCQkJCQkJCQ, and is known with the directory \
             AgICAgICAgICAgICAgICAg: start it with that one. This release cannot replace a node \
             that has lost its directory",
        ),
    ];
    for (refusal, sentence) in table {
        assert_eq!(refusal.to_string(), sentence);
    }
}

#[test]
fn each_difference_of_numbers_has_a_sentence() {
    let table = [
        (
            refused(|it| it.from.slots = 100),
            "offsets.topic.num.partitions is 100 on node 2 and 50 on this node: all nodes of a \
             cluster need the same number",
        ),
        (
            refused(|it| it.from.transactions_partitions = 3),
            "transaction.state.log.num.partitions is 3 on node 2 and 50 on this node: all nodes of \
             a cluster need the same number",
        ),
        (
            refused(|it| it.from.election_timeout_ms = 5_000),
            "controller.quorum.election.timeout.ms is 5000 on node 2 and 1000 on this node: all \
             nodes of a cluster need the same number",
        ),
        (
            refused(|it| it.from.features = 2),
            "node 2 has the feature level 2, and this one 1: all nodes of a cluster need the same \
             release",
        ),
        (
            check(
                &Identity { shard: 0, ..identity(OWN) },
                &Hello { to: (OWN, 0), ..hello() },
                None,
                None,
            )
            .unwrap_err(),
            "shard 1 of 4 of node 2 has no slot of shard 0 of 4 of this node",
        ),
    ];
    for (refusal, sentence) in table {
        assert_eq!(refusal.to_string(), sentence);
    }
}

#[test]
fn the_reason_of_the_other_node_has_a_sentence() {
    let table = [
        (
            refused(|it| it.refusal = Refusal::Unknown(OWN).number()),
            "node 2 refuses this node, because it does not know a node 1: check \
             controller.quorum.voters there",
        ),
        (
            refused(|it| it.refusal = DIRECTORY_NUMBER),
            "node 2 refuses this node, because it knows node 1 with another directory: start this \
             node with that one. This release cannot replace a node that has lost its directory",
        ),
        (
            refused(|it| it.refusal = Refusal::Certificate(OWN).number()),
            "node 2 refuses this node, because its certificate is not valid for the host of node 1 \
             in controller.quorum.voters there: check its subject alternative names",
        ),
        (
            refused(|it| it.refusal = 99),
            "node 2 refuses this node: the log of node 2 has the reason",
        ),
    ];
    for (refusal, sentence) in table {
        assert_eq!(refusal.to_string(), sentence);
    }
}

#[test]
fn a_node_without_a_cluster_names_itself() {
    let own = Identity { cluster: String::new(), ..identity(OWN) };
    let refusal = check(&own, &hello(), None, None).unwrap_err();
    let sentence = "node 1 is not part of the cluster Zk8s yet: if it has been, start it with the \
                    directory that it had";
    assert_eq!(refusal.to_string(), sentence);
    // Two nodes that are being formed may speak.
    let mut hello = hello();
    hello.from.cluster.clear();
    assert_eq!(check(&own, &hello, None, None), Ok(()));
}

#[test]
fn a_second_node_with_the_same_id_is_refused() {
    let from = Identity { session: Session(6), ..identity(OWN) };
    let hello = Hello { from, to: (OWN, 1), refusal: 0 };
    let refusal = check(&identity(OWN), &hello, None, None).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "another node has the id of this one, 1: each node of a cluster needs its own node.id"
    );
}

/// Both ends are shards of one process, so neither of them is another node.
#[test]
fn a_node_that_dials_itself_names_the_wrong_address() {
    let sentence = "the address of node 2 in controller.quorum.voters is that of this node: \
                    correct one of the two";
    let called = Hello { from: identity(OWN), to: (OTHER, 1), refusal: 0 };
    let answer = Hello { from: identity(OWN), to: (OWN, 1), refusal: 1 };
    for (hello, dialled) in [(called, None), (answer, Some((OTHER, 1)))] {
        let refusal = check(&identity(OWN), &hello, dialled, None).unwrap_err();
        assert_eq!(refusal.to_string(), sentence);
    }
}

#[test]
fn what_is_refused_without_a_hello_has_a_sentence_too() {
    let table = [
        (
            Refusal::NotMuster,
            "the other end does not speak the protocol between nodes: check the ports in \
             controller.quorum.voters, and listener.security.protocol.map, on both nodes",
        ),
        (
            Refusal::Damaged,
            "the first message of the other node is damaged: check that all nodes have the same \
             release, and the network between them",
        ),
        (
            Refusal::Version { theirs: 2, own: 1 },
            "the other node has version 2 of the protocol between nodes, and this one version 1: \
             all nodes of a cluster need the same release",
        ),
        (
            Refusal::Unknown(NodeId(7)),
            "node 7 is none of the nodes that this one knows: check controller.quorum.voters",
        ),
        (
            Refusal::Process(OTHER),
            "it is not certain which process of node 2 is the newer one: a new connection will \
             decide",
        ),
        (
            Refusal::Certificate(OTHER),
            "the certificate is not valid for the host of node 2 in controller.quorum.voters: \
             check its subject alternative names",
        ),
        (
            Refusal::TwoProcesses(OTHER),
            "two processes run as node 2 with the same directory: stop the one that is a copy",
        ),
    ];
    for (refusal, sentence) in table {
        assert_eq!(refusal.to_string(), sentence);
        assert!(refusal.number() != 0);
    }
}

/// The other node does not see these differences by itself.
#[test]
fn a_difference_that_one_side_sees_has_its_own_number() {
    let directory = Refusal::Directory { node: OTHER, theirs: DIRECTORY, known: Uuid::ZERO };
    let certificate = Refusal::Certificate(OTHER);
    let others = [directory, certificate, Refusal::Unknown(OTHER), Refusal::NotMuster];
    assert_eq!(others.map(|it| it.number()), [DIRECTORY_NUMBER, 5, 2, 1]);
}
