//! The messages that wait for a flush, and those that do not.

use super::*;

/// Injected fault 1: a leader counts its own copy of an entry before it is durable.
#[test]
fn a_leader_counts_itself_when_its_block_is_durable() {
    let mut bench = Bench::leader();
    let index = bench.propose();
    assert!(matches!(bench.sent_to(2)[..], [Body::Append { .. }]), "it leaves before the flush");
    bench.hear(2, Term(3), Body::Appended { last: index });
    let acknowledged = [2, 3, 4].map(|it| bench.replica.acknowledged(replica(it)));
    assert_eq!(acknowledged, [Some(index), Some(LAST.next()), None]);
    assert_eq!(bench.out.committed, []);
    bench.flush();
    assert_eq!(bench.out.committed, [(GROUP, index)]);
}

#[test]
fn a_quorum_of_others_commits_before_the_leaders_flush() {
    let mut bench = Bench::leader();
    let index = bench.propose();
    bench.hear(2, Term(3), Body::Appended { last: index });
    bench.hear(3, Term(3), Body::Appended { last: index });
    assert_eq!(bench.out.committed, [(GROUP, index)]);
    // raft would panic if it heard of an applied entry that is not durable here (C).
    bench.call(|replica, turn| replica.applied(index, turn));
    assert!(bench.replica.raft.raft.raft_log.applied < index.0);
    bench.flush();
    assert_eq!(bench.replica.raft.raft.raft_log.applied, index.0);
}

/// Otherwise a leader would take the acknowledgement for contact with a follower that has meanwhile
/// granted its vote to another.
#[test]
fn what_waits_for_a_flush_echoes_the_tick_of_its_making() {
    let mut bench = Bench::follower();
    bench.heard.add(NodeId(2), (0, 1), Tick(7));
    bench.hear(2, TERM, append((12, 2), 12, &[entry(13, 2)]));
    bench.heard.add(NodeId(2), (0, 1), Tick(90));
    bench.flush();
    let echoes: Vec<Tick> = bench.out.send.iter().map(|(_, it)| it.echo).collect();
    assert_eq!(echoes, [Tick(7)]);
    bench.hear(2, TERM, Body::Heartbeat { commit: LAST, round: None });
    assert_eq!(bench.out.send[1].1.echo, Tick(90));
}

/// Injected fault 2: an acknowledgement leaves before the flush.
#[test]
fn an_acknowledgement_waits_for_the_block_of_its_entries() {
    let mut bench = Bench::follower();
    bench.hear(2, TERM, append((12, 2), 12, &[entry(13, 2)]));
    assert_eq!(bench.out.log, [(GROUP, Record::Entry(entry(13, 2)))]);
    let first = bench.seal();
    bench.hear(2, TERM, append((13, 2), 12, &[entry(14, 2)]));
    // An append without entries is acknowledged with the block of the entries before it.
    bench.hear(2, TERM, append((14, 2), 13, &[]));
    let second = bench.seal();
    assert_eq!(bench.sent_to(2), []);
    bench.durable(first);
    assert_eq!(bench.sent_to(2), [Body::Appended { last: Index(13) }]);
    bench.durable(second);
    let last = Body::Appended { last: Index(14) };
    assert_eq!(bench.sent_to(2), [last.clone(), last.clone()]);
    // Nothing is left to wait for.
    bench.hear(2, TERM, append((14, 2), 14, &[]));
    assert_eq!(bench.sent_to(2), [last]);
}

/// A process was killed while its last block was being written, and the next one reads the block
/// from the page cache.
#[test]
fn nothing_is_acknowledged_before_what_was_recovered_is_durable() {
    let mut group = recovered();
    (group.term, group.vote) = (Term(3), Some(replica(3)));
    let mut bench = Bench::unsynced(group);
    bench.hear(3, Term(3), vote(false, (12, 2)));
    bench.hear(3, Term(3), append((12, 2), 12, &[]));
    bench.hear(3, Term(3), append((13, 3), 12, &[]));
    let rejected = bench.sent_to(3);
    assert!(matches!(rejected[..], [Body::Rejected { .. }]), "{rejected:?}");
    assert_eq!(bench.out.log, []);
    bench.durable(BlockNumber::RECOVERED);
    assert_eq!(bench.sent_to(3), [granted(false), Body::Appended { last: LAST }]);
}

/// Injected fault 3: a vote is not durable.
#[test]
fn a_vote_waits_until_it_is_durable() {
    let mut bench = Bench::new();
    bench.hear(3, Term(3), vote(false, (12, 2)));
    assert_eq!(bench.out.log, [(GROUP, Record::Vote(Term(3), Some(replica(3))))]);
    assert_eq!(bench.sent_to(3), []);
    bench.flush();
    assert_eq!(bench.sent_to(3), [granted(false)]);
}

/// Injected fault 4: a term is not durable.
#[test]
fn a_later_term_is_durable_before_it_is_acknowledged() {
    let mut bench = Bench::follower();
    bench.hear(3, Term(3), append((12, 2), 12, &[]));
    assert_eq!(bench.out.log, [(GROUP, Record::Vote(Term(3), None))]);
    assert_eq!(bench.sent_to(3), []);
    bench.flush();
    assert_eq!(bench.sent_to(3), [Body::Appended { last: LAST }]);
}

