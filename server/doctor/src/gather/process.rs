//! Facts about the process and its kernel interface.

use super::{Asked, below};
use crate::Facts;
use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::Path;

/// The number of CAP_IPC_LOCK, which exempts a process from the limit on locked memory.
const CAP_IPC_LOCK: u32 = 14;

pub(super) fn add(facts: &mut Facts, asked: &Asked) {
    facts.set("kernel.release", rustix::system::uname().release().to_string_lossy());
    let ring = muster_uring::probe(muster_uring::Config::default());
    facts.set("kernel.io_uring", ring.map_or_else(|error| error.to_string(), |()| "works".into()));
    add_status(facts);
    add_limits(facts);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    facts.set("cpu.usable", cores);
    if let Some(percent) = quota_percent(&fs::read_to_string("/sys/fs/cgroup/cpu.max")) {
        facts.set("cpu.quota_percent", percent);
    }
    // If a server runs with this directory, it uses the ports, as it should.
    if facts.value("data.server").is_none() {
        facts.set("port.in_use", ports_in_use(asked));
    }
    add_kind(facts, &asked.root);
}

fn add_status(facts: &mut Facts) {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let of = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    if let Some(mode) = of("Seccomp:") {
        facts.set("kernel.seccomp", mode);
    }
    let bits = of("CapEff:").and_then(|bits| u64::from_str_radix(bits, 16).ok());
    if bits.is_some_and(|bits| bits & 1 << CAP_IPC_LOCK != 0) {
        facts.set("limit.memlock", "unlimited");
        facts.set("limit.memlock_full", "unlimited");
    }
}

/// Adds the limit on locked memory, and the hard limit of open files. (muster raises its own limit
/// of open files to the hard one.)
fn add_limits(facts: &mut Facts) {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let of = |name: &str, column: usize| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().nth(column).map(str::to_owned)
    };
    if let Some(hard) = of("Max open files", 1) {
        facts.set("limit.nofile", &hard);
        facts.set("limit.nofile_many", &hard);
    }
    let Some(bytes) = of("Max locked memory", 0) else { return };
    let kib = bytes.parse().map_or(bytes, |bytes: u64| (bytes >> 10).to_string());
    for name in ["limit.memlock", "limit.memlock_full"] {
        if facts.value(name).is_none() {
            facts.set(name, &kib);
        }
    }
}

/// The CPU time that the control group may use, in percent of one core.
fn quota_percent(text: &std::io::Result<String>) -> Option<u64> {
    let mut words = text.as_ref().ok()?.split_whitespace();
    let (quota, period): (u64, u64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (quota * 100).checked_div(period)
}

fn ports_in_use(asked: &Asked) -> String {
    let mut used = BTreeSet::new();
    for first in &asked.listen {
        for shard in 0..asked.shards {
            let port = u32::from(first.port()) + shard;
            let Ok(number) = u16::try_from(port) else { continue };
            let mut address = *first;
            address.set_port(number);
            if let Err(error) = TcpListener::bind(address) {
                used.insert(format!("{address} ({error})"));
            }
        }
    }
    if used.is_empty() { "none".into() } else { used.into_iter().collect::<Vec<_>>().join(", ") }
}

/// Adds facts from which the kind of host can be guessed.
fn add_kind(facts: &mut Facts, root: &Path) {
    let is_there = |path: &str| below(root, path).exists();
    if is_there("/.dockerenv")
        || is_there("/run/.containerenv")
        || is_there("/run/secrets/kubernetes.io")
    {
        facts.set("host.container", "yes");
    }
    let cores = fs::read_to_string(below(root, "/proc/cpuinfo")).unwrap_or_default();
    let flags = cores.lines().find(|line| line.starts_with("flags"));
    if flags.is_some_and(|line| line.split_whitespace().any(|it| it == "hypervisor")) {
        facts.set("host.hypervisor", "yes");
    }
    let supplies = below(root, "/sys/class/power_supply");
    if !super::files::entries(&supplies, "BAT").is_empty() {
        facts.set("host.battery", "yes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_percent_of_a_core() {
        let of = |text: &str| quota_percent(&Ok(text.to_owned()));
        assert_eq!(of("150000 100000\n"), Some(150));
        assert_eq!(of("max 100000\n"), None);
        assert_eq!(of("1 0"), None);
        assert_eq!(of(""), None);
    }
}
