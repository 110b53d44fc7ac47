//! Rules for the workspace that rustfmt and clippy do not have: `cargo test -p tidy` checks them.
//!
//! Each [`Rule`] finds its [`Breach`]es in a [`Workspace`]. Each rule also has a [`Canary`]:
//! examples of workspaces. Some break the rule and prove that it can fail; similar ones keep the
//! rule.
//!
//! Existing breaches are counted in `ratchet.toml`. Its numbers may only go down: `TIDY_UPDATE=1
//! cargo test -p tidy` lowers them.

#![forbid(unsafe_code)]

mod graph;
mod packages;
mod ratchet;
mod rule;
mod rules;
mod source;
mod workspace;

pub use packages::{Deny, Exception, Package, Skipped};
pub use ratchet::Ratchet;
pub use rule::{Breach, Canary, Rule};
pub use rules::RULES;
pub use source::Source;
pub use workspace::Workspace;
