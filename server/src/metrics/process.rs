//! Metrics of the process, with the names that Prometheus' own client libraries use.

use super::family::{Families, Type};
use std::fs;

/// Clock ticks per second in Linux' `/proc` files.
const TICKS: f64 = 100.0;

macro_rules! disk {
    ($name:literal) => {
        concat!("kafka_server_kafkaserver_linux_disk_", $name)
    };
}

/// The metrics of the process: name, help, and type.
pub(super) const ROWS: &[(&str, &str, Type)] = &[
    (
        disk!("cancelled_write_bytes"),
        "Bytes of writes that were given up, as their file was cut or removed.",
        Type::Gauge,
    ),
    (disk!("rchar"), "Bytes that the process has read, from the disk or from memory.", Type::Gauge),
    (disk!("read_bytes"), "Bytes that were read from the disk.", Type::Gauge),
    (disk!("syscr"), "Calls of the kernel that read.", Type::Gauge),
    (disk!("syscw"), "Calls of the kernel that write.", Type::Gauge),
    (disk!("wchar"), "Bytes that the process has written, to the disk or to memory.", Type::Gauge),
    (disk!("write_bytes"), "Bytes that were written to the disk.", Type::Gauge),
    ("process_cpu_seconds", "Processor time of the process.", Type::Counter),
    ("process_max_fds", "The limit of descriptors (RLIMIT_NOFILE).", Type::Gauge),
    ("process_open_fds", "Open descriptors of the process.", Type::Gauge),
    ("process_resident_memory_bytes", "Memory of the process that is resident.", Type::Gauge),
    ("process_start_time_seconds", "When the process started, since 1970.", Type::Gauge),
    ("process_threads", "Threads of the process.", Type::Gauge),
    ("process_virtual_memory_bytes", "Address space of the process.", Type::Gauge),
];

/// Adds those metrics of the process that can be read.
pub(super) fn add(families: &mut Families) {
    for (name, help, of_type) in ROWS {
        if let Some(value) = value(name) {
            families.family(name, help, *of_type).add(Vec::new(), value);
        }
    }
}

fn value(name: &str) -> Option<f64> {
    match name {
        "process_cpu_seconds" => Some((stat(13)? + stat(14)?) / TICKS),
        "process_max_fds" => {
            let limits = fs::read_to_string("/proc/self/limits").ok()?;
            let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
            line.split_whitespace().next()?.parse().ok()
        }
        "process_open_fds" => Some(fs::read_dir("/proc/self/fd").ok()?.count() as f64),
        "process_resident_memory_bytes" => Some(status("VmRSS:")? * 1_024.0),
        "process_start_time_seconds" => Some(booted()? + stat(21)? / TICKS),
        "process_threads" => stat(19),
        "process_virtual_memory_bytes" => Some(status("VmSize:")? * 1_024.0),
        _ => io(name.strip_prefix(disk!(""))?),
    }
}

/// A number in `/proc/self/io`, which the kernel may not show.
fn io(name: &str) -> Option<f64> {
    let io = fs::read_to_string("/proc/self/io").ok()?;
    let mut lines = io.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(key, _)| *key == name)?.1.parse().ok()
}

/// A field of `/proc/self/stat`, counted from 0. The process name, in parentheses, may contain
/// spaces.
fn stat(place: usize) -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, behind) = stat.rsplit_once(") ")?;
    behind.split(' ').nth(place - 2)?.parse().ok()
}

fn status(name: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// When the machine was booted, in seconds since 1970.
fn booted() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_of_the_process_can_be_read() {
        let values: Vec<_> = ROWS.iter().map(|(name, ..)| value(name)).collect();
        assert!(values.iter().all(|value| value.is_some_and(|it| it >= 0.0)), "{values:?}");
        let of = |name| value(name).unwrap();
        assert!(of("process_threads") >= 1.0 && of("process_open_fds") < of("process_max_fds"));
        assert!(of("process_resident_memory_bytes") < of("process_virtual_memory_bytes"));
        let age = crate::clock::wall().0 as f64 / 1_000.0 - of("process_start_time_seconds");
        assert!((-2.0..86_400.0).contains(&age), "{age}");
    }
}
