//! The messages of other nodes: which of them are dropped, and which are refused.

use super::nodes::{Nodes, SLOT, SLOTS};
use muster_codec::record_batch::{BatchHeader, set_base_offset, validate};
use muster_replication::{
    Base, Body, Content, Index, Lie, Members, NodeId, PeerMessage, ReplicaId, Role,
};
use muster_storage::layout::PARTITION_BYTES;

/// A leader, a follower, and an entry that the one sends to the other.
fn offer() -> (Nodes, NodeId, NodeId, PeerMessage) {
    let mut nodes = Nodes::new();
    let (leader, follower) = (nodes.leader(), nodes.followers()[0]);
    assert!(nodes.node(leader).add(1, 5));
    nodes.pass(3);
    let message = nodes.offered(leader, follower);
    (nodes, leader, follower, message)
}

/// The message with other records in its first entry.
fn with_records(message: &PeerMessage, change: &dyn Fn(&mut Vec<u8>)) -> PeerMessage {
    let mut message = message.clone();
    let Body::Append { entries, .. } = &mut message.body else { unreachable!("an append") };
    let Content::Records(records) = &mut entries[0].content else { unreachable!("records") };
    let mut bytes = records.to_vec();
    change(&mut bytes);
    *records = bytes.into();
    message
}

type Change<'c> = &'c dyn Fn(&PeerMessage) -> PeerMessage;

