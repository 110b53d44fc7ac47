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
        assert!(resident_bytes(pid).unwrap() > 100_000);
    }
}
