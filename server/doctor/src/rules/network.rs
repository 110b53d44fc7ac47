//! Rules about the network.

use super::{BY_SCRIPT, HOSTS, METAL, NOT_MEASURED, shards, zero};
use crate::{Change, Effect, Facts, Harm, Rule, Wanted};

/// How often the kernel's network interrupt work (softirq) must have run out of its budget for a
/// larger budget to be worthwhile.
const SQUEEZES: u64 = 100;

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "net.core.somaxconn",
        harm: Harm::Slows,
        profiles: HOSTS,
        wanted: |_| Wanted::AtLeast(4_096),
        why: "the limit of connections that are not accepted yet: when thousands of members \
              reconnect at once, further SYNs are dropped, and sent again after a second",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: NOT_MEASURED,
    },
    Rule {
        name: "net.ipv4.tcp_max_syn_backlog",
        harm: Harm::Slows,
        profiles: HOSTS,
        wanted: |_| Wanted::AtLeast(4_096),
        why: "the limit of half-open connections: beyond it, without SYN cookies, SYNs are \
              dropped",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: NOT_MEASURED,
    },
    Rule {
        name: "net.ipv4.tcp_congestion_control",
        harm: Harm::Slows,
        profiles: HOSTS,
        wanted: |_| Wanted::one_of(&["cubic", "reno"]),
        why: "bbr paces each connection by a timer and models its path, which small answers on a \
              LAN do not need. Keep it for distant clients over lossy paths; open sockets keep \
              their setting",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: Effect::Measured(
            "measured: cubic ahead of bbr by 6 to 8 % of CPU time in the medians, within the \
                 spread of the rounds (tuning/README.md)",
        ),
    },
    Rule {
        name: "net.core.netdev_budget",
        harm: Harm::Slows,
        profiles: HOSTS,
        wanted: netdev_budget,
        why: "the packets that one softirq handles before it yields; raise it only if the kernel \
              counted that it ran out (third column of /proc/net/softnet_stat)",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: NOT_MEASURED,
    },
    Rule {
        name: "nic.queues",
        harm: Harm::Slows,
        profiles: METAL,
        wanted: |facts| Wanted::AtLeast(shards(facts)),
        why: "with fewer receive queues than shards, the interrupts of one core serve several \
              shards",
        change: Change::ByHand("ethtool -L NIC combined N, if the NIC has this many"),
        undo: "ethtool -L NIC combined with the old number",
        effect: NOT_MEASURED,
    },
    Rule {
        name: "nic.rps",
        harm: Harm::Slows,
        profiles: METAL,
        wanted: zero,
        why: "RPS passes packets to other cores after the interrupt. With a queue for each shard \
              this costs an interrupt between cores, and gains nothing. With fewer queues than \
              shards it can help: then leave it on, on the shards' cores",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: Effect::NotMeasured("not measured: loopback does not interrupt"),
    },
    Rule {
        name: "nic.irq_affinity",
        harm: Harm::Slows,
        profiles: METAL,
        wanted: irq_affinity,
        why: "the cores that serve the NIC's interrupts, changed only if --irq-cpus names them. \
              With a queue for each shard, use each shard's core, and keep irqbalance from \
              undoing it. With few queues, use cores without a shard",
        change: Change::Apply,
        undo: BY_SCRIPT,
        effect: NOT_MEASURED,
    },
];

fn netdev_budget(facts: &Facts) -> Wanted {
    let has_run_out = facts.number("net.squeezed").is_some_and(|times| times > SQUEEZES);
    Wanted::AtLeast(if has_run_out { 600 } else { 300 })
}

fn irq_affinity(facts: &Facts) -> Wanted {
    facts.value("asked.irq_cpus").map_or(Wanted::Any, |cpus| Wanted::OneOf(vec![cpus]))
}
