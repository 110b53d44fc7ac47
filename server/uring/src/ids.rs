//! The ids of listeners and connections.

/// Identifies a listening socket of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListenerId(pub(crate) u32);

/// Identifies a connection uniquely. Its slot may be reused, but with another generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl ConnId {
    /// The slot, a number below `Config::connections_max`. A new slot is used only if no earlier
    /// slot is free, so that callers can keep their per-connection state in a `Vec`. The slot is
    /// free again after `Closed`.
    pub fn index(self) -> usize {
        self.index as usize
    }
}
