//! The calls that only a leader answers.

use super::*;

#[test]
fn a_leader_is_ready_when_its_first_entry_is_committed() {
    let mut bench = Bench::new();
    bench.win();
    assert!(bench.call(|replica, turn| replica.confirm(turn)).is_none());
    let refused = bench.call(|replica, turn| replica.change(Change::Leave, turn));
    assert_eq!(refused, Err(NotNow::NotLeader));
    bench.hear(2, Term(3), Body::Appended { last: Index(13) });
    bench.hear(3, Term(3), Body::Appended { last: Index(13) });
    assert_eq!(bench.replica.role(), Role::Leader { term: Term(3), ready: true });
    assert!(bench.call(|replica, turn| replica.confirm(turn)).is_some());
}

/// A round ends in one of three ways. The first: a quorum answers.
#[test]
fn a_round_is_confirmed_by_a_quorum() {
    let mut bench = Bench::leader();
    let first = bench.call(|replica, turn| replica.confirm(turn)).unwrap();
    let second = bench.call(|replica, turn| replica.confirm(turn)).unwrap();
    let beat = |round| Body::Heartbeat { commit: Index(13), round: Some(round) };
    assert_eq!(bench.sent_to(2), [beat(first), beat(second)]);
    bench.hear(2, Term(3), Body::Heard { round: Some(second) });
    assert_eq!(bench.out.confirmed, [(GROUP, first), (GROUP, second)]);
    bench.tick(60);
    assert_eq!(bench.out.failed, []);
}

/// The second: the time is over. The third: the leader is deposed.
#[test]
fn a_round_fails_after_an_election_timeout_or_with_the_leader() {
    let mut bench = Bench::leader();
    let late = bench.call(|replica, turn| replica.confirm(turn)).unwrap();
    bench.tick(19);
    bench.hear(2, Term(3), Body::Heard { round: None });
    let deposed = bench.call(|replica, turn| replica.confirm(turn)).unwrap();
    assert_eq!(bench.out.failed, []);
    bench.tick(1);
    assert_eq!(bench.out.failed, [(GROUP, late)]);
    bench.hear(2, Term(4), append((13, 3), 13, &[]));
    assert_eq!(bench.out.failed, [(GROUP, late), (GROUP, deposed)]);
    assert_eq!(bench.out.confirmed, []);
}

/// The caller undoes the entries that the leader had applied and that were not committed.
#[test]
fn a_deposed_leader_reports_its_role() {
    let mut bench = Bench::leader();
    let index = bench.propose();
    bench.call(|replica, turn| replica.applied(index, turn));
    bench.hear(2, Term(4), append((13, 3), 13, &[entry(14, 4)]));
    let role = Role::Follower { leader: Some(replica(2)) };
    assert_eq!(bench.out.roles, [(GROUP, role)]);
    assert!(!bench.replica.is_open());
    // Its machines have not applied the entry that has taken the place of theirs.
    bench.hear(2, Term(4), Body::Heartbeat { commit: Index(14), round: None });
    bench.flush();
    assert_eq!(bench.replica.raft.raft.raft_log.applied, 13);
    bench.call(|replica, turn| replica.applied(Index(14), turn));
    assert_eq!(bench.replica.raft.raft.raft_log.applied, 14);
}

#[test]
fn a_leader_without_a_quorum_steps_down() {
    let mut bench = Bench::leader();
    bench.tick(40);
    assert_eq!(bench.out.roles, [(GROUP, Role::Follower { leader: None })]);
}

#[test]
fn a_transfer_names_a_voter_that_is_in_step() {
    let mut bench = Bench::leader();
    let transfer =
        |bench: &mut Bench, to: u16| bench.call(|replica, turn| replica.transfer(NodeId(to), turn));
    assert_eq!(transfer(&mut bench, 4), Err(NotNow::Behind), "it is no voter");
    assert_eq!(transfer(&mut bench, ME), Err(NotNow::Behind), "it leads already");
    let index = bench.propose();
    bench.hear(2, Term(3), Body::Appended { last: index });
    assert_eq!(transfer(&mut bench, 3), Err(NotNow::Behind), "it lacks an entry");
    bench.out = Output::default();
    assert_eq!(transfer(&mut bench, 2), Ok(()));
    assert_eq!(bench.sent_to(2), [Body::StandNow]);
    // raft would drop proposals.
    assert!(!bench.replica.is_open());
    assert_eq!(transfer(&mut bench, 3), Err(NotNow::Transfer));
}

