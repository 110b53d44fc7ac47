//! The signals that end a run.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_default;
use signal_hook::iterator::Signals;

/// Installs the handlers. Once `deadly` is set, the next signal ends the process at once.
pub(super) fn install_handlers(deadly: &Arc<AtomicBool>) -> std::io::Result<Signals> {
    let mut signals = vec![SIGINT, SIGTERM];
    // With nohup(1) a run continues when its terminal closes.
    if !ignores_hangup() {
        signals.push(SIGHUP);
    }
    for signal in &signals {
        register_conditional_default(*signal, Arc::clone(deadly))?;
    }
    Signals::new(signals)
}

/// Whether the process was started with SIGHUP ignored. `SigIgn` is a hexadecimal mask of ignored
/// signals, and SIGHUP is its lowest bit.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 == 1)
}
