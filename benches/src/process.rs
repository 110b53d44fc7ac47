//! What a process has used so far, as `/proc` counts it.

use std::fs;
use std::ops::Sub;

use crate::wire::Result;

/// Linux counts `/proc/PID/stat` in hundredths of a second on every architecture (USER_HZ).
const TICKS_PER_SECOND: f64 = 100.0;

/// Seconds on a CPU of all threads of a process, those that have ended and the kernel's io_uring
/// workers for it included.
#[derive(Clone, Copy)]
pub(crate) struct CpuSeconds {
    pub(crate) user: f64,
    pub(crate) system: f64,
}

impl CpuSeconds {
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let stat = read(pid, "stat")?;
        // The second field is the command in parentheses and may hold anything.
        let (_, fields) = stat.rsplit_once(')').ok_or("no command in /proc/PID/stat")?;
        let mut times = fields.split_ascii_whitespace().skip(11).map(str::parse::<f64>);
        match (times.next(), times.next()) {
            (Some(Ok(user)), Some(Ok(system))) => {
                Ok(Self { user: user / TICKS_PER_SECOND, system: system / TICKS_PER_SECOND })
            }
            _ => Err("no utime and stime in /proc/PID/stat".into()),
        }
    }

    pub(crate) fn total(self) -> f64 {
        self.user + self.system
    }
}

impl Sub for CpuSeconds {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self { user: self.user - earlier.user, system: self.system - earlier.system }
    }
}

/// Seconds in which a core was not idle: also what the kernel did there for nobody in particular,
/// such as interrupts of the disk and of the network.
pub(crate) fn core_busy_seconds(core: u32) -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let name = format!("cpu{core}");
    let line = stat.lines().find(|line| line.split_ascii_whitespace().next() == Some(&name));
    let line = line.ok_or_else(|| format!("no {name} in /proc/stat"))?;
    let fields = line.split_ascii_whitespace().skip(1).map(str::parse::<f64>);
    let ticks = fields.collect::<std::result::Result<Vec<f64>, _>>()?;
    // user, nice, system, idle, iowait, irq, softirq; steal belongs to other machines.
    let busy: f64 = [0, 1, 2, 5, 6].iter().filter_map(|&field| ticks.get(field)).sum();
    Ok(busy / TICKS_PER_SECOND)
}

/// Bytes of memory that a process holds now.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64> {
    let status = read(pid, "status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kibibytes.ok_or("no VmRSS in /proc/PID/status")?.parse::<u64>()? * 1024)
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).map_err(|error| format!("{path}: {error}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_works_uses_cpu_and_memory() {
        let pid = std::process::id();
        let before = CpuSeconds::of(pid).unwrap();
        let mut turns = 0u64;
        while (CpuSeconds::of(pid).unwrap() - before).total() < 0.02 {
            turns += 1;
        }
        assert!(turns > 0);
        assert!(core_busy_seconds(0).unwrap() > 0.0);
        assert!(resident_bytes(pid).unwrap() > 100_000);
    }
}
