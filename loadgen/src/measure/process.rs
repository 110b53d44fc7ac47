//! The resources that a process uses, from Linux's /proc.

use std::fs;
use std::io;
use std::time::Duration;

/// The usage of all threads since the process began.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Usage {
    /// User and system time.
    pub cpu: Duration,
    /// Resident memory.
    pub memory_bytes: u64,
}

/// A process whose usage is read repeatedly.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    pid: u32,
    ticks_per_second: u64,
}

impl Process {
    /// # Errors
    /// There is no such process, or /proc does not show it.
    pub fn of(pid: u32) -> io::Result<Self> {
        let process = Self { pid, ticks_per_second: ticks_per_second() };
        process.usage()?;
        Ok(process)
    }

    pub fn myself() -> io::Result<Self> {
        Self::of(std::process::id())
    }

    /// The usage so far.
    ///
    /// # Errors
    /// The process has ended, or its files in `/proc` can't be read.
    pub fn usage(&self) -> io::Result<Usage> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid))?;
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let ticks = cpu_ticks(&stat).ok_or_else(|| unreadable("stat"))?;
        let memory = resident_kib(&status).ok_or_else(|| unreadable("status"))?;
        Ok(Usage {
            cpu: Duration::from_secs_f64(ticks as f64 / self.ticks_per_second as f64),
            memory_bytes: memory * 1024,
        })
    }
}

/// The memory that new processes can take without swapping.
pub fn available_memory() -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

fn unreadable(file: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("/proc/.../{file} has an unknown form"))
}

/// Fields 14 and 15 of /proc/PID/stat (proc(5)). The second field is the name in parentheses, which
/// may contain any characters.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    user.checked_add(system)
}

/// The resident memory that `/proc/PID/status` states, in KiB. A process that ended and was not
/// waited for has no memory (0), and no such line.
fn resident_kib(status: &str) -> Option<u64> {
    let Some(line) = status.lines().find_map(|line| line.strip_prefix("VmRSS:")) else {
        return status.starts_with("Name:").then_some(0);
    };
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// The unit of the times in /proc/PID/stat. Each process has it in its auxiliary vector (AT_CLKTCK,
/// getauxval(3)). It is 100 on all common architectures.
fn ticks_per_second() -> u64 {
    const AT_CLKTCK: u64 = 17;
    let vector = fs::read("/proc/self/auxv").unwrap_or_default();
    let word = |bytes: &[u8]| Some(u64::from_ne_bytes(bytes.try_into().ok()?));
    vector
        .chunks_exact(16)
        .find(|entry| word(&entry[..8]) == Some(AT_CLKTCK))
        .and_then(|entry| word(&entry[8..]))
        .filter(|ticks| *ticks > 0)
        .unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_memory_and_time() {
        let process = Process::myself().unwrap();
        let before = process.usage().unwrap();
        assert!(before.memory_bytes > 100_000, "{before:?}");
        let mut sum = 0_u64;
        while process.usage().unwrap().cpu < before.cpu + Duration::from_millis(30) {
            sum = (0..1_000_000_u64).fold(sum, |sum, n| sum.wrapping_mul(31).wrapping_add(n));
        }
        assert!(sum != 1);
    }

    #[test]
    fn a_name_may_hold_anything() {
        let stat = "42 (a) b (c 1 2) S 1 1 1 0 -1 4194560 9 9 9 9 120 30 5 5 20 0 1 0 100";
        assert_eq!(cpu_ticks(stat), Some(150));
        assert_eq!(cpu_ticks("42 (a) S 1"), None);
        assert_eq!(cpu_ticks(""), None);
    }

    #[test]
    fn memory_is_a_line_of_status() {
        assert_eq!(resident_kib("Name:\tx\nVmRSS:\t   1234 kB\nThreads:\t1\n"), Some(1234));
        assert_eq!(resident_kib("Name:\tgone\nThreads:\t1\n"), Some(0));
        assert_eq!(resident_kib("Name:\tx\nVmRSS:\t many kB\n"), None);
        assert_eq!(resident_kib(""), None);
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        assert!(Process::of(u32::MAX).is_err());
    }
}
