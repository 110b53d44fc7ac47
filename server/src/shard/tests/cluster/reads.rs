//! Reads: what a node answers must not be older than what another has acknowledged.

use super::{Client, Cluster, ELECTION_MS, GROUP, NONE, NOT_COORDINATOR, commit, fetch};
use crate::net::ConnectionId;
use crate::shard::confirmed_reads::{ConfirmedReads, READS_OF_SLOT_MAX};
use muster_codec::Response;
use muster_codec::messages::{
    ConsumerGroupDescribeRequest, DescribeGroupsRequest, DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup, DescribeTransactionsRequest, HeartbeatRequest,
    ListGroupsRequest, ListTransactionsRequest, OffsetFetchRequest, ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
};
use muster_runtime::replicas::{NodeId, Proof, Serving};

impl Cluster {
    fn committed(&mut self, at: NodeId, offset: i64) {
        let client = self.commit(at, offset);
        self.pass(200);
        assert_eq!(self.commit_error(client), Some(NONE));
    }

    /// A read of each kind.
    fn read_all(&mut self, at: NodeId) -> Vec<Client> {
        let groups = || vec![GROUP.into()];
        let id = self.id_of_slot();
        let share = DescribeShareGroupOffsetsRequestGroup { group_id: GROUP.into(), topics: None };
        let old = OffsetFetchRequest { group_id: GROUP.into(), topics: None, ..Default::default() };
        vec![
            self.send(at, 8, fetch()),
            self.send(at, 6, old),
            self.send(at, 5, DescribeGroupsRequest { groups: groups(), ..Default::default() }),
            self.send(
                at,
                0,
                ConsumerGroupDescribeRequest { group_ids: groups(), ..Default::default() },
            ),
            self.send(
                at,
                1,
                ShareGroupDescribeRequest { group_ids: groups(), ..Default::default() },
            ),
            self.send(
                at,
                0,
                StreamsGroupDescribeRequest { group_ids: groups(), ..Default::default() },
            ),
            self.send(at, 0, DescribeShareGroupOffsetsRequest { groups: vec![share] }),
            self.send(at, 4, ListGroupsRequest::default()),
            self.send(at, 0, DescribeTransactionsRequest { transactional_ids: vec![id.into()] }),
            self.send(at, 1, ListTransactionsRequest::default()),
        ]
    }
}

#[test]
fn a_leader_that_is_cut_off_answers_no_read() {
    let mut cluster = Cluster::new();
    let old = cluster.leader();
    cluster.committed(old, 7);
    cluster.cut.insert(old);
    let slot = cluster.slot().log_slot();
    cluster.pass_until(|it| it.find_leader(slot).is_some());
    let leader = cluster.leader();
    cluster.committed(leader, 9);
    assert_eq!(cluster.serving(old), Serving::Here, "it has not noticed");
    let clients = cluster.read_all(old);
    let beating = HeartbeatRequest { group_id: GROUP.into(), ..Default::default() };
    let beating = cluster.send(old, 4, beating);
    assert!(cluster.answer(beating).is_some(), "a heartbeat needs no proof");
    cluster.pass(100);
    for client in &clients {
        assert_eq!(cluster.answer(*client), None, "{:?}", client.api);
    }
    cluster.pass(ELECTION_MS);
    let slow = clients.iter().filter(|it| !is_list(it));
    for client in slow {
        let refused = cluster.errors(*client);
        assert_eq!(refused, Some(vec![NOT_COORDINATOR]), "{:?}", client.api);
    }
    assert_eq!(cluster.fetch(leader), (NONE, 9));
}

/// Whether the answer is about all groups or ids that the node leads, which may be none.
fn is_list(client: &Client) -> bool {
    use muster_codec::ApiKey;
    matches!(client.api, ApiKey::ListGroups | ApiKey::ListTransactions)
}

#[test]
fn a_read_is_refused_if_the_leader_has_no_proof_within_an_election_timeout() {
    let mut cluster = Cluster::new();
    let leader = cluster.leader();
    cluster.committed(leader, 7);
    // Whether a leader still leads is checked once in an election timeout: here it is soon.
    cluster.cut.insert(leader);
    let clients = cluster.read_all(leader);
    cluster.pass(980);
    assert!(clients.iter().all(|it| cluster.answer(*it).is_none()));
    assert_eq!(cluster.serving(leader), Serving::Here);
    cluster.pass(50);
    for client in &clients {
        let refused = cluster.errors(*client);
        assert_eq!(refused, Some(vec![NOT_COORDINATOR]), "{:?}", client.api);
    }
    cluster.cut.clear();
    cluster.pass(1_000);
    let leader = cluster.leader();
    assert_eq!(cluster.fetch(leader), (NONE, 7));
}

/// The next leader is heard while the read waits.
#[test]
fn a_read_at_a_deposed_leader_is_refused_at_once() {
    let mut cluster = Cluster::new();
    let old = cluster.leader();
    cluster.committed(old, 7);
    cluster.cut.insert(old);
    let slot = cluster.slot().log_slot();
    cluster.pass_until(|it| it.find_leader(slot).is_some());
    let client = cluster.send(old, 8, fetch());
    cluster.pass(50);
    assert_eq!(cluster.answer(client), None);
    cluster.cut.clear();
    cluster.pass_until(|it| it.serving(old) == Serving::Elsewhere);
    cluster.node(old).pass(0);
    assert_eq!(cluster.errors(client), Some(vec![NOT_COORDINATOR]));
}

#[test]
fn a_read_waits_for_no_disk_unless_it_has_what_is_not_durable() {
    let mut cluster = Cluster::new();
    let leader = cluster.leader();
    cluster.committed(leader, 7);
    cluster.nodes.values_mut().for_each(|it| it.hold_log(true));
    assert_eq!(cluster.fetch(leader), (NONE, 7));
    let committing = cluster.send(leader, 8, commit(8));
    let reading = cluster.send(leader, 8, fetch());
    cluster.pass(500);
    let ticket = cluster.node(leader).shard.confirmed_reads.take(reading.connection);
    assert!(ticket.is_empty(), "it has its proof");
    assert_eq!(cluster.answer(reading), None, "the commit is not durable");
    cluster.nodes.values_mut().for_each(|it| it.hold_log(false));
    cluster.pass(100);
    assert_eq!(cluster.commit_error(committing), Some(NONE));
    let Some(Response::OffsetFetch(read)) = cluster.answer(reading) else { unreachable!() };
    assert_eq!(read.groups[0].topics[0].partitions[0].committed_offset, 8);
}

#[test]
fn the_reads_that_wait_for_a_slot_are_limited() {
    let mut cluster = Cluster::new();
    let leader = cluster.leader();
    let slot = cluster.slot().log_slot();
    let runtime = &mut cluster.node(leader).shard.runtime;
    let ticket = runtime.ask(slot).unwrap();
    let mut reads = ConfirmedReads::default();
    let id = |number: usize| ConnectionId::new(number as u32, 0);
    for number in 0..READS_OF_SLOT_MAX {
        assert!(reads.has_room(&[ticket]));
        reads.put(id(number), vec![ticket]);
    }
    assert!(!reads.has_room(&[ticket]));
    assert_eq!(reads.settled(|_| Proof::Awaited), []);
    assert_eq!(reads.settled(|_| Proof::Given).len(), READS_OF_SLOT_MAX);
    assert_eq!(reads.take(id(3)), [ticket]);
    assert!(reads.has_room(&[ticket]));
    assert_eq!(reads.take(id(3)), []);
    assert!(reads.has_room(&[ticket]));
}
