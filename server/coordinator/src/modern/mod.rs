//! The parts that groups of the newer protocols share: consumer groups, and later share and streams
//! groups (KIP-848, KIP-932, KIP-1071).
//!
//! Each works alike: changed subscriptions bump the group epoch; a target assignment is computed
//! for a group epoch; each member is reconciled to it step by step, such that a partition is
//! assigned only after its former owner has released it; the answer holds the member's current
//! assignment.

pub(crate) mod members;
pub(crate) mod names;
pub(crate) mod owned;
pub(crate) mod owners;
pub(crate) mod reconcile;
pub(crate) mod state;
pub(crate) mod subscriptions;
pub(crate) mod target;
pub(crate) mod topic_hashes;
