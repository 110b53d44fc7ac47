//! The messages between the replicas of a group.
//!
//! raft has 19 kinds of messages. A [`Body`] has only those that replicas send each other, and of
//! each only the fields that it uses. So most messages that would make raft panic cannot be
//! expressed. The others are found by the validation.

use crate::{Base, Entry, Group, Index, ReplicaId, Term, Tick};

/// A message from one replica of a group to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerMessage {
    pub group: Group,
    pub from: ReplicaId,
    pub to: ReplicaId,
    /// The sender's term. A pre-vote, and the vote that grants it, have the term of the election
    /// that may follow.
    pub term: Term,
    /// The newest tick of the receiver that the sender knew when it made the message, which may
    /// have waited for a flush since.
    pub echo: Tick,
    pub body: Body,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// The leader's entries after `previous`.
    Append {
        previous: (Index, Term),
        commit: Index,
        entries: Vec<Entry>,
    },
    /// Up to `last`, the sender's log equals the leader's and is durable. Also the answer to a
    /// message of an older term: the term of the answer shows the receiver that it is outdated.
    Appended {
        last: Index,
    },
    /// The entries after `at` do not fit the sender's log. `hint` is the last entry of this log
    /// that the leader may have, too.
    Rejected {
        at: Index,
        hint: (Index, Term),
    },
    Heartbeat {
        commit: Index,
        round: Option<Round>,
    },
    /// The answer to a heartbeat.
    Heard {
        round: Option<Round>,
    },
    /// A candidate asks for a vote.
    Vote {
        /// Whether this is a pre-vote: the candidate asks whether it would win, before it begins a
        /// term.
        pre: bool,
        /// The leader has named the candidate as its successor. So voters grant the vote even if
        /// they still hear from the leader.
        transfer: bool,
        last: (Index, Term),
        commit: (Index, Term),
    },
    /// The answer to [`Body::Vote`]. A refusal has the commit index of the voter.
    Voted {
        pre: bool,
        granted: bool,
        commit: (Index, Term),
    },
    /// The receiver has the snapshot with this base: its log begins there.
    Install {
        base: Base,
    },
    /// The leader names the receiver as the next leader (raft's MsgTimeoutNow).
    StandNow,
}

/// The number of a round of heartbeats. If a quorum answers, its sender was still the leader when
/// the round began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Round(pub u64);
