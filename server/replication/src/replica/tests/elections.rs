//! When a replica stands for election, and when it does not.

use super::*;
use crate::heard::Heard;

#[test]
fn the_rank_is_the_timeout_again_after_each_call() {
    let mut bench = Bench::new();
    for term in 3..40 {
        bench.hear(3, Term(term), vote(false, (12, 2)));
        assert_eq!(bench.replica.raft.raft.randomized_election_timeout(), 20);
        bench.flush();
    }
}

#[test]
fn without_news_of_the_leader_it_waits_for_its_timeout() {
    let mut bench = Bench::follower();
    bench.tick(19);
    assert_eq!(bench.out.roles, []);
    bench.tick(1);
    assert_eq!(bench.out.roles, [(GROUP, Role::Candidate)]);
}

#[test]
fn if_the_leaders_process_is_gone_it_stands_at_once_and_again() {
    let mut bench = Bench::follower();
    bench.gone.insert(NodeId(3));
    bench.tick(2);
    assert_eq!(bench.out.roles, [], "the leader is on node 2");
    bench.gone.insert(NodeId(2));
    for _ in 0..3 {
        bench.tick(1);
        assert_eq!(bench.replica.role(), Role::Candidate);
        assert!(matches!(bench.sent_to(3)[..], [Body::Vote { pre: true, .. }]));
    }
    // The process lives, and leads.
    bench.gone.clear();
    bench.hear(2, TERM, Body::Heartbeat { commit: LAST, round: None });
    bench.tick(19);
    assert_eq!(bench.replica.role(), Role::Follower { leader: Some(replica(2)) });
}

/// raft would look for entries before the base if the replica stood for election (E).
#[test]
fn a_replica_that_installs_a_snapshot_does_not_stand() {
    let mut bench = Bench::follower();
    let installed = base(50, 2, &[1, 2, 3]);
    bench.hear(2, TERM, Body::Install { base: installed.clone() });
    assert_eq!(bench.out.log, [(GROUP, Record::Installed(installed))]);
    let stays = |bench: &mut Bench| {
        bench.tick(100);
        bench.hear(2, TERM, Body::StandNow);
        assert_eq!(bench.replica.role(), Role::Follower { leader: Some(replica(2)) });
    };
    stays(&mut bench);
    assert_eq!(bench.sent_to(2), []);
    bench.flush();
    assert_eq!(bench.sent_to(2), [Body::Appended { last: Index(50) }]);
    stays(&mut bench);
    // The machines have loaded the snapshot.
    bench.call(|replica, turn| replica.applied(Index(50), turn));
    bench.tick(20);
    assert_eq!(bench.replica.role(), Role::Candidate);
}

/// Its vote could not be recovered.
#[test]
fn a_replica_does_not_stand_in_a_term_that_is_out_of_range() {
    let last = Term(Term::LIMIT.0 - 1);
    for (term, stands) in [(Term(last.0 - 1), true), (last, false)] {
        let mut bench = Bench::of(RecoveredGroup { term, ..recovered() });
        bench.hear(2, term, Body::StandNow);
        assert_eq!(bench.replica.role() == Role::Candidate, stands);
        bench.tick(100);
        assert_eq!(bench.replica.role() == Role::Candidate, stands);
        let votes = bench.out.log.iter().filter_map(|(_, record)| match record {
            Record::Vote(term, _) => Some(*term),
            _ => None,
        });
        assert!(votes.into_iter().all(|it| it < Term::LIMIT));
        assert!(bench.sent_to(2).iter().all(|it| !matches!(it, Body::Vote { .. }) || stands));
    }
}

#[test]
fn a_born_replica_waits_for_a_snapshot() {
    let mut bench = Bench::born();
    assert_eq!(bench.out.log, [(GROUP, Record::Born(replica(ME)))]);
    bench.tick(100);
    assert_eq!(bench.replica.role(), Role::Follower { leader: None });
    // Group 0 has placed node 2's replica, so it is known here. The log will begin at a snapshot.
    bench.hear(2, TERM, append((12, 2), 12, &[entry(13, 2)]));
    let rejected = Body::Rejected { at: Index(12), hint: (Index(0), Term(0)) };
    assert_eq!(bench.sent_to(2), [rejected]);
    bench.hear(2, TERM, Body::Install { base: base(12, 2, &[1, 2, 3]) });
    bench.hear(2, TERM, append((12, 2), 12, &[entry(13, 2)]));
    assert_eq!(bench.sent_to(2), []);
    bench.flush();
    let appended = [12, 13].map(|it| Body::Appended { last: Index(it) });
    assert_eq!(bench.sent_to(2), appended);
}

#[test]
fn recovery_refuses_a_group_that_cannot_be() {
    let refused = |change: fn(&mut RecoveredGroup)| {
        let mut group = recovered();
        change(&mut group);
        let mut out = Output::default();
        let mut turn = Turn { open: BlockNumber(1), heard: &Heard::default(), out: &mut out };
        Replica::recovered(50, group, &mut turn).map(|_| ())
    };
    assert_eq!(refused(|_| ()), Ok(()));
    assert_eq!(refused(|it| it.commit = Index(13)), Err(Refused::Commit));
    assert_eq!(refused(|it| it.commit = Index(0)), Err(Refused::Commit));
    assert_eq!(refused(|it| it.term = Term(1)), Err(Refused::Term));
    assert_eq!(refused(|it| it.term = Term::LIMIT), Err(Refused::Term));
    let hole = |it: &mut RecoveredGroup| it.tail.retain(|it| it.index != Index(5));
    assert_eq!(refused(hole), Err(Refused::Hole));
    assert_eq!(refused(|it| it.base.members = voters(&[ME])), Err(Refused::Members));
    assert_eq!(refused(|it| it.base.members = voters(&[2, 3])), Err(Refused::Members));
}

/// Its log is damaged: it may lack entries, and the record of the quarantine may lack its term.
#[test]
fn a_quarantined_replica_is_recovered_whatever_its_log_has() {
    let damages: [fn(&mut RecoveredGroup); 5] = [
        |_| (),
        |it| it.commit = Index(13),
        |it| (it.term, it.vote) = (Term(0), None),
        |it| it.tail.retain(|it| it.index != Index(5)),
        |it| it.base.members = Members::default(),
    ];
    for damage in damages {
        let mut group = RecoveredGroup { is_quarantined: true, ..recovered() };
        damage(&mut group);
        let mut bench = Bench::of(group);
        assert!(bench.replica.is_quarantined());
        assert_eq!(bench.out.roles, [(GROUP, Role::Quarantined)]);
        bench.replica.connected(NodeId(2), true);
        bench.hear(2, TERM, append((12, 2), 12, &[]));
        bench.tick(100);
        bench.flush();
        assert_eq!((bench.sent_to(2), bench.sent_to(3)), (vec![], vec![]));
        assert!(bench.out.log.is_empty());
    }
}

/// Committed changes after the base are applied again.
#[test]
fn recovery_applies_changes() {
    let learner = replica(4);
    let mut group = recovered();
    group.tail[1].kind = Kind::Change(Change::AddLearner(learner));
    let mut bench = Bench::of(group);
    let members = Members { learners: vec![learner], ..voters(&[1, 2, 3]) };
    assert_eq!(bench.out.members, [(GROUP, Index(3), members)]);
    // raft knows that the machines have what is committed: otherwise it would not stand.
    bench.tick(20);
    assert_eq!(bench.replica.role(), Role::Candidate);
}
