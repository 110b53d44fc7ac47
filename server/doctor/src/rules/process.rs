//! Rules about the process: the kernel interface, limits, ports, and the config.

use super::{ALL, BY_SCRIPT, LINE, NOT_MEASURED, NOTHING, shards, yes, zero};
use crate::{Change, Effect, Facts, Harm, Rule, Wanted};

/// The locked memory, in KiB, that a shard's ring needs (in Linux 6.18), and that the smallest ring
/// needs.
const RING_KIB: u64 = 416;
const SMALLEST_RING_KIB: u64 = 24;

/// The file descriptors that a shard needs when it has no clients, and those that the process needs
/// besides. The third number is sufficient for any server.
const DESCRIPTORS: u64 = 320;
const OF_ALL_SHARDS: u64 = 260;
const MANY_DESCRIPTORS: u64 = 1 << 20;

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "kernel.release",
        harm: Harm::Slows,
        profiles: ALL,
        wanted: |_| Wanted::Version(6, 1),
        why: "muster uses features of io_uring that came with Linux 6.1; on older kernels it \
              polls its sockets",
        change: Change::ByHand("install a newer kernel; a container uses its host's"),
        undo: "boot the old kernel",
        effect: NOT_MEASURED,
    },
    Rule {
        name: "kernel.io_uring",
        harm: Harm::Slows,
        profiles: ALL,
        wanted: |_| Wanted::one_of(&["works"]),
        why: "without io_uring muster polls its sockets, which takes more CPU time; the value is \
              the kernel's answer when muster set up a ring",
        change: Change::ByHand("as the value and the other findings say"),
        undo: NOTHING,
        effect: NOT_MEASURED,
    },
    Rule {
        name: "kernel.io_uring_disabled",
        harm: Harm::Slows,
        profiles: ALL,
        wanted: io_uring_disabled,
        why: "2 refuses io_uring to all processes, 1 to all but those in the group \
              kernel.io_uring_group",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: NOT_MEASURED,
    },
    Rule {
        name: "kernel.seccomp",
        harm: Harm::Slows,
        profiles: ALL,
        wanted: seccomp,
        why: "a filter of system calls (2) refuses io_uring, as container engines' default \
              filters do",
        change: Change::ByHand(
            "start the container with packaging/seccomp.json, or allow io_uring_setup, \
             io_uring_enter and io_uring_register in its filter",
        ),
        undo: "start it with the old filter",
        effect: NOT_MEASURED,
    },
    Rule {
        name: "limit.memlock",
        harm: Harm::Slows,
        profiles: ALL,
        wanted: |facts| Wanted::AtLeast((shards(facts) + 1) * SMALLEST_RING_KIB),
        why: "KiB of memory that the process may lock: with less the smallest rings do not fit, \
              and muster polls its sockets",
        change: Change::ByHand("LimitMEMLOCK=infinity in the unit, or --ulimit memlock=-1:-1"),
        undo: LINE,
        effect: NOT_MEASURED,
    },
    Rule {
        name: "limit.memlock_full",
        harm: Harm::Slows,
        profiles: ALL,
        wanted: |facts| Wanted::AtLeast((shards(facts) + 1) * RING_KIB),
        why: "KiB of memory that the process may lock: with less rings are smaller than they \
              should be, and a turn does less at once",
        change: Change::ByHand("LimitMEMLOCK=infinity in the unit, or --ulimit memlock=-1:-1"),
        undo: LINE,
        effect: Effect::Limit,
    },
    Rule {
        name: "limit.nofile",
        harm: Harm::Stops,
        profiles: ALL,
        wanted: |facts| Wanted::AtLeast(OF_ALL_SHARDS + shards(facts) * DESCRIPTORS),
        why: "open files: each shard needs some before any client connects",
        change: Change::ByHand("LimitNOFILE=1048576 in the unit, or ulimit -Hn 1048576"),
        undo: LINE,
        effect: Effect::AllOrNothing,
    },
    Rule {
        name: "limit.nofile_many",
        harm: Harm::Slows,
        profiles: super::HOSTS,
        wanted: |_| Wanted::AtLeast(MANY_DESCRIPTORS),
        why: "a connection takes a descriptor, and so does a segment file: seven eighths are for \
              connections, the rest for partitions; matters from the first thousand clients",
        change: Change::ByHand("LimitNOFILE=1048576 in the unit, or ulimit -Hn 1048576"),
        undo: LINE,
        effect: Effect::Limit,
    },
    Rule {
        name: "cpu.usable",
        harm: Harm::Slows,
        profiles: ALL,
        wanted: |facts| Wanted::AtLeast(shards(facts)),
        why: "a shard is a thread that is pinned to a core: two shards on one core take turns",
        change: Change::ByHand("start with fewer --shards, or allow more cores (taskset, cpuset)"),
        undo: "start with the old number; a data directory opens with any number",
        effect: NOT_MEASURED,
    },
    Rule {
        name: "cpu.quota_percent",
        harm: Harm::Slows,
        profiles: ALL,
        wanted: |facts| Wanted::AtLeast(shards(facts) * 100),
        why: "when the quota of the control group is used up, all shards stand still for up to \
              100 ms",
        change: Change::ByHand("raise CPUQuota= or --cpus, or start with fewer --shards"),
        undo: "set the old quota",
        effect: NOT_MEASURED,
    },
    Rule {
        name: "port.in_use",
        harm: Harm::Stops,
        profiles: ALL,
        wanted: |_| Wanted::one_of(&["none"]),
        why: "each shard listens on a port of its own: shard 0 on the listener's port, the others \
              on the next ports",
        change: Change::ByHand(
            "stop the program that listens there (ss -ltnp), or choose another --listen",
        ),
        undo: NOTHING,
        effect: Effect::AllOrNothing,
    },
    Rule {
        name: "config.wrong_lines",
        harm: Harm::Stops,
        profiles: ALL,
        wanted: zero,
        why: "muster does not start with a line that is wrong, or that asks for something that \
              muster does not have",
        change: Change::ByHand(
            "muster serve --check-config FILE names each line, and says what to do",
        ),
        undo: NOTHING,
        effect: Effect::AllOrNothing,
    },
    Rule {
        name: "clock.synchronized",
        harm: Harm::Minor,
        profiles: super::HOSTS,
        wanted: yes,
        why: "timestamps and retention follow the wall clock; timers of groups do not",
        change: Change::ByHand("start chrony or systemd-timesyncd"),
        undo: "stop it",
        effect: NOT_MEASURED,
    },
];

/// With the value 1, io_uring requires a permission. If a ring works, muster has this permission,
/// so 1 is right, too.
fn io_uring_disabled(facts: &Facts) -> Wanted {
    if facts.is("kernel.io_uring", "works") {
        return Wanted::one_of(&["0", "1"]);
    }
    Wanted::one_of(&["0"])
}

/// A seccomp filter is right if it allows io_uring.
fn seccomp(facts: &Facts) -> Wanted {
    let works = facts.is("kernel.io_uring", "works");
    if works { Wanted::Any } else { Wanted::one_of(&["0"]) }
}
