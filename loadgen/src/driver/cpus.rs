//! The CPUs of the threads: one for each core, the rest for all other threads. Only Linux can bind
//! a thread to a CPU. Other systems place threads themselves.

#[cfg(target_os = "linux")]
pub use self::linux::keep_off;
#[cfg(target_os = "linux")]
pub(super) use self::linux::pin;

#[cfg(target_os = "linux")]
mod linux {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    /// Binds the calling thread to a CPU.
    /// # Errors
    /// The system refused. The error is a sentence for the user.
    pub(in crate::driver) fn pin(cpu: usize) -> Result<(), String> {
        let mut only = CpuSet::new();
        if cpu < CpuSet::MAX_CPU {
            only.set(cpu);
        }
        sched_setaffinity(None, &only)
            .map_err(|error| format!("no load core can run on CPU {cpu}: {error}"))
    }

    /// Moves the calling thread, which does little work, to CPUs that do not generate load, if
    /// there are any.
    pub fn keep_off(cores: &[usize]) {
        let Ok(mut allowed) = sched_getaffinity(None) else { return };
        cores.iter().for_each(|&cpu| allowed.unset(cpu));
        if (0..CpuSet::MAX_CPU).any(|cpu| allowed.is_set(cpu)) {
            // Only speed depends on this, so an error is ignored.
            let _ = sched_setaffinity(None, &allowed);
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn pin(_cpu: usize) -> Result<(), String> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub fn keep_off(_cores: &[usize]) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_does_not_exist_is_a_sentence() {
        for cpu in [999, 100_000] {
            let error = pin(cpu).unwrap_err();
            assert!(error.starts_with(&format!("no load core can run on CPU {cpu}: ")), "{error}");
        }
    }
}
