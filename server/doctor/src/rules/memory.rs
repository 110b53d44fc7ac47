//! Rules about memory.

use super::{BY_SCRIPT, HOSTS, METAL, NOT_MEASURED, zero};
use crate::{Change, Effect, Harm, Rule, Wanted};

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "memory.swap_kib",
        harm: Harm::Slows,
        profiles: HOSTS,
        wanted: zero,
        why: "a shard that reads its state from swap stalls every group on it",
        change: Change::ByHand("swapoff -a, and no swap in fstab"),
        undo: "swapon -a",
        effect: NOT_MEASURED,
    },
    Rule {
        name: "vm.swappiness",
        harm: Harm::Slows,
        profiles: HOSTS,
        wanted: |_| Wanted::AtMost(1),
        why: "if there is swap, and memory is short, the kernel should drop page cache before it \
              swaps",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: NOT_MEASURED,
    },
    Rule {
        name: "memory.thp",
        harm: Harm::Slows,
        profiles: HOSTS,
        wanted: |_| Wanted::one_of(&["madvise", "never"]),
        why: "`always` gives huge pages to any large mapping, and splits and compacts them later; \
              muster's buffers are small and reused",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: Effect::NoneSeen(
            "measured on the echo server, whose memory is small: none seen; with a large \
                 state, not measured",
        ),
    },
    Rule {
        name: "memory.thp_defrag",
        harm: Harm::Slows,
        profiles: HOSTS,
        wanted: |_| Wanted::one_of(&["madvise", "defer+madvise", "defer", "never"]),
        why: "`always` lets a page fault wait for compaction: a stall of the shard",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: NOT_MEASURED,
    },
    Rule {
        name: "vm.dirty_background_ratio",
        harm: Harm::Slows,
        profiles: HOSTS,
        wanted: |_| Wanted::AtMost(5),
        why: "the percentage of memory that may be dirty before the kernel writes it out: only \
              records of topics are in the page cache, and a large burst of them competes with \
              durable writes",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: NOT_MEASURED,
    },
    Rule {
        name: "vm.zone_reclaim_mode",
        harm: Harm::Slows,
        profiles: METAL,
        wanted: zero,
        why: "the kernel reclaims the page cache of a node before it uses free memory of another \
              node",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: NOT_MEASURED,
    },
    Rule {
        name: "kernel.numa_balancing",
        harm: Harm::Slows,
        profiles: METAL,
        wanted: zero,
        why: "the kernel unmaps pages now and then to see which core uses them; the memory of a \
              pinned shard is already in the right place",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: Effect::NotMeasured("not measured: one node"),
    },
    Rule {
        name: "memory.numa_nodes",
        harm: Harm::Slows,
        profiles: METAL,
        wanted: |_| Wanted::one_of(&["0"]),
        why: "with more than one node, memory of the other node is further away",
        change: Change::ByHand(
            "start one muster for each node, with numactl --cpunodebind=N --membind=N, on the node \
             of its NIC and disk",
        ),
        undo: "start it without numactl",
        effect: Effect::NotMeasured("not measured: one node"),
    },
];
