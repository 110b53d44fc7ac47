//! Faults inside the crate, which its tests have to find. Only unit tests can inject them: in all
//! other builds the answer is a constant false.

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Injected {
    /// An answer waits for the flush of its own node instead of the quorum's.
    OwnFlushOnly,
    /// A leader that is deposed keeps the records that were not committed.
    UndoForgotten,
    /// A read takes an entry that was proposed before it as the proof that its node leads.
    EarlierEntry,
    /// A block counts as durable when its write begins.
    EarlyFlush,
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

/// This thread has this fault, and no other.
#[cfg(test)]
pub(crate) fn inject(fault: Option<Injected>) {
    INJECTED.set(fault);
}
