//! News of other nodes, old entries, and snapshots.

use super::*;

fn node_3() -> ReplicaId {
    replica(3)
}

/// Node 3 has acknowledged an entry, and its new process has lost it.
#[test]
fn a_new_process_acknowledges_again() {
    let mut bench = Bench::leader();
    let index = bench.propose();
    bench.hear(3, Term(3), Body::Appended { last: index });
    bench.replica.connected(NodeId(3), true);
    bench.flush();
    assert_eq!(bench.out.committed, [], "only this replica has the entry");
    bench.sent_to(3);
    // The leader asks whether node 3 has the last entry, and sends it again.
    bench.hear(3, Term(3), Body::Heard { round: None });
    assert_eq!(bench.sent_to(3), [append((14, 3), 13, &[])]);
    bench.hear(3, Term(3), Body::Rejected { at: Index(14), hint: (Index(13), Term(3)) });
    let again = Entry { term: Term(3), ..entry(14, 3) };
    assert_eq!(bench.sent_to(3), [append((13, 3), 13, &[again])]);
    bench.hear(3, Term(3), Body::Appended { last: index });
    assert_eq!(bench.out.committed, [(GROUP, index)]);
}

/// Node 2 was down when the leader was elected. The leader probes its log from the last entry on.
#[test]
fn a_node_that_connects_after_the_election_needs_no_snapshot() {
    let mut bench = Bench::new();
    bench.win();
    bench.flush();
    bench.sent_to(2);
    bench.replica.connected(NodeId(2), true);
    bench.hear(2, Term(3), Body::Heard { round: None });
    let first = Entry { index: LAST.next(), term: Term(3), content: Content::Empty };
    assert_eq!(bench.sent_to(2), [append((LAST.0, TERM.0), LAST.0, &[first])]);
    assert_eq!(bench.out.restore, []);
}

/// Otherwise old messages that arrive late would keep a cut-off leader in its role.
#[test]
fn a_message_that_is_not_fresh_is_no_contact() {
    let steps_down = |fresh: bool| {
        let mut bench = Bench::leader();
        for _ in 0..10 {
            bench.tick(10);
            for node in [2, 3] {
                let heard = message(node, Term(3), Body::Heard { round: None });
                bench.call(|replica, turn| replica.step(heard, fresh, turn)).unwrap();
            }
        }
        bench.replica.role().leads().is_none()
    };
    assert!(steps_down(false));
    assert!(!steps_down(true));
}

/// A leader whose entries up to [`LAST`] are not in memory, and followers that lack them.
fn lagging() -> Bench {
    let mut bench = Bench::leader();
    for node in [2, 3] {
        bench.call(|replica, turn| replica.lost(NodeId(node), turn));
    }
    bench.replica.raft.mut_store().evict(LAST);
    for node in [2, 3] {
        bench.replica.connected(NodeId(node), true);
    }
    bench.out = Output::default();
    bench
}

#[test]
fn old_entries_are_read_once_for_all_followers() {
    let mut bench = lagging();
    for node in [2, 3] {
        bench.hear(node, Term(3), Body::Heard { round: None });
        bench.hear(node, Term(3), Body::Rejected { at: Index(13), hint: (Index(5), TERM) });
        bench.hear(node, Term(3), Body::Heard { round: None });
    }
    assert_eq!(bench.out.fetch, [(GROUP, Index(6)..=LAST)]);
    bench.out = Output::default();
    let entries: Vec<Entry> = (6..=12).map(|it| entry(it, 2)).collect();
    bench.call(|replica, turn| replica.fetched(Index(6), entries.clone(), turn));
    for node in [2, 3] {
        assert_eq!(bench.sent_to(node), [append((5, 2), 13, &entries)]);
    }
    // The newest ones are in memory.
    bench.hear(2, Term(3), Body::Appended { last: LAST });
    assert!(matches!(&bench.sent_to(2)[..], [Body::Append { entries, .. }] if entries.len() == 1));
    assert_eq!(bench.out.fetch, []);
}

