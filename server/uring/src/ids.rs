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
    /// The number of the connection's slot, which is below `Config::connections_max`. Callers can
    /// keep the state of connections in a `Vec`, because the lowest numbers are used first: a new
    /// slot is used only if no other slot is free. A slot is free again after `Closed`.
    pub fn index(self) -> usize {
        self.index as usize
    }
}
