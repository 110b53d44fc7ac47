//! The copy with which the running check compares live states. It is replayed from the log.

use muster_codec::DecodeError;
use muster_codec::record_batch::Batch;
use std::fmt::Debug;
use std::sync::Arc;

/// A copy of a sample of a machine's states, as the log produces them. Its memory is bounded: if it
/// grows too large, it drops half of the states.
pub trait CheckCopy: Debug {
    /// The word before an id in the description of a difference, such as "group".
    fn noun(&self) -> &'static str;

    /// The sample has one id in 2^`halvings`.
    fn halvings(&self) -> u32;

    /// Whether the copy has the states of an id, if there are any.
    fn has(&self, id: &str) -> bool;

    /// Applies a batch of the log.
    ///
    /// # Errors
    /// A record cannot be read.
    fn replay(&mut self, batch: &Batch<'_>) -> Result<(), DecodeError>;

    /// The id of the copy that follows `after`.
    fn next(&self, after: Option<&Arc<str>>) -> Option<Arc<str>>;

    fn digest(&mut self, id: &str) -> Digest;
}

/// The digest of a state. To take it, a state that is not loaded from the snapshot need not be
/// loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digest {
    /// None if nothing has the id.
    pub fingerprint: Option<u64>,
    /// The amount of work to take it.
    pub items: usize,
}

/// The next id of a machine.
#[derive(Debug, PartialEq, Eq)]
pub enum NextId {
    Wanted(Arc<str>),
    /// No wanted id was found. This is the last id that was visited, for the next call.
    Unwanted(Arc<str>),
    End,
}

impl NextId {
    /// The first wanted id among the ids that follow `after`. Visits at most `visits` of them.
    pub fn among<I: AsRef<str> + Into<Arc<str>>>(
        ids: impl Iterator<Item = I>,
        after: Option<&Arc<str>>,
        visits: usize,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Self {
        let (mut visited, mut last) = (0, None);
        for id in ids.take(visits) {
            if is_wanted(id.as_ref()) {
                return Self::Wanted(id.into());
            }
            (visited, last) = (visited + 1, Some(id));
        }
        match last.map(Into::into).or_else(|| after.cloned()) {
            Some(last) if visited == visits => Self::Unwanted(last),
            Some(_) | None => Self::End,
        }
    }
}
