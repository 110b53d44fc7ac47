//! The names of listeners and connections.

/// Names a listening socket of one ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListenerId(pub(crate) u32);

/// Identifies one connection, uniquely: its slot may be reused, but with another generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl ConnId {
    /// The slot: below `Config::connections_max`, and small numbers come first, so that callers
    /// can keep their state of a connection in a `Vec`. Free again after `Closed`.
    pub fn index(self) -> usize {
        self.index as usize
    }
}
