//! Which CPUs threads run on: the cores each on their own, all else beside them. Linux alone can
//! bind a thread to a CPU; elsewhere the system places them.

#[cfg(target_os = "linux")]
pub use self::linux::keep_off;
#[cfg(target_os = "linux")]
pub(super) use self::linux::pin;

#[cfg(target_os = "linux")]
mod linux {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    /// Binds the calling thread to a CPU.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(in crate::driver) fn pin(cpu: usize) -> Result<(), String> {
        let mut only = CpuSet::new();
        if cpu < CpuSet::MAX_CPU {
            only.set(cpu);
        }
        sched_setaffinity(None, &only)
            .map_err(|error| format!("no load core can run on CPU {cpu}: {error}"))
    }

    /// Moves the calling thread, which does little, off the CPUs that generate the load, unless
    /// there is no other CPU.
    pub fn keep_off(cores: &[usize]) {
        let Ok(mut allowed) = sched_getaffinity(None) else { return };
        cores.iter().for_each(|&cpu| allowed.unset(cpu));
        if (0..CpuSet::MAX_CPU).any(|cpu| allowed.is_set(cpu)) {
            // This affects only speed, so an error is ignored.
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