/// It would be asked for again at once, for as long as the disk cannot read the entry.
#[test]
fn a_read_without_entries_is_repeated_after_an_election_timeout() {
    let mut bench = lagging();
    let hear_both = |bench: &mut Bench| {
        for node in [2, 3] {
            bench.hear(node, Term(3), Body::Heard { round: None });
        }
    };
    hear_both(&mut bench);
    bench.hear(2, Term(3), Body::Rejected { at: Index(13), hint: (Index(5), TERM) });
    for fails in [false, true, false] {
        hear_both(&mut bench);
        assert_eq!(bench.out.fetch, [(GROUP, Index(6)..=LAST)]);
        bench.out = Output::default();
        if fails {
            bench.replica.fetch_failed(Index(6));
        } else {
            bench.call(|replica, turn| replica.fetched(Index(6), vec![], turn));
        }
        for _ in 0..20 {
            hear_both(&mut bench);
            assert_eq!(bench.out.fetch, []);
            bench.tick(1);
        }
    }
}

/// A leader whose log begins at 12, and the follower of node 3 that is before it.
fn distant() -> Bench {
    let mut bench = Bench::leader();
    bench.replica.connected(NodeId(3), true);
    bench.replica.compacted(base(12, 2, &[1, 2, 3]));
    bench.hear(3, Term(3), Body::Heard { round: None });
    bench.out = Output::default();
    bench.hear(3, Term(3), Body::Rejected { at: Index(13), hint: (Index(5), TERM) });
    assert_eq!(bench.out.restore, [(GROUP, replica(3))]);
    bench
}

#[test]
fn a_distant_follower_gets_a_snapshot_when_it_has_it() {
    let mut bench = distant();
    for _ in 0..3 {
        bench.hear(3, Term(3), Body::Heard { round: None });
    }
    assert_eq!(bench.out.restore.len(), 1, "it is asked for once");
    assert_eq!(bench.sent_to(3), []);
    let row = base(12, 2, &[1, 2, 3]);
    bench.call(|replica, turn| replica.offer(node_3(), row.clone(), turn));
    assert_eq!(bench.sent_to(3), [Body::Install { base: row }]);
    bench.hear(3, Term(3), Body::Appended { last: LAST });
    assert!(matches!(bench.sent_to(3)[..], [Body::Append { previous: (LAST, TERM), .. }]));
}

/// The caller could not send the snapshot, or the receiver has lost it on the way.
#[test]
fn a_snapshot_is_asked_for_again_after_a_new_connection() {
    for is_new_process in [false, true] {
        let mut bench = distant();
        bench.replica.connected(NodeId(3), is_new_process);
        bench.out = Output::default();
        bench.hear(3, Term(3), Body::Heard { round: None });
        if is_new_process {
            bench.hear(3, Term(3), Body::Rejected { at: LAST, hint: (Index(5), TERM) });
        }
        assert_eq!(bench.out.restore, [(GROUP, replica(3))], "{is_new_process}");
    }
}

/// A leader that has sent the message that installs a snapshot.
fn installing() -> Bench {
    let mut bench = distant();
    let row = base(12, 2, &[1, 2, 3]);
    bench.call(|replica, turn| replica.offer(node_3(), row, turn));
    bench.out = Output::default();
    bench.hear(3, Term(3), Body::Heard { round: None });
    bench
}

/// Without the answer raft would wait for ever, and nothing would report that it was lost.
#[test]
fn the_answer_to_an_install_may_be_lost() {
    let mut bench = installing();
    let sent = bench.sent_to(3);
    assert!(matches!(sent[..], [Body::Append { previous: (LAST, TERM), .. }]), "{sent:?}");
    bench.hear(3, Term(3), Body::Appended { last: LAST.next() });
    assert_eq!(bench.replica.acknowledged(replica(3)), Some(LAST.next()));
}

#[test]
fn a_snapshot_that_is_lost_is_asked_for_again() {
    let mut bench = installing();
    bench.hear(3, Term(3), Body::Rejected { at: LAST, hint: (Index(5), TERM) });
    assert_eq!(bench.out.restore, [(GROUP, replica(3))]);
}

#[test]
fn messages_to_an_older_replica_of_the_node_are_dropped() {
    let mut bench = Bench::follower();
    let to = ReplicaId::new(7, NodeId(ME));
    let nonsense = PeerMessage { to, ..message(9, TERM, Body::StandNow) };
    assert_eq!(bench.step(nonsense), Ok(()));
    assert_eq!(bench.out.roles, []);
}
