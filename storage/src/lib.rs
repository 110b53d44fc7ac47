//! A shard's log, and the logs of the partitions it leads: decides file operations, does not
//! perform them.

#![forbid(unsafe_code)]

pub mod file_op;

pub use file_op::{FileDone, FileId, FileOp, FileToken, OpenMode};
