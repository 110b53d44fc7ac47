//! Rules about the cores.

use super::{BY_SCRIPT, METAL, NOT_MEASURED, WORD, zero};
use crate::{Change, Facts, Harm, Rule, Wanted};

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "cpu.governor",
        harm: Harm::Slows,
        profiles: METAL,
        wanted: |_| Wanted::one_of(&["performance"]),
        why: "other governors lower the clock while a shard waits, so the next batch starts \
              slowly. Matters at low and medium load, and costs power",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: NOT_MEASURED,
    },
    Rule {
        name: "cpu.deep_idle",
        harm: Harm::Slows,
        profiles: METAL,
        wanted: |_| Wanted::one_of(&["1"]),
        why: "a shard sleeps in the kernel between batches, and each wake-up from a deep idle \
              state takes more than 20 us. With 1 these states are disabled, which costs power",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: NOT_MEASURED,
    },
    Rule {
        name: "cpu.smt",
        harm: Harm::Slows,
        profiles: METAL,
        wanted: zero,
        why: "two shards on one physical core share its caches and execution units",
        change: Change::ByHand("nosmt on the kernel's command line, or half as many --shards"),
        undo: WORD,
        effect: NOT_MEASURED,
    },
    Rule {
        name: "cpu.isolated",
        harm: Harm::Slows,
        profiles: METAL,
        wanted: some_cores,
        why: "the scheduler puts nothing else on isolated cores; leave at least one for the rest",
        change: Change::ByHand(
            "isolcpus=LIST on the kernel's command line, and muster started with taskset -c LIST",
        ),
        undo: WORD,
        effect: NOT_MEASURED,
    },
    Rule {
        name: "cpu.nohz_full",
        harm: Harm::Slows,
        profiles: METAL,
        wanted: |_| Wanted::Any,
        why: "no timer tick while a core runs one task, but more expensive system calls: for a \
              server that enters the kernel for each batch it may cost more than it gains. \
              Measure first",
        change: Change::ByHand("nohz_full=LIST rcu_nocbs=LIST on the kernel's command line"),
        undo: WORD,
        effect: NOT_MEASURED,
    },
];

/// Any list of cores except the empty one.
fn some_cores(facts: &Facts) -> Wanted {
    match facts.value("cpu.isolated").as_deref() {
        None | Some("none") => Wanted::one_of(&["the shards' cores"]),
        Some(_) => Wanted::Any,
    }
}
