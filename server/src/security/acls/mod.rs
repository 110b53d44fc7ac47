//! Access control lists, with the meaning that Kafka's `StandardAuthorizer` gives them.
//!
//! [`Acls`] is the set of them, in the image of the cluster. [`Permissions`] decides what a client
//! may do: the same set, the rules of the config, the client's principal and address.

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