#[test]
fn a_candidate_asks_when_its_own_vote_is_durable() {
    let mut bench = Bench::new();
    bench.tick(20);
    let is_vote =
        |pre: bool, bodies: &[Body]| matches!(bodies, [Body::Vote { pre: it, .. }] if *it == pre);
    assert!(is_vote(true, &bench.sent_to(3)), "a pre-vote does not wait");
    bench.hear(3, Term(3), granted(true));
    assert_eq!(bench.out.log, [(GROUP, Record::Vote(Term(3), Some(replica(ME))))]);
    assert_eq!(bench.sent_to(3), []);
    bench.flush();
    assert!(is_vote(false, &bench.sent_to(3)));
}

/// Otherwise two followers whose disks hang would depose a healthy leader.
#[test]
fn heartbeats_and_refusals_are_answered_before_the_flush() {
    let mut bench = Bench::follower();
    bench.hear(2, TERM, append((12, 2), 12, &[entry(13, 2)]));
    let round = Some(Round(5));
    bench.hear(2, TERM, Body::Heartbeat { commit: LAST, round });
    bench.hear(2, TERM, append((20, 2), 12, &[]));
    bench.hear(3, TERM, vote(false, (11, 2)));
    assert_eq!(
        bench.sent_to(2),
        [Body::Heard { round }, Body::Rejected { at: Index(20), hint: (Index(13), TERM) }]
    );
    let refusal = Body::Voted { pre: false, granted: false, commit: (LAST, TERM) };
    assert_eq!(bench.sent_to(3), [refusal]);
    bench.flush();
    assert_eq!(bench.sent_to(2), [Body::Appended { last: Index(13) }]);
}

/// raft asserts that the log of a new leader is durable, so it hears of the flush first (A).
#[test]
fn a_vote_may_be_won_as_soon_as_the_request_has_left() {
    let mut bench = Bench::follower();
    bench.hear(2, TERM, append((12, 2), 12, &[entry(13, 2)]));
    bench.hear(2, TERM, Body::StandNow);
    assert_eq!(bench.sent_to(3), []);
    bench.flush();
    assert!(matches!(bench.sent_to(3)[..], [Body::Vote { transfer: true, .. }]));
    bench.hear(3, Term(3), granted(false));
    assert_eq!(bench.replica.role(), Role::Leader { term: Term(3), ready: false });
}

/// An entry replaces two others. The log has all three in the order in which they arrived. The
/// index of the last one shows that the first two are void.
#[test]
fn another_leader_replaces_entries() {
    let mut bench = Bench::follower();
    bench.hear(2, TERM, append((12, 2), 12, &[entry(13, 2), entry(14, 2)]));
    bench.hear(3, Term(3), append((12, 2), 12, &[entry(13, 3)]));
    let entry_of = |(_, record): &(Group, Record)| match record {
        Record::Entry(entry) => Some(entry.clone()),
        _ => None,
    };
    let appended: Vec<Entry> = bench.out.log.iter().filter_map(entry_of).collect();
    assert_eq!(appended, [entry(13, 2), entry(14, 2), entry(13, 3)]);
    bench.flush();
    assert_eq!(bench.sent_to(3), [Body::Appended { last: Index(13) }]);
    bench.hear(3, Term(3), Body::Heartbeat { commit: Index(13), round: None });
    assert_eq!(bench.out.committed, [(GROUP, Index(13))]);
}

/// Entry 14 is replaced, and then comes back in a later block. After the flush of the first block,
/// raft takes it to be durable (`raft_log.rs:513`). The acknowledgement in the new term still waits
/// for the later block.
#[test]
fn entries_that_come_back_are_acknowledged_with_their_own_block() {
    let mut bench = Bench::follower();
    bench.hear(2, TERM, append((12, 2), 12, &[entry(13, 2), entry(14, 2)]));
    let first = bench.seal();
    bench.hear(3, Term(3), append((12, 2), 12, &[entry(13, 3)]));
    bench.hear(2, Term(4), append((12, 2), 12, &[entry(13, 2), entry(14, 2), entry(15, 4)]));
    let second = bench.seal();
    bench.durable(first);
    assert_eq!(bench.sent_to(2), [Body::Appended { last: Index(14) }], "of term 2");
    bench.durable(second);
    assert_eq!(bench.sent_to(2), [Body::Appended { last: Index(15) }]);
}

#[test]
fn a_replica_is_quarantined_if_it_has_lost_committed_entries() {
    let mut bench = Bench::follower();
    bench.hear(2, TERM, append((12, 2), 12, &[entry(13, 2)]));
    let lie = bench.step(message(2, TERM, Body::Heartbeat { commit: Index(20), round: None }));
    assert_eq!(lie, Err(Lie::Quarantined("entries that are committed are missing")));
    assert_eq!(bench.out.roles.last(), Some(&(GROUP, Role::Quarantined)));
    // It does nothing more, and acknowledges nothing.
    bench.flush();
    bench.tick(100);
    bench.hear(2, TERM, append((12, 2), 12, &[]));
    assert_eq!((bench.sent_to(2), bench.sent_to(3)), (vec![], vec![]));
}
