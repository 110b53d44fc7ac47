//! The walk over the states of all machines that appends them to a log again.

use crate::{AnyWalk, NotRestated, TopicSet};
use muster_storage::{LogPartition, ShardLog};

/// The partition whose state is appended next, and the progress in it; None after the last.
#[derive(Debug)]
pub struct Restating(Option<Part>);

#[derive(Debug)]
struct Part {
    partition: LogPartition,
    walk: Option<AnyWalk>,
}

impl Restating {
    /// Begins with the first partition.
    pub fn new(topics: &mut dyn TopicSet) -> Self {
        Self(Part::after(topics, None))
    }

    /// Appends about `count` records of the first partition that has any, each as an operation, and
    /// does not apply them. Returns false after the last partition.
    ///
    /// # Errors
    /// A part of the state in the snapshot is damaged, or a record is too large for the log.
    pub fn append(
        &mut self,
        topics: &mut dyn TopicSet,
        log: &mut ShardLog,
        now: i64,
        count: usize,
    ) -> Result<bool, NotRestated> {
        let before = log.progress().accepted();
        while log.progress().accepted() == before
            && let Some(Part { partition, walk }) = &mut self.0
        {
            let LogPartition { topic, index } = *partition;
            let has_more = match topics.get(topic) {
                Some(of) => of.restate(index, walk, count, (&mut *log, now))?,
                None => false,
            };
            if !has_more {
                self.0 = Part::after(topics, Some(LogPartition { topic, index }));
            }
        }
        Ok(self.0.is_some())
    }
}

impl Part {
    /// The partition that follows another one.
    fn after(topics: &mut dyn TopicSet, after: Option<LogPartition>) -> Option<Self> {
        topics.next(after).map(|partition| Self { partition, walk: None })
    }
}
