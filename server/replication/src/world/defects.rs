//! The defects that the world has to find. `docs/raft.md` has their numbers as injected faults.

use super::seeds::run;
use crate::injected::{Injected, inject};

/// A defect of a caller or of a disk, or one inside the crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defect {
    /// 1 and 2: blocks are reported as durable before they are.
    EarlyFlush,
    /// 3: votes are not written.
    LostVotes,
    /// 4: terms are not written.
    LostTerms,
    /// 5: clients are answered after the leader's own flush.
    OwnFlushAnswers,
    /// 6: a read is confirmed by a committed entry even if the entry was sealed before the read.
    OlderEntryConfirms,
    /// 7: a deposed leader keeps what it has applied.
    NoUndo,
    /// 8: a replica that returns to a node has the id that it had there.
    SameReplicaId,
    /// 9: the acknowledgements of a learner count as those of a voter.
    CountedLearner,
    /// 11: a change of members is proposed before the open entry.
    ChangeFirst,
    /// 12: the frames of an older connection are accepted.
    OldFrames,
    /// 13: ticks come before the input that was received before them.
    TicksFirst,
    /// 16: a new process has the session of the older one.
    KeptSession,
    /// 17: what recovery finds is reported as durable before it is synced. A script finds it.
    EarlySync,
    /// A group's row in a snapshot has the index of its newest section, not of its oldest one.
    NewestRow,
    Inside(Injected),
}

impl Defect {
    /// Whether a new process has the session of the older one. The leader then still counts what
    /// the older one acknowledged, so a heartbeat can have a commit index that is too high.
    pub(crate) fn keeps_sessions(self) -> bool {
        matches!(self, Self::KeptSession | Self::Inside(Injected::UncheckedHeartbeat))
    }
}

/// A defect with the seed that finds it.
struct Found {
    defect: Defect,
    /// Whether the seed moves replicas.
    moves: bool,
    seed: u64,
    /// A part of the message of the fault that is found.
    finding: &'static str,
}

const fn found(defect: Defect, moves: bool, seed: u64, finding: &'static str) -> Found {
    Found { defect, moves, seed, finding }
}

const FOUND: &[Found] = &[
    found(Defect::EarlyFlush, false, 0, "committed on"),
    found(Defect::LostVotes, false, 205, "lead"),
    found(Defect::LostTerms, false, 0, "does not start"),
    found(Defect::OwnFlushAnswers, false, 0, "answered, and not committed"),
    found(Defect::OlderEntryConfirms, false, 1, "a stale read"),
    found(Defect::NoUndo, false, 2, "other records"),
    found(Defect::SameReplicaId, true, 1, "what was acknowledged"),
    found(Defect::CountedLearner, true, 0, "committed on"),
    found(Defect::Inside(Injected::UncheckedHeartbeat), false, 11, "out of range"),
    found(Defect::ChangeFirst, true, 1, "answered, and not committed"),
    found(Defect::OldFrames, false, 222, "committed on"),
    found(Defect::TicksFirst, false, 2, "stands though its leader was heard"),
    found(Defect::Inside(Injected::LeaseReads), false, 17, "a stale read"),
    found(Defect::Inside(Injected::ElectionInInstall), true, 211, "Compacted"),
    found(Defect::KeptSession, false, 26, "committed on"),
    found(Defect::NewestRow, false, 2, "other records"),
];

/// Runs a seed with a defect, and returns the fault that is found.
fn finding(seed: u64, Found { defect, moves, .. }: &Found) -> Option<String> {
    if let Defect::Inside(fault) = defect {
        inject(Some(*fault));
    }
    let found = run(seed, Some(*defect), *moves).err();
    inject(None);
    found
}

#[test]
fn each_defect_is_found_by_its_seed() {
    for it in FOUND {
        let found = finding(it.seed, it);
        let is_found = found.as_ref().is_some_and(|found| found.contains(it.finding));
        assert!(is_found, "{:?}: {found:?}. Find its seed again (below)", it.defect);
    }
}

/// Prints the table above. A change of the world changes its seeds.
#[test]
#[ignore = "takes minutes: cargo test --release -p muster-replication -- --ignored --nocapture"]
fn the_first_seed_that_finds_each_defect() {
    for it in FOUND {
        let finding = |seed| finding(seed, it).filter(|found| found.contains(it.finding));
        let first = (0..1_000).find_map(|seed| Some((seed, finding(seed)?)));
        println!("{:?}: {first:?}", it.defect);
        assert!(first.is_some(), "{:?}", it.defect);
    }
}
