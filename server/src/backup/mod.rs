//! A backup of a running server: the files as `kill -9` of the process would leave them at one
//! moment.
//!
//! `muster backup` (`backup_tool.rs`) makes the directory `backup` in the data directory, with a
//! ticket, and sends the ticket to the admin listener. A client that can do this may write in the
//! data directory anyway. Then, within the server:
//!
//! 1. The threads of all shards meet ([`Meeting`]), so that no shard has done anything that another
//!    one does not know yet: a commit of an offset, for example, of a record that is not in the
//!    backup.
//! 2. Each shard says how far its files are written ([`Extents`]), and its thread for files gives
//!    them a second name below `backup/files` ([`Links`]), after all changes of names that the
//!    shard has asked for, and before those that follow.
//! 3. The answer has the extents. From then on the server does what it likes with its files: it
//!    removes names, and appends behind the extents. It writes nothing else in files that have a
//!    second name; those that would be reused are removed instead.
//!
//! The tool takes the files over, up to their extents, and removes `backup`.

mod extents;
mod links;
mod meeting;
mod stage;

pub(crate) use extents::{Extents, FileExtent};
pub(crate) use links::Links;
pub(crate) use meeting::{BackupOrder, Meeting};
pub(crate) use stage::{Stage, give, is_under_way, names_in, remove_left, ticket_of};

/// The directory in the data directory in which a backup is made.
pub(crate) const BACKUP: &str = "backup";
