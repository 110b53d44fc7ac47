//! Faults that unit tests inject into this crate, to show that they find them. In other builds no
//! fault can be injected, and the check for a fault is a constant false.

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Injected {
    /// A void entry is replayed at startup.
    VoidReplayed,
    /// The offsets of partitions are not set back when entries become void.
    OffsetsNotSetBack,
    /// Compaction takes entries that later entries may overwrite, or that followers need.
    UncommittedCompacted,
    /// A snapshot gets its name before all that it has is committed.
    NamedBeforeCommit,
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

/// Injects this fault, and no other, into this thread.
#[cfg(test)]
pub(crate) fn inject(fault: Option<Injected>) {
    INJECTED.set(fault);
}
