//! The answers of a shard to the admin side. An answer leaves once the state of groups in it is
//! durable, like every other answer.

use super::Shard;
use crate::inquiry::{About, Finding, GroupFound, Inquiry};
use crossbeam_channel::Sender;
use std::collections::VecDeque;
use std::sync::Arc;

/// The maximum number of answers that wait for the disk. Further questions are dropped.
const WAITING_MAX: usize = 16;

/// The size of a page of groups: see [`Coordinator::survey`](muster_coordinator::Coordinator).
const GROUPS_ROOM: usize = 512;

/// The maximum number of partitions in a page.
const PARTITIONS_MAX: usize = 2_048;

/// The approximate number of share partitions in a page, and the maximum number for one group.
const SHARES_MAX: usize = 1_024;

/// The answers that wait until the log is durable up to a position.
#[derive(Debug, Default)]
pub(super) struct Inquiries(VecDeque<(u64, Sender<Finding>, Finding)>);

impl Shard {
    /// Answers a question of the admin side, at once or when the state in the answer is durable.
    pub(super) fn inquire(&mut self, inquiry: Inquiry) {
        if self.inquiries.0.len() >= WAITING_MAX {
            return;
        }
        let finding = self.find(inquiry.about);
        let position = match &finding {
            Finding::Groups(..)
            | Finding::Changes(_)
            | Finding::Group(_)
            | Finding::Shares(..)
            | Finding::Reset(_) => self.groups.log().progress().accepted(),
            Finding::Cluster(_) | Finding::Partitions(..) | Finding::Bounds(_) => 0,
        };
        self.inquiries.0.push_back((position, inquiry.to, finding));
        self.answer_inquiries();
    }

    /// Sends the answers that are durable.
    pub(super) fn answer_inquiries(&mut self) {
        let log = self.groups.log();
        let flushed = log.progress().flushed();
        let is_durable =
            |position: u64| position == 0 || (log.is_recovered() && position <= flushed);
        let waiting = &mut self.inquiries.0;
        while let Some((_, to, finding)) =
            waiting.pop_front_if(|(position, ..)| is_durable(*position))
        {
            // The thread that asked may have given up.
            let _ = to.send(finding);
        }
    }

    fn find(&mut self, about: About) -> Finding {
        if let About::Reset(reset) = about {
            return Finding::Reset(self.reset(reset));
        }
        let Self { broker, groups, partitions, shares, times, .. } = self;
        let end = |id| partitions.served_bounds(id).map(|bounds| bounds.high_watermark);
        match about {
            About::Cluster => Finding::Cluster(Arc::clone(broker.image())),
            About::Groups(from) => {
                if from.is_none() {
                    groups.slots_mut().begin_changes();
                }
                let (page, next) = groups.slots().survey(from, GROUPS_ROOM);
                Finding::Groups(Box::new(page), next)
            }
            About::Changes(from) => {
                let found = groups.slots_mut().survey_changes(from, GROUPS_ROOM);
                Finding::Changes(found.map(|(page, next)| (Box::new(page), next)))
            }
            About::Partitions(after) => {
                let page = partitions.bounds_after(after, PARTITIONS_MAX);
                let last = page.last().filter(|_| page.len() == PARTITIONS_MAX).map(|(id, _)| *id);
                Finding::Partitions(page, last)
            }
            About::Bounds(wanted) => {
                let bounds = wanted.into_iter().take(PARTITIONS_MAX);
                Finding::Bounds(bounds.map(|id| partitions.served_bounds(id)).collect())
            }
            About::Group(asked) => {
                let view = groups.slots().view(&asked, groups.time(times.now));
                let (rebalances, under_way) = groups.rebalances(&asked.group_id);
                let rebalances = rebalances.into_iter().cloned().collect();
                Finding::Group(Box::new(GroupFound { view, rebalances, under_way }))
            }
            About::Shares(from) => {
                let (rows, next) = shares.states().starts(from, SHARES_MAX, &end);
                Finding::Shares(rows, next)
            }
            About::SharesOf(group) => {
                let rows = shares.states().starts_of(&group, SHARES_MAX, &end);
                Finding::Shares(rows, None)
            }
            About::Reset(reset) => Finding::Reset(Some(reset)),
        }
    }
}
