//! The data directory and its disk.

use super::{ALL, BY_SCRIPT, HOSTS, NOTHING, UNMEASURED, WORD, yes};
use crate::{Change, Harm, Rule, Wanted};

/// Microseconds: of a disk with 100 durable writes in a second.
const SLOW_MICROS: u64 = 10_000;

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "data.writable",
        harm: Harm::Stops,
        profiles: ALL,
        wanted: yes,
        why: "muster writes there as the user that it runs as",
        change: Change::ByHand("chown it to muster's user, or take another --data"),
        undo: "chown it back",
        effect: "all or nothing",
    },
    Rule {
        name: "data.unlocked",
        harm: Harm::Stops,
        profiles: ALL,
        wanted: yes,
        why: "one process at a time has a data directory",
        change: Change::ByHand("stop the other server, or take another --data"),
        undo: "start it again",
        effect: "all or nothing",
    },
    Rule {
        name: "disk.survives",
        harm: Harm::Loses,
        profiles: ALL,
        wanted: yes,
        why: "a file system in memory (tmpfs, ramfs) is empty after a restart of the host, and so \
              are all topics and groups",
        change: Change::ByHand("put --data on a disk; in a container, on a volume"),
        undo: NOTHING,
        effect: "all or nothing",
    },
    Rule {
        name: "disk.free_percent",
        harm: Harm::Stops,
        profiles: ALL,
        wanted: |_| Wanted::AtLeast(5),
        why: "a write that finds no space ends the process",
        change: Change::ByHand("make the volume larger, or retention shorter"),
        undo: NOTHING,
        effect: "all or nothing",
    },
    Rule {
        name: "disk.o_direct",
        harm: Harm::Slows,
        profiles: ALL,
        wanted: yes,
        why: "without O_DIRECT the log is written through the page cache and fdatasync follows",
        change: Change::ByHand("put --data on ext4 or xfs"),
        undo: "another file system",
        effect: UNMEASURED,
    },
    Rule {
        name: "disk.filesystem",
        harm: Harm::Slows,
        profiles: ALL,
        wanted: |_| Wanted::one_of(&["ext4", "xfs"]),
        why: "both take O_DIRECT with O_DSYNC on files that are already written once, as muster's \
              segments are; others are not tested",
        change: Change::ByHand("put --data on ext4 or xfs"),
        undo: "another file system",
        effect: "which of the two is faster is not measured",
    },
    Rule {
        name: "disk.durable_write_micros",
        harm: Harm::Slows,
        profiles: ALL,
        wanted: |_| Wanted::AtMost(SLOW_MICROS),
        why: "the median of 16 durable writes of 4 KiB just now, one after the other: no change is \
              acknowledged sooner",
        change: Change::ByHand(
            "another disk; one whose cache survives a power loss takes 20 to 50",
        ),
        undo: NOTHING,
        effect: "the value is the effect: a commit takes at least one",
    },
    Rule {
        name: "disk.write_cache",
        harm: Harm::Slows,
        profiles: HOSTS,
        wanted: |_| Wanted::one_of(&["write through", "write back, fua"]),
        why: "a durable write to a disk with a volatile cache and without FUA is a write and a \
              flush of the whole cache; a disk whose cache survives a power loss says `write \
              through`. Never write that into queue/write_cache of a disk whose cache does not: \
              what was acknowledged is lost then",
        change: Change::ByHand("another disk"),
        undo: NOTHING,
        effect: UNMEASURED,
    },
    Rule {
        name: "disk.noexec",
        harm: Harm::Slows,
        profiles: ALL,
        wanted: |_| Wanted::Any,
        why: "muster executes nothing from its data directory: noexec is harmless, and prudent",
        change: Change::ByHand("noexec in fstab"),
        undo: WORD,
        effect: "none",
    },
    Rule {
        name: "disk.atime",
        harm: Harm::Slows,
        profiles: HOSTS,
        wanted: |_| Wanted::one_of(&["noatime"]),
        why: "with `relatime` a fetch still writes an inode once a day",
        change: Change::ByHand("noatime in fstab, or mount -o remount,noatime"),
        undo: WORD,
        effect: UNMEASURED,
    },
    Rule {
        name: "disk.scheduler",
        harm: Harm::Slows,
        profiles: HOSTS,
        wanted: |_| Wanted::one_of(&["none"]),
        why: "a shard writes its log in order with one write in flight: nothing to sort, and on \
              NVMe a lock less",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: "measured on a virtio disk: none seen",
    },
    Rule {
        name: "disk.wbt",
        harm: Harm::Slows,
        profiles: HOSTS,
        wanted: |_| Wanted::AtLeast(2_000),
        why: "throttles write-back of the page cache while others wait for the disk: it protects \
              the log from the topics. 0 is off; the kernel's own value for solid state is 2 ms",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: UNMEASURED,
    },
];
