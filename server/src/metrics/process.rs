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

/// Adds the metrics of the process. Metrics that cannot be read are left out.
pub(super) fn add(families: &mut Families) {
    let own = OwnFiles::read();
    for (name, help, of_type) in ROWS {
        if let Some(value) = own.value(name) {
            families.family(name, help, *of_type).add(Vec::new(), value);
        }
    }
}

/// The files in `/proc/self` from which several metrics are read. A file is empty if the kernel
/// does not show it.
struct OwnFiles {
    io: String,
    stat: String,
    status: String,
}

impl OwnFiles {
    fn read() -> Self {
        let read = |name| fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        Self { io: read("io"), stat: read("stat"), status: read("status") }
    }

    fn value(&self, name: &str) -> Option<f64> {
        match name {
            "process_cpu_seconds" => Some((self.stat(13)? + self.stat(14)?) / TICKS),
            "process_max_fds" => {
                let limits = fs::read_to_string("/proc/self/limits").ok()?;
                first_number(&limits, "Max open files")
            }
            "process_open_fds" => Some(fs::read_dir("/proc/self/fd").ok()?.count() as f64),
            "process_resident_memory_bytes" => {
                Some(first_number(&self.status, "VmRSS:")? * 1_024.0)
            }
            "process_start_time_seconds" => Some(booted()? + self.stat(21)? / TICKS),
            "process_threads" => self.stat(19),
            "process_virtual_memory_bytes" => {
                Some(first_number(&self.status, "VmSize:")? * 1_024.0)
            }
            _ => self.io(name.strip_prefix(disk!(""))?),
        }
    }

    fn io(&self, name: &str) -> Option<f64> {
        let mut lines = self.io.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| *key == name)?.1.parse().ok()
    }

    /// A field of `stat`, counted from 0. Only the text after the process name is split into
    /// fields, because the name (in parentheses) may contain spaces.
    fn stat(&self, place: usize) -> Option<f64> {
        let (_, behind) = self.stat.rsplit_once(") ")?;
        behind.split(' ').nth(place - 2)?.parse().ok()
    }
}

/// The number that follows `name` in the first line that begins with `name`.
fn first_number(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// When the machine was booted, in seconds since 1970.
fn booted() -> Option<f64> {
    first_number(&fs::read_to_string("/proc/stat").ok()?, "btime")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_of_the_process_can_be_read() {
        let own = OwnFiles::read();
        let values: Vec<_> = ROWS.iter().map(|(name, ..)| own.value(name)).collect();
        assert!(values.iter().all(|value| value.is_some_and(|it| it >= 0.0)), "{values:?}");
        let of = |name| own.value(name).unwrap();
        assert!(of("process_threads") >= 1.0 && of("process_open_fds") < of("process_max_fds"));
        assert!(of("process_resident_memory_bytes") < of("process_virtual_memory_bytes"));
        let age = crate::clock::wall().0 as f64 / 1_000.0 - of("process_start_time_seconds");
        assert!((-2.0..86_400.0).contains(&age), "{age}");
    }
}
