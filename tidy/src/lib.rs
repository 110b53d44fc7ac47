//! Rules for the sources of the workspace that rustfmt and clippy do not have: `cargo test -p tidy`
//! checks them.
//!
//! What does not keep a rule yet stands in `ratchet.toml`. Its numbers may only go down:
//! `TIDY_UPDATE=1 cargo test -p tidy` lowers them.

#![forbid(unsafe_code)]

mod imports;
mod ratchet;
mod sources;
mod words;

pub use imports::{ModuleGraph, module_graph};
pub use ratchet::Ratchet;
pub use sources::{Source, Sources};
pub use words::{BANNED, Banned, lacks_noun, says_behind, starts_with_pronoun};

/// The longest line, as rustfmt has it; it leaves comments and strings alone.
pub const COLUMNS: usize = 100;

/// The most lines of a file.
pub const LINES: usize = 500;
