//! How connections are named.

/// The id of a connection; never used twice. The lower half is its index ([`Self::slot`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    pub fn new(slot: u32, serial: u32) -> Self {
        Self(u64::from(serial) << 32 | u64::from(slot))
    }

    /// The index of the connection in tables of connections: a small number, which no other open
    /// connection has.
    pub fn slot(self) -> usize {
        self.0 as u32 as usize
    }
}
