//! The process: the kernel's interface, limits, ports, the config.

use super::{A_LIMIT, ALL, BY_SCRIPT, LINE, NOTHING, UNMEASURED, shards, yes, zero};
use crate::{Change, Facts, Harm, Rule, Wanted};

/// KiB that the kernel locks for the ring of a shard (Linux 6.18), and for the smallest one.
const RING_KIB: u64 = 416;
const SMALLEST_RING_KIB: u64 = 24;

/// Descriptors of a shard before any client, of the process beside them, and those with which none
/// is missed.
const DESCRIPTORS: u64 = 320;
const OF_ALL_SHARDS: u64 = 260;
const MANY_DESCRIPTORS: u64 = 1 << 20;

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "kernel.release",
        harm: Harm::Slows,
        profiles: ALL,
        wanted: |_| Wanted::Version(6, 1),
        why: "muster does its I/O through io_uring with features of Linux 6.1; before, it polls \
              its sockets",
        change: Change::ByHand("install a newer kernel; a container has that of its host"),
        undo: "boot the kernel before",
        effect: UNMEASURED,
    },
    Rule {
        name: "kernel.io_uring",
        harm: Harm::Slows,
        profiles: ALL,
        wanted: |_| Wanted::one_of(&["works"]),
        why: "without rings muster polls its sockets, which takes more CPU time; the value is what \
              the kernel answered to a ring",
        change: Change::ByHand("as the value says, and the findings beside it"),
        undo: NOTHING,
        effect: UNMEASURED,
    },
    Rule {
        name: "kernel.io_uring_disabled",
        harm: Harm::Slows,
        profiles: ALL,
        wanted: io_uring_disabled,
        why: "2 refuses io_uring to everybody, 1 to all but the group of kernel.io_uring_group",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: UNMEASURED,
    },
    Rule {
        name: "kernel.seccomp",
        harm: Harm::Slows,
        profiles: ALL,
        wanted: seccomp,
        why: "a filter of system calls (2) that leaves out io_uring, as those of container engines \
              do by default",
        change: Change::ByHand(
            "start the container with packaging/seccomp.json, or allow io_uring_setup, \
             io_uring_enter and io_uring_register in the filter that there is",
        ),
        undo: "start it with the filter before",
        effect: UNMEASURED,
    },
    Rule {
        name: "limit.memlock",
        harm: Harm::Slows,
        profiles: ALL,
        wanted: |facts| Wanted::AtLeast((shards(facts) + 1) * SMALLEST_RING_KIB),
        why: "KiB that the process may lock: below it the smallest rings do not fit, and muster \
              polls its sockets",
        change: Change::ByHand("LimitMEMLOCK=infinity in the unit, or --ulimit memlock=-1:-1"),
        undo: LINE,
        effect: UNMEASURED,
    },
    Rule {
        name: "limit.memlock_full",
        harm: Harm::Slows,
        profiles: ALL,
        wanted: |facts| Wanted::AtLeast((shards(facts) + 1) * RING_KIB),
        why: "KiB that the process may lock: below it rings are smaller than they should be, and a \
              turn does less at once",
        change: Change::ByHand("LimitMEMLOCK=infinity in the unit, or --ulimit memlock=-1:-1"),
        undo: LINE,
        effect: A_LIMIT,
    },
    Rule {
        name: "limit.nofile",
        harm: Harm::Stops,
        profiles: ALL,
        wanted: |facts| Wanted::AtLeast(OF_ALL_SHARDS + shards(facts) * DESCRIPTORS),
        why: "open files, of which each shard has some before any client connects",
        change: Change::ByHand("LimitNOFILE=1048576 in the unit, or ulimit -Hn 1048576"),
        undo: LINE,
        effect: "all or nothing",
    },
    Rule {
        name: "limit.nofile_many",
        harm: Harm::Slows,
        profiles: super::HOSTS,
        wanted: |_| Wanted::AtLeast(MANY_DESCRIPTORS),
        why: "a connection is a descriptor, and so is a segment file: seven eighths are for \
              connections, the others for partitions; matters from the first thousand clients",
        change: Change::ByHand("LimitNOFILE=1048576 in the unit, or ulimit -Hn 1048576"),
        undo: LINE,
        effect: A_LIMIT,
    },
    Rule {
        name: "cpu.usable",
        harm: Harm::Slows,
        profiles: ALL,
        wanted: |facts| Wanted::AtLeast(shards(facts)),
        why: "a shard is a thread that is pinned to a core: two on one core take turns",
        change: Change::ByHand("start with fewer --shards, or allow more cores (taskset, cpuset)"),
        undo: "start with the number before; a data directory opens with any",
        effect: UNMEASURED,
    },
    Rule {
        name: "cpu.quota_percent",
        harm: Harm::Slows,
        profiles: ALL,
        wanted: |facts| Wanted::AtLeast(shards(facts) * 100),
        why: "when the quota of a control group is used up all shards stand still, up to 100 ms",
        change: Change::ByHand("raise CPUQuota= or --cpus, or start with fewer --shards"),
        undo: "set the quota before",
        effect: UNMEASURED,
    },
    Rule {
        name: "port.in_use",
        harm: Harm::Stops,
        profiles: ALL,
        wanted: |_| Wanted::one_of(&["none"]),
        why: "each shard listens on a port of its own: the first that of the listener, the others \
              the next ones",
        change: Change::ByHand("stop what listens there (ss -ltnp), or take another --listen"),
        undo: NOTHING,
        effect: "all or nothing",
    },
    Rule {
        name: "config.wrong_lines",
        harm: Harm::Stops,
        profiles: ALL,
        wanted: zero,
        why: "muster does not start with a line that is wrong or asks for what it does not have",
        change: Change::ByHand("muster serve --check-config FILE has each line, and what to do"),
        undo: NOTHING,
        effect: "all or nothing",
    },
    Rule {
        name: "clock.synchronized",
        harm: Harm::Slows,
        profiles: super::HOSTS,
        wanted: yes,
        why: "timestamps and retention follow the wall clock; timers of groups do not",
        change: Change::ByHand("start chrony or systemd-timesyncd"),
        undo: "stop it",
        effect: UNMEASURED,
    },
];

/// With 1 a member of the group has a ring.
fn io_uring_disabled(facts: &Facts) -> Wanted {
    if facts.is("kernel.io_uring", "works") {
        return Wanted::one_of(&["0", "1"]);
    }
    Wanted::one_of(&["0"])
}

/// A filter that allows io_uring is right.
fn seccomp(facts: &Facts) -> Wanted {
    let works = facts.is("kernel.io_uring", "works");
    if works { Wanted::Any } else { Wanted::one_of(&["0"]) }
}
