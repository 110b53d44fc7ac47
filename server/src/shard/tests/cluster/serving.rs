//! Requests for slots that a node does not serve, or does not serve yet.

use super::{Client, Cluster, ELECTION_MS, GROUP, IDS, NONE, NOT_COORDINATOR, commit, fetch, join};
use muster_codec::messages::{
    DescribeGroupsRequest, DescribeTransactionsRequest, InitProducerIdRequest, ListGroupsRequest,
    ListTransactionsRequest,
};
use muster_codec::{ErrorCode, Response, Str};
use muster_runtime::replicas::{NodeId, Serving};

const LOADING: i16 = ErrorCode::CoordinatorLoadInProgress as i16;

impl Cluster {
    pub(super) fn serving(&self, at: NodeId) -> Serving {
        self.nodes[&at].shard.runtime.serving(self.slot().log_slot())
    }

    /// The leader is cut off. The next one is elected, and the disk of the third node takes nothing
    /// more. Returns the elected node and the third.
    fn elect_without_quorum(&mut self) -> (NodeId, NodeId) {
        self.cut.insert(self.leader());
        let elected =
            |cluster: &Self| IDS.into_iter().find(|it| cluster.serving(*it) == Serving::Soon);
        self.pass_until(|cluster| elected(cluster).is_some());
        let elected = elected(self).unwrap();
        let third = IDS.into_iter().find(|it| *it != elected && !self.cut.contains(it)).unwrap();
        self.node(third).hold_log(true);
        (elected, third)
    }

    /// A transactional id whose coordinator leads the group's slot.
    pub(super) fn id_of_slot(&self) -> String {
        let placement = self.nodes[&IDS[0]].common.placement;
        let is_of_slot = |id: &String| {
            placement.slot_of_transactions(placement.transactions_partition(id)) == self.slot()
        };
        (0..).map(|it| format!("id-{it}")).find(is_of_slot).unwrap()
    }

    /// The errors of the next answer, if there is one.
    pub(super) fn errors(&mut self, client: Client) -> Option<Vec<i16>> {
        let response = self.answer(client)?;
        let mut errors = Vec::new();
        response.errors(&mut |code| errors.push(code));
        errors.retain(|code| *code != NONE);
        Some(errors)
    }
}

#[test]
fn a_request_waits_until_its_leader_is_ready() {
    let mut cluster = Cluster::new();
    let (elected, third) = cluster.elect_without_quorum();
    let committing = cluster.commit(elected, 7);
    let describe = DescribeGroupsRequest { groups: vec![GROUP.into()], ..Default::default() };
    let describing = cluster.send(elected, 5, describe);
    let listing = cluster.send(elected, 4, ListGroupsRequest::default());
    let refused = cluster.commit(third, 8);
    assert_eq!(cluster.commit_error(refused), Some(NOT_COORDINATOR), "at once");
    cluster.pass(500);
    assert_eq!(cluster.serving(elected), Serving::Soon);
    for client in [committing, describing, listing] {
        assert_eq!(cluster.answer(client), None);
        assert!(!cluster.node(elected).shard.clients.connections().receives(client.connection));
    }
    cluster.node(third).hold_log(false);
    cluster.pass(100);
    assert_eq!(cluster.commit_error(committing), Some(NONE));
    assert_eq!(cluster.errors(describing), Some(vec![]));
    assert_eq!(cluster.errors(listing), Some(vec![]));
    assert_eq!(cluster.fetch(elected), (NONE, 7));
}

#[test]
fn a_request_that_has_waited_for_a_second_is_refused() {
    let mut cluster = Cluster::new();
    let (elected, third) = cluster.elect_without_quorum();
    let id = Str::Owned(cluster.id_of_slot());
    let init = InitProducerIdRequest { transactional_id: Some(id.clone()), ..Default::default() };
    let describe = DescribeTransactionsRequest { transactional_ids: vec![id] };
    let mut clients = vec![
        cluster.send(elected, 8, commit(7)),
        cluster.send(elected, 8, fetch()),
        cluster.send(elected, 6, join("")),
        cluster.send(elected, 4, ListGroupsRequest::default()),
        cluster.send(elected, 4, init),
        cluster.send(elected, 0, describe),
        cluster.send(elected, 1, ListTransactionsRequest::default()),
    ];
    let first = clients[0];
    cluster.send_on(elected, first.connection, 8, commit(9));
    cluster.pass(980);
    assert_eq!(cluster.serving(elected), Serving::Soon);
    for client in &clients {
        assert_eq!(cluster.errors(*client), None, "{:?}", client.api);
    }
    cluster.pass(50);
    let first = clients.remove(0);
    let answers = cluster.answers(first);
    assert_eq!(answers.len(), 2, "a second for both together");
    for answer in answers {
        let Response::OffsetCommit(answer) = answer else { unreachable!() };
        assert_eq!(answer.topics[0].partitions[0].error_code, LOADING);
    }
    for client in clients {
        assert_eq!(cluster.errors(client), Some(vec![LOADING]), "{:?}", client.api);
    }
    cluster.node(third).hold_log(false);
    cluster.pass(100);
    let again = cluster.send_on(elected, first.connection, 8, commit(9));
    cluster.pass(100);
    assert_eq!(cluster.commit_error(again), Some(NONE));
}

/// Its clients would ask it again in place of the new leader.
#[test]
fn a_deposed_leader_never_says_that_it_loads() {
    let mut cluster = Cluster::new();
    let old = cluster.leader();
    let client = cluster.commit(old, 7);
    cluster.pass(200);
    assert_eq!(cluster.commit_error(client), Some(NONE));
    cluster.cut.insert(old);
    let slot = cluster.slot().log_slot();
    cluster.pass_until(|it| it.find_leader(slot).is_some());
    assert_eq!(cluster.serving(old), Serving::Here, "it has not noticed");
    cluster.cut.clear();
    let is_settled =
        |it: &Cluster| it.nodes[&old].shard.runtime.replication().unwrap().is_settled(slot);
    cluster.pass_until(|it| !is_settled(it));
    let client = cluster.commit(old, 8);
    assert!(!is_settled(&cluster), "it loads its machines again");
    assert_eq!(cluster.commit_error(client), Some(NOT_COORDINATOR));
    let listing = cluster.send(old, 4, ListGroupsRequest::default());
    assert_eq!(cluster.errors(listing), Some(vec![]));
    cluster.pass(ELECTION_MS);
    assert!(is_settled(&cluster));
}
