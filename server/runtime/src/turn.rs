//! The end of a turn.

/// The end of a turn of a shard.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    pub now: i64,
    pub is_stopping: bool,
}
