//! The nodes that are refused, and what this node says of them.

use super::*;
use muster_peers::{Hello, Refusal};

const A: &str = "AAAA";

fn three() -> [Forming; 3] {
    let start = |number: u16| Disk::empty(number as u8).start(NodeId(number), number.into(), A);
    [start(1), start(2), start(3)]
}

/// Each of the other two has recorded the cluster.
fn recorded() -> [Forming; 3] {
    let [mut one, mut two, mut three] = three();
    for _ in 0..2 {
        exchange(&mut one, &two, IDS[1]).unwrap();
        exchange(&mut one, &three, IDS[2]).unwrap();
        perform(&mut one);
        exchange(&mut two, &one, IDS[0]).unwrap();
        exchange(&mut two, &three, IDS[2]).unwrap();
        perform(&mut two);
        exchange(&mut three, &one, IDS[0]).unwrap();
        exchange(&mut three, &two, IDS[1]).unwrap();
        perform(&mut three);
    }
    [one, two, three]
}

#[test]
fn the_lowest_node_chooses_once_it_knows_all() {
    let [mut one, two, three] = three();
    assert_eq!(one.due(), None);
    exchange(&mut one, &two, IDS[1]).unwrap();
    assert_eq!(one.due(), None);
    exchange(&mut one, &three, IDS[2]).unwrap();
    let nodes: BTreeMap<_, _> = [1, 2, 3].map(|it| (NodeId(it), Uuid([it as u8; 16]))).into();
    let due = Some(Action::Record { cluster_id: A.to_owned(), nodes: nodes.clone() });
    assert_eq!(one.due(), due);
    // A node that cannot be reached any more may come back with another disk.
    one.unheard(NodeId(3), "refused");
    assert_eq!(one.due(), None);
    assert_eq!(one.waits_for()[1], (NodeId(3), "was not heard: refused".to_owned()));
    // Until it is recorded, the hello is that of an empty node.
    assert_eq!(one.hello_to(NodeId(2)).from.cluster, "");
    one.recorded(A.to_owned(), nodes);
    assert_eq!(one.hello_to(NodeId(2)).from.cluster, A);
}

#[test]
fn a_node_that_hears_all_others_forming_is_formed() {
    for mut forming in recorded() {
        assert_eq!((perform(&mut forming), forming.waits_for()), (Some(Action::Complete), vec![]));
    }
}

/// The node has recorded the formation, and was killed before it had its logs. Meanwhile the others
/// were formed, and now one of them is gone.
#[test]
fn one_formed_node_is_enough_for_a_node_that_has_recorded_the_cluster() {
    let [one, two, mut three] = recorded();
    three.unheard(IDS[1], "refused");
    exchange(&mut three, &one, IDS[0]).unwrap();
    assert_eq!(three.due(), None);
    let (mut answer, _) = one.answer_to(&three.hello_to(IDS[0]));
    answer.from.clients = b"addresses".as_slice().into();
    three.answered(IDS[0], answer).unwrap();
    assert_eq!(three.due(), Some(Action::Complete));
    // A node that has recorded nothing is not part of the formation.
    let mut other = Disk::empty(3).start(IDS[2], 9, A);
    let (mut answer, _) = two.answer_to(&other.hello_to(IDS[1]));
    answer.from.clients = b"addresses".as_slice().into();
    other.answered(IDS[1], answer).unwrap();
    assert_eq!(other.due(), None);
}

