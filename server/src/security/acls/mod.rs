//! Access control lists, with the rules of Kafka's `StandardAuthorizer`.
//!
//! [`Acls`], in the image of the cluster, has all ACLs. [`Permissions`] decides what one client may
//! do. It combines the ACLs, the rules in the config, and the client's principal and address.
//!
//! Each connection has its [`Permissions`], which caches the last eight decisions (`decided.rs`)
//! and is replaced when ACLs change. With 10,000 ACLs a cached decision takes 10 ns instead of
//! 0.9 µs.

mod acl;
mod decided;
mod filter;
mod kinds;
mod permissions;
mod set;
#[cfg(test)]
mod tests;

pub use acl::{Acl, Entry, Pattern};
pub use filter::{AclFilter, AclFilterFields};
pub use kinds::{Operation, PatternType, Permission, ResourceType};
pub(crate) use permissions::{AclRules, CLUSTER_NAME, Permissions};
pub use set::Acls;
