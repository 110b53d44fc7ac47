//! The answers of a shard to the admin side. An answer leaves once the state of groups in it is
//! durable, like every other answer.

use super::Shard;
use crate::inquiry::{About, Finding, GroupFound, Inquiry};
use crate::partitions::{Effects, Reader, RecordRead, RecordReadEnd};
use crossbeam_channel::Sender;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The maximum number of answers that wait for the disk. Further questions are dropped.
const WAITING_MAX: usize = 16;

/// The maximum number of questions that wait for records to be read. Other questions do not wait
/// for these reads, and so are answered even while the disk hangs.
const READS_MAX: usize = 4;

/// The size of a page of groups: see [`Coordinator::survey`](muster_coordinator::Coordinator).
const GROUPS_ROOM: usize = 512;

/// The maximum number of partitions in a page.
const PARTITIONS_MAX: usize = 2_048;

/// The approximate number of share partitions in a page, and the maximum number for one group.
const SHARES_MAX: usize = 1_024;

/// The questions that wait for the disk.
#[derive(Debug, Default)]
pub(super) struct Inquiries {
    /// Answers that wait until the log is durable up to a position.
    undurable: VecDeque<(u64, Sender<Finding>, Finding)>,
    /// Questions about records, by the number of the read that will answer them.
    reads: BTreeMap<u64, Sender<Finding>>,
    last_read: u64,
}

impl Inquiries {
    fn begin_read(&mut self, to: Sender<Finding>) -> Reader {
        self.last_read += 1;
        self.reads.insert(self.last_read, to);
        Reader::Operator(self.last_read)
    }

    /// Sends the result of a read.
    fn end_read(&mut self, number: u64, end: RecordReadEnd) {
        if let Some(to) = self.reads.remove(&number) {
            // The thread that asked may have given up.
            let _ = to.send(Finding::Records(end));
        }
    }
}

impl Shard {
    /// Answers a question of the admin side, at once or when the state in the answer is durable.
    pub(super) fn inquire(&mut self, Inquiry { about, to }: Inquiry) {
        if self.inquiries.undurable.len() >= WAITING_MAX {
            return;
        }
        let Some(finding) = self.find(about, &to) else { return };
        let position = match &finding {
            Finding::Groups(..)
            | Finding::Changes(_)
            | Finding::Group(_)
            | Finding::Shares(..)
            | Finding::Reset(_) => self.runtime.log().progress().accepted(),
            Finding::Cluster(_)
            | Finding::Partitions(..)
            | Finding::Bounds(_)
            | Finding::Records(_) => 0,
        };
        self.inquiries.undurable.push_back((position, to, finding));
        self.answer_inquiries();
    }

    /// Passes on the results of reads to their readers.
    pub(super) fn end_reads(&mut self, ended: Vec<(Reader, RecordReadEnd)>) {
        for (reader, end) in ended {
            match reader {
                Reader::Share(number) => self.shares.read_done(number, end),
                Reader::Operator(number) => self.inquiries.end_read(number, end),
            }
        }
    }

    /// Sends the answers that are durable.
    pub(super) fn answer_inquiries(&mut self) {
        let log = self.runtime.log();
        let flushed = log.progress().flushed();
        let is_durable =
            |position: u64| position == 0 || (log.is_recovered() && position <= flushed);
        let waiting = &mut self.inquiries.undurable;
        while let Some((_, to, finding)) =
            waiting.pop_front_if(|(position, ..)| is_durable(*position))
        {
            // The thread that asked may have given up.
            let _ = to.send(finding);
        }
    }

    /// The answer to a question; None if a read sends it later, or if there are too many reads.
    fn find(&mut self, about: About, to: &Sender<Finding>) -> Option<Finding> {
        let Self { broker, groups, partitions, shares, times, .. } = self;
        let end = |id| partitions.served_bounds(id).map(|bounds| bounds.high_watermark);
        Some(match about {
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
            About::Records { id, offset, max_bytes } => {
                if self.inquiries.reads.len() >= READS_MAX {
                    return None;
                }
                let reader = self.inquiries.begin_read(to.clone());
                let (reads_committed, first_whole) = (false, true);
                self.read(RecordRead {
                    reader,
                    id,
                    offset,
                    reads_committed,
                    max_bytes,
                    first_whole,
                });
                return None;
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
            About::Reset(reset) => Finding::Reset(self.reset(reset)),
        })
    }

    fn read(&mut self, read: RecordRead) {
        let mut effects = Effects::default();
        self.partitions.read_records(read, &mut effects);
        self.perform(effects);
    }
}
