//! The messages that a replica refuses. Each is also given to raft without the validation, to show
//! whether raft would panic.
//!
//! The cases of `PeerMessage` come first. The others have messages that it cannot express: raft's
//! own struct has fields and kinds that `PeerMessage` lacks.

mod random;

use super::*;
use crate::Change;
use crate::replica::tests::{
    Bench, GROUP, LAST, TERM, append, base, entry, granted, message, replica, vote,
};
use raft::eraftpb::{ConfState, Entry as RaftEntry, Message, MessageType, Snapshot};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The effect of a message that raft steps without the validation.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bare {
    Panics,
    Accepted,
}
use Bare::{Accepted, Panics};

/// A case: its name, the receiver, the message, the effect without the validation, and the verdict.
type Case = (&'static str, fn() -> Bench, PeerMessage, Bare, Lie);

/// A case that only raft's struct can express.
type RawCase = (&'static str, fn() -> Bench, Message, Bare);

/// The reason of cases whose sender is no member.
const STRANGER: &str = "";

const LEADER_TERM: Term = Term(3);
const LEADER_LAST: Index = Index(13);

fn follower_hears(from: u16, body: Body) -> PeerMessage {
    message(from, TERM, body)
}

fn leader_hears(body: Body) -> PeerMessage {
    message(2, LEADER_TERM, body)
}

fn snapshot(of: Base) -> PeerMessage {
    follower_hears(2, Body::Install { base: of })
}

fn appends() -> Vec<Case> {
    let hears = |body| follower_hears(2, body);
    let other = Lie::Quarantined("another entry is committed here");
    let case = |name, message, bare, lie| -> Case { (name, Bench::follower, message, bare, lie) };
    let peer = |name, message, bare, reason| case(name, message, bare, Lie::Peer(reason));
    let falls = "the terms of the entries fall, or exceed the message's";
    let gap = "the entries are not contiguous";
    let no_term = "an entry without a term";
    vec![
        case(
            "another previous entry below the commit",
            hears(append((11, 1), 12, &[entry(12, 2)])),
            Accepted,
            other,
        ),
        case(
            "another entry below the commit",
            hears(append((11, 2), 12, &[entry(12, 1)])),
            Accepted,
            Lie::Peer(falls),
        ),
        case(
            "another committed entry",
            hears(append((10, 1), 12, &[entry(11, 1)])),
            Accepted,
            other,
        ),
        peer("term 0 beyond the log", hears(append((21, 0), 12, &[entry(22, 2)])), Panics, no_term),
        peer("term 0 beyond the log, empty", hears(append((21, 0), 21, &[])), Panics, no_term),
        peer("a gap", hears(append((12, 2), 12, &[entry(15, 2)])), Panics, gap),
        peer("an entry with index 0", hears(append((12, 2), 12, &[entry(0, 2)])), Accepted, gap),
        peer(
            "falling terms",
            hears(append((12, 2), 12, &[entry(13, 2), entry(14, 1)])),
            Accepted,
            falls,
        ),
        peer(
            "a term above the message's",
            hears(append((12, 2), 12, &[entry(13, 9)])),
            Accepted,
            falls,
        ),
        peer(
            "a commit out of range",
            hears(append((12, 2), u64::MAX, &[])),
            Accepted,
            "the index is out of range",
        ),
    ]
}

fn members() -> Vec<Case> {
    let case = |name, message, bare, reason| -> Case {
        let lie = if reason == STRANGER { Lie::Stranger } else { Lie::Peer(reason) };
        (name, Bench::follower, message, bare, lie)
    };
    let at = |nodes: &[u16]| base(17, 2, nodes);
    let mut learner_too = at(&[1, 2]);
    learner_too.members.learners.push(replica(1));
    let mut joint = at(&[1, 2]);
    joint.members.outgoing = vec![replica(3), replica(3)];
    let mut alone = at(&[1, 2]);
    alone.members.outgoing = vec![replica(1)];
    let twice = "a snapshot has a member twice";
    let zero = base(0, 0, &[1, 2]);
    let limit = "the index is out of range";
    let beyond = base(u64::MAX, 2, &[1, 2]);
    vec![
        case("no voters", snapshot(at(&[])), Accepted, "a snapshot with fewer than two voters"),
        case("one voter", snapshot(at(&[1])), Accepted, "a snapshot with fewer than two voters"),
        case("a voter twice", snapshot(at(&[1, 1, 2])), Accepted, twice),
        case("a voter that is a learner", snapshot(learner_too), Panics, twice),
        case("an outgoing voter twice", snapshot(joint), Accepted, twice),
        case(
            "one outgoing voter",
            snapshot(alone),
            Accepted,
            "a snapshot with fewer than two voters",
        ),
        case(
            "not its receiver",
            snapshot(at(&[2, 3])),
            Accepted,
            "a snapshot without its receiver",
        ),
        case("an empty snapshot", snapshot(zero), Accepted, "an empty snapshot"),
        case("a snapshot at the end of numbers", snapshot(beyond), Panics, limit),
        case(
            "an append of no member",
            PeerMessage { term: Term(3), ..follower_hears(9, append((12, 2), 12, &[])) },
            Accepted,
            STRANGER,
        ),
        case("a vote of no member, forced", message(9, Term(3), forced(false)), Accepted, STRANGER),
        case(
            "an own message",
            message(1, Term(3), forced(false)),
            Accepted,
            "a message from this replica",
        ),
    ]
}

fn forced(pre: bool) -> Body {
    let last = (Index(50), Term(2));
    Body::Vote { pre, transfer: true, last, commit: last }
}

fn terms() -> Vec<Case> {
    let case = |name, message, bare, reason| -> Case {
        (name, Bench::follower, message, bare, Lie::Peer(reason))
    };
    let beat = Body::Heartbeat { commit: LAST, round: None };
    let second = "a second leader in the term";
    let out = "the term is out of range";
    let less = Body::Vote {
        pre: false,
        transfer: false,
        last: (Index(1), Term(1)),
        commit: (Index(50), Term(2)),
    };
    vec![
        case("a term at the limit", message(2, Term::LIMIT, beat.clone()), Accepted, out),
        case(
            "a term that no election has reached",
            message(3, Term(TERM.0 + (1 << 20) + 1), vote(true, (12, 2))),
            Accepted,
            "a term far after this replica's",
        ),
        case("term 0", message(2, Term(0), beat.clone()), Accepted, out),
        case("a heartbeat of a second leader", follower_hears(3, beat), Accepted, second),
        case("StandNow of a follower", follower_hears(3, Body::StandNow), Accepted, second),
        case(
            "StandNow of a later term",
            message(3, Term(3), Body::StandNow),
            Accepted,
            "a leader names a replica without its term",
        ),
        case(
            "a forced pre-vote",
            message(3, Term(3), forced(true)),
            Accepted,
            "a pre-vote of a transfer",
        ),
        case(
            "a candidate without what is committed",
            message(3, Term(3), less),
            Accepted,
            "a candidate has less than what is committed",
        ),
        case(
            "a candidate with an entry of a later term",
            message(3, Term(3), vote(false, (20, 4))),
            Accepted,
            "an entry has a later term than the message",
        ),
        (
            "a heartbeat with a commit after the log",
            Bench::follower,
            follower_hears(2, Body::Heartbeat { commit: Index(17), round: None }),
            Panics,
            Lie::Quarantined("entries that are committed are missing"),
        ),
    ]
}

/// One replica's lie must not stop a healthy leader.
fn to_a_leader() -> Vec<Case> {
    let case = |name, body, bare, reason| -> Case {
        (name, Bench::leader, leader_hears(body), bare, Lie::Peer(reason))
    };
    let range = "the index is out of range";
    let rejected = |at, hint| Body::Rejected { at: Index(at), hint: (Index(hint), Term(2)) };
    let acknowledged = "a rejection of what was acknowledged";
    let after = "the hint of a rejection is after the rejected entry";
    vec![
        case(
            "an acknowledgement after the log",
            Body::Appended { last: Index(113) },
            Accepted,
            "an acknowledgement of entries that were not sent",
        ),
        case(
            "an acknowledgement of all numbers",
            Body::Appended { last: Index(u64::MAX) },
            Panics,
            range,
        ),
        case("a hint of all numbers", rejected(13, u64::MAX), Accepted, range),
        case("a hint after the rejected entry", rejected(13, 14), Accepted, after),
        case(
            "a rejection after the log",
            rejected(20, 13),
            Accepted,
            "a rejection of entries that were not sent",
        ),
        case("a rejection below matched", rejected(13, 1), Accepted, acknowledged),
        case(
            "an append of its term",
            append((13, 3), 13, &[]),
            Accepted,
            "a second leader in the term",
        ),
    ]
}

/// A candidate whose own log is not durable. So it has not asked any replica for a vote yet.
fn candidate() -> Bench {
    let mut bench = Bench::follower();
    bench.hear(2, TERM, append((12, 2), 12, &[entry(13, 2)]));
    bench.hear(2, TERM, Body::StandNow);
    bench
}

fn to_a_candidate() -> Case {
    let early = message(3, LEADER_TERM, granted(false));
    (
        "a vote before it was asked for",
        candidate,
        early,
        Panics,
        Lie::Peer("a vote before it was asked for"),
    )
}

#[test]
fn what_cannot_be_true_is_refused() {
    let mut cases = [appends(), members(), terms(), to_a_leader()].concat();
    cases.push(to_a_candidate());
    for (name, receiver, message, bare, lie) in cases {
        let mut bench = receiver();
        let role = bench.replica.role();
        assert_eq!(bench.step(message.clone()), Err(lie), "{name}");
        let is_quarantined = matches!(lie, Lie::Quarantined(_));
        assert_eq!(bench.replica.role() != role, is_quarantined, "{name}");
        let raft = crate::convert::message_to_raft(message);
        assert_eq!(step_bare(receiver(), raft), bare, "{name}");
    }
}

/// Steps a message without the validation, and lets time pass.
fn step_bare(mut bench: Bench, message: Message) -> Bare {
    let stepped = catch_unwind(AssertUnwindSafe(|| {
        bench.call(|replica, turn| replica.step_bare(message, turn));
        bench.flush();
        bench.tick(3);
        bench.flush();
    }));
    if stepped.is_ok() { Accepted } else { Panics }
}

/// A message of raft with this change.
fn raw(kind: MessageType, from: u16, term: u64, change: impl FnOnce(&mut Message)) -> Message {
    let mut raft = Message::default();
    raft.set_msg_type(kind);
    (raft.from, raft.to, raft.term) = (replica(from).raw(), replica(1).raw(), term);
    change(&mut raft);
    raft
}

fn raw_snapshot(voters: &[u64], learners_next: &[u64]) -> Message {
    let mut state = ConfState::default();
    state.set_voters(voters.to_vec());
    state.set_learners_next(learners_next.to_vec());
    let mut snapshot = Snapshot::default();
    (snapshot.mut_metadata().index, snapshot.mut_metadata().term) = (17, 2);
    snapshot.mut_metadata().set_conf_state(state);
    raw(MessageType::MsgSnapshot, 2, 2, |it| it.set_snapshot(snapshot))
}

#[test]
fn the_worst_messages_cannot_be_expressed() {
    use MessageType::*;
    let one = |it: &mut Message| it.set_entries(vec![RaftEntry::default()].into());
    let [me, leader] = [1, 2].map(|it| replica(it).raw());
    let cases: Vec<RawCase> = vec![
        ("a proposal", Bench::leader, raw(MsgPropose, 2, 3, one), Accepted),
        ("a proposal of nothing", Bench::leader, raw(MsgPropose, 2, 3, |_| ()), Panics),
        ("a round of nothing", Bench::leader, raw(MsgReadIndex, 2, 0, |_| ()), Panics),
        ("a transfer", Bench::leader, raw(MsgTransferLeader, 2, 3, |_| ()), Accepted),
        (
            "a request for a snapshot",
            Bench::leader,
            raw(MsgAppendResponse, 2, 3, |it| {
                (it.reject, it.index, it.request_snapshot) = (true, 13, 112);
            }),
            Accepted,
        ),
        ("the end of a round", Bench::follower, raw(MsgReadIndexResp, 2, 2, one), Accepted),
        ("the end of terms", Bench::follower, raw(MsgTimeoutNow, 2, u64::MAX, |_| ()), Panics),
        ("a snapshot with voter 0", Bench::follower, raw_snapshot(&[me, 0], &[]), Panics),
        (
            "a snapshot with a future learner alone",
            Bench::follower,
            raw_snapshot(&[me, leader], &[leader]),
            Panics,
        ),
        ("a local message", Bench::follower, raw(MsgHup, 2, 2, |_| ()), Accepted),
    ];
    for (name, receiver, message, bare) in cases {
        assert_eq!(step_bare(receiver(), message), bare, "{name}");
    }
}

/// A sender may be outside raft's own configuration: this leader is known from an entry alone.
#[test]
fn a_leader_may_be_known_from_the_log_alone() {
    let mut bench = Bench::follower();
    let new = ReplicaId::new(2, crate::NodeId(4));
    let beat = Body::Heartbeat { commit: LAST, round: None };
    let from_new = PeerMessage { from: new, ..message(2, Term(3), beat) };
    assert_eq!(bench.step(from_new.clone()), Err(Lie::Stranger));
    let content = Content::Change(Change::AddLearner(new));
    let change = Entry { index: LEADER_LAST, term: TERM, content };
    bench.hear(2, TERM, append((12, 2), 12, &[change]));
    assert_eq!(bench.step(from_new), Ok(()));

    let mut placed = Bench::follower();
    placed.replica.place(&[new]);
    let beat = Body::Heartbeat { commit: LAST, round: None };
    let from_new = PeerMessage { from: new, ..message(2, Term(3), beat) };
    assert_eq!(placed.step(from_new), Ok(()));
}

/// The leader's commit index may be greater than the last entry that it sends. The receiver's own
/// commit index is then that of its last entry.
#[test]
fn an_append_may_have_a_commit_after_its_entries() {
    let mut bench = Bench::follower();
    bench.hear(2, TERM, append((12, 2), 500, &[entry(13, 2)]));
    assert_eq!(bench.out.committed, [(GROUP, Index(13))]);
}

/// Messages of an older term are answered by the term, whatever else they say.
#[test]
fn an_older_term_is_answered() {
    let mut bench = Bench::follower();
    bench.hear(3, Term(1), Body::Heartbeat { commit: Index(1 << 40), round: None });
    bench.flush();
    assert_eq!(bench.sent_to(3), [Body::Appended { last: Index(0) }]);
}

/// A group whose log was cut during a change of members needs such a snapshot to end the change.
#[test]
fn a_snapshot_may_be_joint() {
    let mut bench = Bench::follower();
    let mut joint = base(17, 2, &[1, 2, 4]);
    joint.members.outgoing = vec![replica(1), replica(2), replica(3)];
    assert_eq!(bench.step(snapshot(joint.clone())), Ok(()));
    assert_eq!(bench.out.log, [(GROUP, crate::Record::Installed(joint))]);
}
