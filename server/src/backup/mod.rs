//! A backup of a running server. It has the files as `kill -9` of the process would leave them at
//! one moment.
//!
//! `muster backup` (`backup_tool.rs`) makes the directory `backup` in the data directory, with a
//! ticket, and sends the ticket to the admin listener. The ticket proves that the client can write
//! in the data directory. Then the server acts:
//!
//! 1. The threads of all shards meet ([`Meeting`]). So no shard is ahead of another: for example,
//!    if the backup has the commit of an offset, it also has the record before this offset.
//! 2. Each shard notes how much of its files has been written ([`Extents`]). The thread for its
//!    file system calls then makes hard links in the directory `backup/TICKET` ([`Links`]). It does
//!    so in order with the shard's other calls that change names.
//! 3. The answer has the extents. The server continues: it removes names, and appends after the
//!    extents. It never changes a linked file in another way; a file that it would reuse is removed
//!    instead.
//!
//! The tool then copies or links the files, up to their extents, and removes `backup`.
//!
//! The meeting takes at most a second. While the server serves, this is the only time when a
//! shard's thread waits for other shards.

mod extents;
mod links;
mod meeting;
mod stage;

pub(crate) use extents::{Extents, FileExtent};
pub(crate) use links::Links;
pub(crate) use meeting::{BackupOrder, Meeting};
pub(crate) use stage::{Stage, give, is_under_way, names_in, remove_left, ticket_of};

/// The directory, in the data directory, in which a backup is made.
pub(crate) const BACKUP: &str = "backup";
