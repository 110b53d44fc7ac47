//! The reads of entries from the log that are wanted: for followers that lack them, and for
//! machines that are loaded again. One read is under way at a time.

use muster_replication::{Group, Index};
use muster_storage::{FetchPlan, FileOp, FileToken, ShardLog};
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// The bytes that a read has at most, unless a single block is longer.
const READ_BYTES_MAX: u32 = 1 << 20;

/// The receiver of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    Follower,
    Machines,
}

#[derive(Debug)]
pub(super) struct Want {
    pub(super) group: Group,
    pub(super) range: RangeInclusive<Index>,
    pub(super) by: For,
}

#[derive(Debug)]
pub(super) struct Reads {
    pub(super) token: FileToken,
    wanted: VecDeque<Want>,
    pub(super) under_way: Option<(Want, FetchPlan)>,
    /// The reason why machines cannot be loaded.
    pub(super) failed: Option<String>,
}

impl Reads {
    pub(super) fn new(token: FileToken) -> Self {
        Self { token, wanted: VecDeque::new(), under_way: None, failed: None }
    }

    pub(super) fn want(&mut self, group: Group, range: RangeInclusive<Index>, by: For) {
        self.wanted.push_back(Want { group, range, by });
    }

    /// The group is gone, and so is all that waits for its entries.
    pub(super) fn forget(&mut self, group: Group) {
        self.wanted.retain(|want| want.group != group);
    }

    /// Begins the next read that can begin. Returns the wants of followers that the log does not
    /// have. Entries for machines are committed, so a block that is not durable yet will be.
    pub(super) fn begin(&mut self, log: &mut ShardLog, ops: &mut Vec<FileOp>) -> Vec<Want> {
        let mut unknown = Vec::new();
        for _ in 0..self.wanted.len() {
            if self.under_way.is_some() {
                break;
            }
            let Some(want) = self.wanted.pop_front() else { break };
            let range = want.range.start().0..=want.range.end().0;
            match log.fetch_plan(want.group.0, range, READ_BYTES_MAX, self.token, ops) {
                Some(plan) => self.under_way = Some((want, plan)),
                None if want.by == For::Machines => self.wanted.push_back(want),
                None => unknown.push(want),
            }
        }
        unknown
    }
}