#[test]
fn other_directories_and_clusters_are_refused() {
    let [mut one, _, mut three] = recorded();
    let mut other = Disk::empty(9).start(NodeId(2), 9, A);
    // The other disk is empty: both see that the cluster does not have it.
    let refused = exchange(&mut one, &other, NodeId(2)).unwrap_err();
    assert!(matches!(refused, Mismatch::Refused(Refusal::Directory { .. })), "{refused}");
    let refused = exchange(&mut other, &three, NodeId(3)).unwrap_err();
    assert!(matches!(refused, Mismatch::LeftOut { .. }), "{refused}");
    let sentence = "node 3 is part of the cluster AAAA, which does not have this directory of node \
                    2: start node 2 with the directory that it had, or, if the cluster has never \
                    served clients, all nodes with empty directories";
    assert_eq!(other.waits_for()[1], (NodeId(3), sentence.to_owned()));
    assert_eq!(three.due(), Some(Action::Complete), "it has heard all of the cluster");
    let disk = Disk { formation: Some(("B".to_owned(), BTreeMap::new())), ..Disk::empty(2) };
    let refused = exchange(&mut three, &disk.start(NodeId(2), 9, A), NodeId(2)).unwrap_err();
    assert!(matches!(refused, Mismatch::Refused(Refusal::Cluster { .. })), "{refused}");
    assert_eq!(three.due(), None);
}

#[test]
fn the_lowest_node_with_another_disk_chooses_no_second_cluster() {
    let [_, two, three] = recorded();
    let mut one = Disk::empty(9).start(NodeId(1), 9, "B");
    for (node, other) in [(IDS[1], &two), (IDS[2], &three)] {
        assert!(matches!(exchange(&mut one, other, node), Err(Mismatch::LeftOut { .. })));
    }
    assert_eq!(one.due(), None);
}

#[test]
fn other_settings_are_refused_on_both_sides() {
    let [mut one, _, _] = three();
    let mut own = Disk::empty(2).own(NodeId(2), 2);
    own.placement.offsets_partitions = 51;
    let ids = || ClusterIds { wanted: None, proposed: A.to_owned() };
    let mut two = Forming::new(own, IDS.into(), ids());
    let (answer, checked) = two.answer_to(&one.hello_to(NodeId(2)));
    assert_eq!(answer.refusal, 1);
    assert!(matches!(checked, Err(Mismatch::Refused(Refusal::Slots { .. }))));
    let refused = one.answered(NodeId(2), answer).unwrap_err().to_string();
    assert!(refused.starts_with("offsets.topic.num.partitions is 51 on node 2"), "{refused}");
    let (answer, _) = one.answer_to(&two.hello_to(NodeId(1)));
    assert!(two.answered(NodeId(1), answer).is_err());
    let stranger = Forming::new(Disk::empty(7).own(NodeId(7), 7), IDS.into(), ids());
    let (answer, checked) = one.answer_to(&stranger.hello_to(NodeId(1)));
    let unknown = Refusal::Unknown(NodeId(7));
    assert_eq!((answer.refusal, checked), (unknown.number(), Err(unknown.into())));
}

#[test]
fn a_refusal_of_the_other_node_counts() {
    let [mut one, two, _] = three();
    let (answer, _) = two.answer_to(&one.hello_to(NodeId(2)));
    let refused = one.answered(NodeId(2), Hello { refusal: 3, ..answer }).unwrap_err();
    assert!(matches!(refused, Mismatch::Refused(Refusal::ByPeer { number: 3, .. })), "{refused}");
    assert_eq!(one.waits_for().len(), 2);
}

#[test]
fn only_the_wanted_cluster_id_is_recorded() {
    let [one, _, _] = recorded();
    for (wanted, is_wanted) in [(A, true), ("B", false)] {
        let own = Disk::empty(2).own(NodeId(2), 2);
        let ids = ClusterIds { wanted: Some(wanted.to_owned()), proposed: wanted.to_owned() };
        let mut two = Forming::new(own, IDS.into(), ids);
        let answered = exchange(&mut two, &one, NodeId(1));
        assert_eq!(answered.is_ok(), is_wanted);
        if let Err(mismatch) = answered {
            let sentence = "node 1 has recorded the cluster AAAA, but CLUSTER_ID is B here: all \
                            nodes need the same";
            assert_eq!(mismatch.to_string(), sentence);
        }
    }
}
