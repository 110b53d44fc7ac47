//! Begins and ends the reads of entries.

use super::Replication;
use super::reads::{For, Want};
use super::values::entries;
use muster_replication::{Group, Index};
use muster_storage::{FetchedEntry, FileDone, FileOp, FileToken, ShardLog};
use tracing::warn;

impl Replication {
    /// Begins the next read of entries.
    pub fn poll_reads(&mut self, log: &mut ShardLog, ops: &mut Vec<FileOp>) {
        for Want { group, range, .. } in self.reads.begin(log, ops) {
            let first = *range.start();
            self.call(log, |replicas, out| replicas.fetched(group, first, Vec::new(), out));
        }
    }

    /// Whether the token belongs to a read of entries.
    pub fn owns(&self, token: FileToken) -> bool {
        token == self.reads.token
    }

    /// Takes the end of a read.
    pub fn read_done(&mut self, log: &mut ShardLog, done: FileDone) {
        let Some((want, plan)) = self.reads.under_way.take() else {
            unreachable!("no read is under way")
        };
        log.end_fetch(&plan);
        let found = match done {
            FileDone::Read { data, .. } => plan.extract(&data).map_err(|error| error.to_string()),
            FileDone::ReadFailed { reason, .. } => Err(reason),
            other => unreachable!("{other:?} does not end a read"),
        };
        let Want { group, range, by } = want;
        match (by, found) {
            (For::Follower, Ok(found)) => {
                let (entries, first) = (entries(found), *range.start());
                self.call(log, |replicas, out| replicas.fetched(group, first, entries, out));
            }
            (For::Follower, Err(reason)) => {
                let first = *range.start();
                warn!(
                    target: "replicas",
                    group = group.0,
                    first = first.0,
                    "entries that a follower needs cannot be read: {reason}"
                );
                self.replicas.fetch_failed(group, first);
            }
            (For::Machines, Ok(entries)) => self.reloaded(group, entries),
            (For::Machines, Err(reason)) => self.reads.failed = Some(reason),
        }
    }

    fn reloaded(&mut self, group: Group, entries: Vec<FetchedEntry>) {
        let Some(of_group) = self.groups.get_mut(&group) else { return };
        of_group.is_reading = false;
        let entries = entries.into_iter().map(|it| (Index(it.head.index), it.head.kind, it.body));
        of_group.reloaded.extend(entries);
        self.unsettled.insert(group);
    }
}
