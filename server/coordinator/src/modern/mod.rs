//! What the groups of the newer protocols share: consumer groups today, share and streams groups
//! later (KIP-848, KIP-932, KIP-1071).
//!
//! Each follows the same line: what members subscribe to makes a group epoch; a group epoch gets a
//! target assignment; each member is brought to the target's epoch step by step, such that a
//! partition is given only once its former owner released it; the answer tells the member what it
//! may own now.

pub(crate) mod names;
pub(crate) mod owned;
pub(crate) mod owners;
pub(crate) mod reconcile;
pub(crate) mod roster;
pub(crate) mod state;
pub(crate) mod subscriptions;
pub(crate) mod target;
pub(crate) mod topic_hashes;
