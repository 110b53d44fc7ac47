//! Rules about the data directory and its disk.

use super::{ALL, BY_SCRIPT, HOSTS, NOT_MEASURED, NOTHING, WORD, yes};
use crate::{Change, Effect, Harm, Rule, Wanted};

/// A slow durable write, in microseconds: with it a disk makes 100 durable writes per second.
const SLOW_MICROS: u64 = 10_000;

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "data.writable",
        harm: Harm::Stops,
        profiles: ALL,
        wanted: yes,
        why: "muster writes there as its own user",
        change: Change::ByHand("chown it to muster's user, or choose another --data"),
        undo: "chown it back",
        effect: Effect::AllOrNothing,
    },
    Rule {
        name: "data.unlocked",
        harm: Harm::Stops,
        profiles: ALL,
        wanted: yes,
        why: "only one process at a time can use a data directory",
        change: Change::ByHand("stop the other server, or choose another --data"),
        undo: "start it again",
        effect: Effect::AllOrNothing,
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
        effect: Effect::AllOrNothing,
    },
    Rule {
        name: "disk.free_percent",
        harm: Harm::Stops,
        profiles: ALL,
        wanted: |_| Wanted::AtLeast(5),
        why: "a write that finds no space ends the process",
        change: Change::ByHand("make the volume larger, or retention shorter"),
        undo: NOTHING,
        effect: Effect::AllOrNothing,
    },
    Rule {
        name: "disk.o_direct",
        harm: Harm::Slows,
        profiles: ALL,
        wanted: yes,
        why: "without O_DIRECT muster writes the log through the page cache, and then calls \
              fdatasync",
        change: Change::ByHand("put --data on ext4 or xfs"),
        undo: "another file system",
        effect: NOT_MEASURED,
    },
    Rule {
        name: "disk.filesystem",
        harm: Harm::Slows,
        profiles: ALL,
        wanted: |_| Wanted::one_of(&["ext4", "xfs"]),
        why: "ext4 and xfs support O_DIRECT with O_DSYNC on files that were written before, as \
              muster's segments are; other file systems are not tested",
        change: Change::ByHand("put --data on ext4 or xfs"),
        undo: "another file system",
        effect: Effect::NotMeasured("which of the two is faster is not measured"),
    },
    Rule {
        name: "disk.durable_write_micros",
        harm: Harm::Slows,
        profiles: ALL,
        wanted: |_| Wanted::AtMost(SLOW_MICROS),
        why: "the median of 16 durable writes of 4 KiB, one after the other, measured just now: \
              no change is acknowledged sooner",
        change: Change::ByHand(
            "another disk; one whose cache survives a power loss takes 20 to 50 us for a write",
        ),
        undo: NOTHING,
        effect: Effect::Measured("a commit takes at least as long as this value"),
    },
    Rule {
        name: "disk.write_cache",
        harm: Harm::Slows,
        profiles: HOSTS,
        wanted: |_| Wanted::one_of(&["write through", "write back, fua"]),
        why: "on a disk with a volatile cache and without FUA, each durable write flushes the \
              whole cache. A disk whose cache survives a power loss says `write through`. Never \
              write this word into queue/write_cache of another disk: a power loss then loses \
              acknowledged data",
        change: Change::ByHand("another disk"),
        undo: NOTHING,
        effect: NOT_MEASURED,
    },
    Rule {
        name: "disk.noexec",
        harm: Harm::Minor,
        profiles: ALL,
        wanted: |_| Wanted::Any,
        why: "muster executes nothing from its data directory, so noexec is prudent",
        change: Change::ByHand("noexec in fstab"),
        undo: WORD,
        effect: Effect::NoneSeen("none"),
    },
    Rule {
        name: "disk.atime",
        harm: Harm::Slows,
        profiles: HOSTS,
        wanted: |_| Wanted::one_of(&["noatime"]),
        why: "with `relatime` a fetch still writes the access time of a file once a day",
        change: Change::ByHand("noatime in fstab, or mount -o remount,noatime"),
        undo: WORD,
        effect: NOT_MEASURED,
    },
    Rule {
        name: "disk.scheduler",
        harm: Harm::Slows,
        profiles: HOSTS,
        wanted: |_| Wanted::one_of(&["none"]),
        why: "a shard writes its log in order with one write in flight: there is nothing to sort, \
              and on NVMe there is one lock less",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: Effect::NoneSeen("measured on a virtio disk: none seen"),
    },
    Rule {
        name: "disk.wbt",
        harm: Harm::Slows,
        profiles: HOSTS,
        wanted: |_| Wanted::AtLeast(2_000),
        why: "with 0 the kernel does not throttle the write-back of topics' records while other \
              requests wait for the disk, so the write-back delays the log's writes. The kernel's \
              default for solid-state disks is 2 ms",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: NOT_MEASURED,
    },
];