/// The follower refuses these messages. It is none the worse for it.
fn refuses(lies: &[(&str, Change<'_>)]) {
    let (mut nodes, leader, follower, message) = offer();
    for (what, lie) in lies {
        let said = nodes.say(leader, follower, lie(&message));
        assert!(matches!(said, Err(Lie::Peer(_))), "{what}: {said:?}");
    }
    nodes.say(leader, follower, message).unwrap();
    nodes.pass(5);
    nodes.all.values().for_each(|node| assert_eq!(node.sum(), 12));
}

/// Adds copies of the only batch, with the offsets that follow.
fn repeat(bytes: &mut Vec<u8>, times: i64) {
    let (one, first) = (bytes.clone(), base_offset(bytes));
    for nth in 1..times {
        let begin = bytes.len();
        bytes.extend(&one);
        set_base_offset(&mut bytes[begin + PARTITION_BYTES..], first + nth);
    }
}

fn base_offset(bytes: &[u8]) -> i64 {
    BatchHeader::read(&bytes[PARTITION_BYTES..]).unwrap().base_offset
}

/// More than a segment of entries waits for the follower's disk.
#[test]
fn the_open_block_of_a_follower_has_a_limit() {
    let mut nodes = Nodes::new();
    let (leader, slow) = (nodes.leader(), nodes.followers()[0]);
    nodes.node(slow).hold_disk(true);
    let (entries, records) = (60, 24);
    for _ in 0..entries {
        for client in 0..records {
            assert!(nodes.node(leader).add(client, 40));
        }
        nodes.deliver();
    }
    let sum = nodes.node(leader).sum();
    assert_eq!(sum, (40 * entries * records) as i64);
    let bytes = nodes.node(leader).runtime.log().kept_size(SLOT.group()).1;
    assert!(bytes > 64 << 10, "{bytes} bytes are no more than two segments");
    nodes.node(slow).hold_disk(false);
    nodes.pass(60);
    nodes.all.values().for_each(|node| assert_eq!(node.sum(), sum));
    nodes.restart();
    nodes.all.values().for_each(|node| assert_eq!(node.sum(), sum));
}

#[test]
fn an_entry_that_no_node_writes_is_refused() {
    let long = |message: &PeerMessage| with_records(message, &|bytes| repeat(bytes, 120));
    refuses(&[("a long entry", &long)]);
}

/// This version installs none. The process of the follower continues.
#[test]
fn a_snapshot_is_refused() {
    let install = |message: &PeerMessage| {
        let voters = [1, 2, 3].map(|id| ReplicaId::new(1, NodeId(id)));
        let members = Members::of_voters(voters.to_vec());
        let base = Base { index: Index(99), term: message.term, members };
        PeerMessage { body: Body::Install { base }, ..message.clone() }
    };
    refuses(&[("a snapshot", &install)]);
}

/// Raft would accept them, and the log refuse to write them, or the machines to replay them.
#[test]
fn records_that_no_leader_has_are_refused() {
    let changed = |change: fn(&mut Vec<u8>)| move |it: &PeerMessage| with_records(it, &change);
    let before = changed(|bytes| set_base_offset(&mut bytes[PARTITION_BYTES..], 0));
    let twice = changed(|bytes| {
        repeat(bytes, 2);
        let (half, first) = (bytes.len() / 2, base_offset(bytes));
        set_base_offset(&mut bytes[half + PARTITION_BYTES..], first);
    });
    let damaged = changed(|bytes| *bytes.last_mut().unwrap() ^= 1);
    let backwards = changed(|bytes| with_header(bytes, |it| it.last_offset_delta = -1));
    let compressed = changed(|bytes| with_header(bytes, |it| it.attributes |= 1));
    let foreign = changed(|bytes| {
        let partition = bytes.first_chunk_mut().unwrap();
        *partition = (u32::from_be_bytes(*partition) + 10 * u32::from(SLOTS)).to_be_bytes();
    });
    refuses(&[
        ("an offset that the partition has", &before),
        ("the same offset twice", &twice),
        ("a wrong checksum", &damaged),
        ("an end before the beginning", &backwards),
        ("compressed records", &compressed),
        ("a partition of the slot that only the leader has", &foreign),
    ]);
}

fn with_header(bytes: &mut [u8], change: fn(&mut BatchHeader)) {
    let batch = &mut bytes[PARTITION_BYTES..];
    let mut header = BatchHeader::read(batch).unwrap();
    change(&mut header);
    header.write(batch);
    validate(batch).unwrap();
}

/// The leader cannot read what a follower needs. It tries again from time to time.
#[test]
fn a_read_that_fails_is_not_repeated_at_once() {
    let mut nodes = Nodes::new();
    let (leader, follower) = (nodes.leader(), nodes.followers()[0]);
    nodes.cut.insert(follower);
    for client in 0..30 {
        assert!(nodes.node(leader).add(client, 40));
        nodes.pass(1);
    }
    nodes.cut.clear();
    let node = nodes.node(leader);
    (node.fails_reads, node.reads) = (true, 0);
    nodes.pass(30);
    let reads = nodes.node(leader).reads;
    assert!((1..=6).contains(&reads), "{reads} reads");
    nodes.node(leader).fails_reads = false;
    nodes.pass(60);
    let leader = nodes.leader();
    let sum = nodes.node(leader).sum();
    assert_eq!(sum, 1_200);
    nodes.all.values().for_each(|node| assert_eq!(node.sum(), sum));
}

/// A follower has lost what it once acknowledged. Its node starts again with its other groups, and
/// with the vote of this one.
#[test]
fn a_quarantined_replica_keeps_its_vote_and_stops_no_other() {
    let (mut nodes, leader, follower, message) = offer();
    let last = nodes.node(leader).runtime.log().last_entry(SLOT.group()).index;
    let body = Body::Heartbeat { commit: Index(last + 9), round: None };
    let said = nodes.say(leader, follower, PeerMessage { body, ..message.clone() });
    assert!(matches!(said, Err(Lie::Quarantined(_))), "{said:?}");
    nodes.pass(5);
    nodes.restart();
    let (term, _) = nodes.node(follower).votes[&SLOT.group()];
    assert_eq!(term, message.term.0, "the term in which the replica stopped");
    let replication = nodes.node(follower).runtime.replication().unwrap();
    assert_eq!(replication.groups[&message.group].role, Role::Quarantined);
    let others = replication.groups.values().filter(|it| it.role != Role::Quarantined);
    assert_eq!(others.count(), usize::from(SLOTS));
    let leader = nodes.leader();
    assert_ne!(leader, follower);
    assert!(nodes.node(leader).add(3, 2));
    nodes.pass(3);
    assert_eq!(nodes.node(leader).answered, [3]);
}

/// It is dropped because of its term. Its records need not fit those of the next leader.
#[test]
fn a_late_append_of_an_older_leader_is_no_lie() {
    let mut nodes = Nodes::new();
    let (old, follower) = (nodes.leader(), nodes.followers()[0]);
    nodes.cut.insert(old);
    let [mut late, second, third] = [(); 3].map(|()| nodes.offered(old, follower));
    for message in [second, third] {
        let Body::Append { entries: later, .. } = message.body else { unreachable!("an append") };
        let Body::Append { entries, .. } = &mut late.body else { unreachable!("an append") };
        entries.extend(later);
    }
    nodes.pass_without(Some(old), 60);
    let new = nodes.leader();
    for client in 0..4 {
        assert!(nodes.node(new).add(client, 2));
    }
    nodes.pass_without(Some(old), 10);
    assert_eq!(nodes.node(follower).sum(), 8);
    nodes.say(old, follower, late).unwrap();
    nodes.cut.clear();
    nodes.pass(60);
    nodes.all.values().for_each(|node| assert_eq!(node.sum(), 8));
}
