//! The questions about share state that group coordinators have asked. Each turn answers for some
//! of the partitions. So a group with many partitions does not hold up other groups, and its
//! records do not fill the log.

use crate::mailbox::{StateAnswer, StateQuestion};
use crate::net::VisibleAt;
use muster_codec::Uuid;
use muster_coordinator::StateRequest;
use muster_shares::state::Initialize;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

/// The number of partitions in a slice: about a millisecond of work, and some 40 KB of the log.
pub(crate) const SLICE_PARTITIONS: usize = 512;

/// The questions that are being answered, and the answers that wait for a flush.
#[derive(Debug, Default)]
pub(super) struct StateQuestions {
    /// The questions by group. Questions about one group are answered in the order of their
    /// arrival.
    pub(super) by_group: BTreeMap<Arc<str>, VecDeque<Answering>>,
    /// The group of the last slice; the next slice is of the group after it.
    pub(super) last: Option<Arc<str>>,
    /// Results that leave when the positions that they depend on are durable.
    pub(super) unflushed: Vec<(VisibleAt, StateAnswer)>,
}

/// A question, and the place of the next partition in its request.
#[derive(Debug)]
pub(super) struct Answering {
    pub(super) question: StateQuestion,
    topic: usize,
    partition: usize,
    /// The positions that must be durable before the next results are sent. It includes those of
    /// earlier results, so that the results stay in order.
    pub(super) visible_at: VisibleAt,
}

impl StateQuestions {
    /// Whether partitions are left for later slices.
    pub(super) fn are_left(&self) -> bool {
        !self.by_group.is_empty()
    }

    /// The group whose turn it is.
    pub(super) fn next_group(&self) -> Option<Arc<str>> {
        let after = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut later = self.by_group.range::<Arc<str>, _>((after, Bound::Unbounded));
        let next = later.next().or_else(|| self.by_group.first_key_value());
        next.map(|(group, _)| Arc::clone(group))
    }
}

impl Answering {
    pub(super) fn new(question: StateQuestion) -> Self {
        Self { question, topic: 0, partition: 0, visible_at: VisibleAt::Now }
    }

    /// The next partition, with its initial values if the request initializes state.
    pub(super) fn next(&mut self) -> Option<(Uuid, i32, Option<Initialize>)> {
        loop {
            let Self { topic, partition: at, .. } = *self;
            let (topic_id, next) = match &self.question.request {
                StateRequest::Initialize { state_epoch, topics } => {
                    let (topic_id, partitions) = topics.get(topic)?;
                    let next = partitions.get(at).map(|(partition, start)| {
                        let start_offset = start.offset();
                        (*partition, Some(Initialize { state_epoch: *state_epoch, start_offset }))
                    });
                    (*topic_id, next)
                }
                StateRequest::Delete(topics) | StateRequest::ReadSummary(topics) => {
                    let (topic_id, partitions) = topics.get(topic)?;
                    (*topic_id, partitions.get(at).map(|partition| (*partition, None)))
                }
            };
            if let Some((partition, initialize)) = next {
                self.partition += 1;
                return Some((topic_id, partition, initialize));
            }
            (self.topic, self.partition) = (topic + 1, 0);
        }
    }
}
