//! Facts about the knobs of the host: files of /proc/sys and /sys.

use super::files::{add_knob, add_sysctl, entries, value};
use super::{Asked, below};
use crate::Facts;
use std::fs;
use std::path::{Path, PathBuf};

/// An idle state of a core counts as deep if leaving it takes longer than this.
const DEEP_MICROS: u64 = 20;

const SYSCTLS: [&str; 9] = [
    "kernel.io_uring_disabled",
    "net.core.somaxconn",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_congestion_control",
    "net.core.netdev_budget",
    "vm.swappiness",
    "vm.zone_reclaim_mode",
    "vm.dirty_background_ratio",
    "kernel.numa_balancing",
];

pub(super) fn add(facts: &mut Facts, asked: &Asked, disk: Option<&Path>) {
    let root = &asked.root;
    for name in SYSCTLS {
        add_sysctl(facts, root, name);
    }
    facts.set("net.squeezed", squeezed(root));
    let interface = asked.interface.clone().or_else(|| default_interface(root));
    if let Some(interface) = interface {
        add_nic(facts, root, &below(root, &format!("/sys/class/net/{interface}")));
    }
    add_cores(facts, root);
    add_memory(facts, root);
    if let Some(queue) = disk {
        add_knob(facts, "disk.scheduler", [queue.join("scheduler")]);
        add_knob(facts, "disk.wbt", [queue.join("wbt_lat_usec")]);
    }
}

/// How often, on all cores, the kernel's network interrupt work (softirq) ran out of its budget.
fn squeezed(root: &Path) -> u64 {
    let text = fs::read_to_string(below(root, "/proc/net/softnet_stat")).unwrap_or_default();
    let third = |line: &str| u64::from_str_radix(line.split_whitespace().nth(2)?, 16).ok();
    text.lines().filter_map(third).sum()
}

fn default_interface(root: &Path) -> Option<String> {
    let routes = fs::read_to_string(below(root, "/proc/net/route")).ok()?;
    let of = |line: &str| {
        let mut columns = line.split_whitespace();
        let name = columns.next()?;
        (columns.next()? == "00000000").then(|| name.to_owned())
    };
    routes.lines().find_map(of)
}

fn add_nic(facts: &mut Facts, root: &Path, nic: &Path) {
    let queues = entries(&nic.join("queues"), "rx-");
    if !queues.is_empty() {
        facts.set("nic.queues", queues.len());
    }
    add_knob(facts, "nic.rps", queues.iter().map(|queue| queue.join("rps_cpus")));
    // A virtual NIC has its interrupts in the folder of its parent device, the bus.
    let folders = [nic.join("device/msi_irqs"), nic.join("device/../msi_irqs")];
    let irqs = folders.iter().flat_map(|it| entries(it, ""));
    let affinity = |irq: PathBuf| {
        let number = irq.file_name().unwrap_or_default().to_string_lossy().into_owned();
        below(root, &format!("/proc/irq/{number}/smp_affinity_list"))
    };
    add_knob(facts, "nic.irq_affinity", irqs.map(affinity));
}

fn add_cores(facts: &mut Facts, root: &Path) {
    let cores = below(root, "/sys/devices/system/cpu");
    let policies = entries(&cores.join("cpufreq"), "policy");
    add_knob(facts, "cpu.governor", policies.iter().map(|it| it.join("scaling_governor")));
    let states =
        entries(&cores, "cpu").into_iter().flat_map(|it| entries(&it.join("cpuidle"), "state"));
    let is_deep = |state: &PathBuf| {
        let latency = value(&state.join("latency")).and_then(|it| it.parse::<u64>().ok());
        latency.is_some_and(|it| it > DEEP_MICROS)
    };
    add_knob(facts, "cpu.deep_idle", states.filter(is_deep).map(|it| it.join("disable")));
    let lists =
        [("cpu.smt", "smt/active"), ("cpu.isolated", "isolated"), ("cpu.nohz_full", "nohz_full")];
    for (name, file) in lists {
        if let Some(list) = value(&cores.join(file)) {
            facts.set(name, if list.is_empty() { "none" } else { &list });
        }
    }
}

fn add_memory(facts: &mut Facts, root: &Path) {
    let huge = below(root, "/sys/kernel/mm/transparent_hugepage");
    add_knob(facts, "memory.thp", [huge.join("enabled")]);
    add_knob(facts, "memory.thp_defrag", [huge.join("defrag")]);
    if let Some(nodes) = value(&below(root, "/sys/devices/system/node/online")) {
        facts.set("memory.numa_nodes", nodes);
    }
    let memory = fs::read_to_string(below(root, "/proc/meminfo")).unwrap_or_default();
    let swap = memory.lines().find_map(|line| line.strip_prefix("SwapTotal:"));
    if let Some(kib) = swap.and_then(|it| it.split_whitespace().next()) {
        facts.set("memory.swap_kib", kib);
    }
}
