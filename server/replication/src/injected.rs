//! Faults that tests inject into this crate, and that the world (the simulated cluster) has to
//! find. Only unit tests can inject them. In all other builds, `is_injected` is a constant false.

/// A fault. `docs/raft.md` has its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Injected {
    /// 10: the commit index of a heartbeat is not checked.
    UncheckedHeartbeat,
    /// 14: a leader confirms reads by its lease.
    LeaseReads,
    /// 15: a replica stands for election while it installs a snapshot.
    ElectionInInstall,
}

#[cfg(test)]
std::thread_local! {
    static INJECTED: std::cell::Cell<Option<Injected>> = const { std::cell::Cell::new(None) };
}

impl Injected {
    /// Whether this thread has the fault.
    #[cfg(test)]
    pub(crate) fn is_injected(self) -> bool {
        INJECTED.get() == Some(self)
    }

    #[cfg(not(test))]
    pub(crate) const fn is_injected(self) -> bool {
        false
    }
}

/// Injects this fault into the current thread. It replaces the thread's previous fault.
#[cfg(test)]
pub(crate) fn inject(fault: Option<Injected>) {
    INJECTED.set(fault);
}
