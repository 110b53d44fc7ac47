//! The identity of a request.

/// Identifies a request for its answer; opaque to the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId {
    pub connection: u64,
    pub sequence: u64,
}
