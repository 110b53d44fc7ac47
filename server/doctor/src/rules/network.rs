//! The network.

use super::{BY_SCRIPT, HOSTS, METAL, UNMEASURED, shards, zero};
use crate::{Change, Facts, Harm, Rule, Wanted};

/// Times that a softirq ran out of its budget from which on it is worth more.
const SQUEEZES: u64 = 100;

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "net.core.somaxconn",
        harm: Harm::Slows,
        profiles: HOSTS,
        wanted: |_| Wanted::AtLeast(4_096),
        why: "caps the queue of connections not yet accepted: when thousands of members reconnect \
              at once, SYNs past it are dropped and sent again after a second",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: UNMEASURED,
    },
    Rule {
        name: "net.ipv4.tcp_max_syn_backlog",
        harm: Harm::Slows,
        profiles: HOSTS,
        wanted: |_| Wanted::AtLeast(4_096),
        why: "caps connections half open; past it, without SYN cookies, SYNs are dropped",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: UNMEASURED,
    },
    Rule {
        name: "net.ipv4.tcp_congestion_control",
        harm: Harm::Slows,
        profiles: HOSTS,
        wanted: |_| Wanted::one_of(&["cubic", "reno"]),
        why: "bbr paces each connection by a timer and models its path, which small answers on a \
              LAN do not need. Keep it for clients far away over lossy paths; open sockets keep \
              what they have",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: "measured: cubic ahead of bbr by 6 to 8 % of CPU time in the medians, within the \
                 spread of the rounds (tuning/README.md)",
    },
    Rule {
        name: "net.core.netdev_budget",
        harm: Harm::Slows,
        profiles: HOSTS,
        wanted: netdev_budget,
        why: "packets that one softirq handles before it yields; more is asked for only where the \
              kernel counted that it ran out (third column of /proc/net/softnet_stat)",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: UNMEASURED,
    },
    Rule {
        name: "nic.queues",
        harm: Harm::Slows,
        profiles: METAL,
        wanted: |facts| Wanted::AtLeast(shards(facts)),
        why: "with fewer receive queues than shards one core's interrupts serve several shards",
        change: Change::ByHand("ethtool -L NIC combined N, where the NIC has as many"),
        undo: "ethtool -L NIC combined with the number before",
        effect: UNMEASURED,
    },
    Rule {
        name: "nic.rps",
        harm: Harm::Slows,
        profiles: METAL,
        wanted: zero,
        why: "RPS hands packets on to other cores after the interrupt: with a queue for each shard \
              that costs an interrupt between cores for nothing. With fewer queues than shards it \
              can help: then leave it, on the shards' cores",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: "not measured: loopback does not interrupt",
    },
    Rule {
        name: "nic.irq_affinity",
        harm: Harm::Slows,
        profiles: METAL,
        wanted: irq_affinity,
        why: "which cores serve the NIC's interrupts, changed only where --irq-cpus says so. With \
              a queue for each shard: one on each shard's core, which irqbalance must not undo; \
              with few queues: on cores that have no shard",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: UNMEASURED,
    },
];

fn netdev_budget(facts: &Facts) -> Wanted {
    let has_run_out = facts.number("net.squeezed").is_some_and(|times| times > SQUEEZES);
    Wanted::AtLeast(if has_run_out { 600 } else { 300 })
}

fn irq_affinity(facts: &Facts) -> Wanted {
    facts.value("asked.irq_cpus").map_or(Wanted::Any, |cpus| Wanted::OneOf(vec![cpus]))
}