/// A leader that is cut off, and begins one transfer after the other, would never step down.
#[test]
fn the_next_transfer_waits_for_a_confirmed_round() {
    let mut bench = Bench::leader();
    let transfer =
        |bench: &mut Bench| bench.call(|replica, turn| replica.transfer(NodeId(2), turn));
    let early = bench.call(|replica, turn| replica.confirm(turn)).unwrap();
    assert_eq!(transfer(&mut bench), Ok(()));
    // The transfer does not succeed, and raft gives up.
    bench.tick(19);
    bench.hear(2, Term(3), Body::Heard { round: None });
    bench.hear(3, Term(3), Body::Heard { round: Some(early) });
    bench.tick(1);
    assert!(bench.replica.is_open());
    assert_eq!(transfer(&mut bench), Err(NotNow::Transfer), "the round began before it");
    let round = bench.call(|replica, turn| replica.confirm(turn));
    bench.hear(2, Term(3), Body::Heard { round });
    assert_eq!(transfer(&mut bench), Ok(()));
}

#[test]
fn one_change_of_members_is_in_progress() {
    let mut bench = Bench::leader();
    let change =
        |bench: &mut Bench, change| bench.call(|replica, turn| replica.change(change, turn));
    let (old, new) = (replica(3), ReplicaId::new(2, NodeId(4)));
    for refused in [
        Change::AddLearner(old),
        Change::RemoveLearner(new),
        Change::Replace { old, new },
        Change::Leave,
    ] {
        assert_eq!(change(&mut bench, refused), Err(NotNow::Members), "{refused:?}");
    }
    let add = Change::AddLearner(new);
    assert_eq!(change(&mut bench, add), Ok(Index(14)));
    let added = Entry { index: Index(14), term: Term(3), content: Content::Change(add) };
    assert_eq!(bench.out.log, [(GROUP, Record::Entry(added))]);
    // A change is pending until it is applied. If the leader's disk hangs, none can be made.
    bench.hear(2, Term(3), Body::Appended { last: Index(14) });
    bench.hear(3, Term(3), Body::Appended { last: Index(14) });
    let cancel = Change::RemoveLearner(new);
    assert_eq!(change(&mut bench, cancel), Err(NotNow::Change));
    bench.flush();
    bench.call(|replica, turn| replica.applied(Index(14), turn));
    let members = Members { learners: vec![new], ..voters(&[1, 2, 3]) };
    assert_eq!(bench.out.members, [(GROUP, Index(14), members)]);
    assert_eq!(change(&mut bench, cancel), Ok(Index(15)));
}

/// raft would panic if a leader that is no member got an acknowledgement (D).
#[test]
fn a_leader_that_is_removed_is_gone() {
    let mut bench = Bench::leader();
    let new = ReplicaId::new(2, NodeId(4));
    for change in
        [Change::AddLearner(new), Change::Replace { old: replica(ME), new }, Change::Leave]
    {
        let index = bench.call(|replica, turn| replica.change(change, turn)).unwrap();
        for from in [replica(2), replica(3), new] {
            let message =
                PeerMessage { from, ..message(2, Term(3), Body::Appended { last: index }) };
            bench.step(message).unwrap();
        }
        bench.flush();
        bench.call(|replica, turn| replica.applied(index, turn));
    }
    assert_eq!(bench.out.gone, [GROUP]);
    assert_eq!(bench.out.roles, [(GROUP, Role::Follower { leader: None })], "it leads no more");
    assert!(bench.replica.is_gone());
    bench.out = Output::default();
    bench.hear(2, Term(3), Body::Appended { last: Index(16) });
    bench.tick(100);
    bench.flush();
    assert_eq!((bench.sent_to(2), bench.out.roles.len()), (vec![], 0));
}
