//! The room on a file system.

use std::path::Path;
use std::process::Command;

/// Leaves about this number of bytes of the file system free.
pub fn fill(volume: &Path, filler: &Path, free: u64) {
    for _ in 0..3 {
        let (have, left) = (std::fs::metadata(filler).map_or(0, |it| it.len()), available(volume));
        let length = (have + left.saturating_sub(free)).max(1).to_string();
        let _ = Command::new("fallocate").args(["-l", &length]).arg(filler).output().unwrap();
    }
    assert!(available(volume) <= free + (1 << 20), "{} are left", available(volume));
}

fn available(volume: &Path) -> u64 {
    let output = Command::new("df").args(["--output=avail", "-B1"]).arg(volume).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().last().unwrap().trim().parse().unwrap()
}
