//! Work of a shard that stands still, and the lines of the log about it.

use super::{Shard, Stopping};
use crate::stall::{Change, FilesStanding, Seen, Standing, Work, in_words};
use muster_codec::ApiKey;
use muster_coordinator::RequestId;
use tracing::{error, info};

/// The check of all connections takes several turns. This is the time from one to the next.
const LOOK_ON_MS: i64 = 10;

impl Shard {
    /// Sets the progress of the shard's file operations, which the caller performs.
    pub(crate) fn set_files(&mut self, files: FilesStanding) {
        self.stalls.files = files;
    }

    /// Whether it is time to look for work without progress.
    pub(crate) fn is_look_due(&self, now: i64) -> bool {
        self.stalls.is_due(now)
    }

    /// Looks for work without progress, now and then.
    pub(super) fn look_at_stalls(&mut self) {
        let now = self.times.now;
        if !self.stalls.is_due(now) {
            return;
        }
        let handled = self.counters.requests_handled;
        let Self { clients, partitions, shares, long, stalls, groups, broker, stopping, .. } = self;
        let long = long.request();
        let is_parked = |request: RequestId, api: ApiKey| {
            if api == ApiKey::Fetch {
                return partitions.is_parked(request, now);
            }
            if matches!(api, ApiKey::ShareFetch | ApiKey::ShareAcknowledge) {
                return shares.is_parked(request, now);
            }
            let waits_for_members = matches!(api, ApiKey::JoinGroup | ApiKey::SyncGroup);
            // A long request may take many slices, and other input has its turns between them.
            waits_for_members || long == Some(request)
        };
        let Some(looked_at) = clients.look(handled, is_parked) else {
            return stalls.look_on(now + LOOK_ON_MS);
        };
        let files = stalls.files;
        let own = [
            (Work::Operations, files.operation_since),
            (Work::Deferred, files.deferred_since),
            (Work::Log, groups.flushing_since()),
            (Work::Timers, groups.timers_late_since(now)),
            (Work::Input, clients.input_stands_since()),
        ];
        let own = own.into_iter().filter_map(|(work, since)| Some((work, since?)));
        let requests = looked_at.oldest.into_iter();
        let requests = requests.map(|(api, since)| (Work::Requests(api), since));
        let standing = |(work, since)| Standing { work, since };
        let mut all: Vec<_> = own.chain(requests).map(standing).collect();
        stalls.seen = Seen { handled, has_waiting: looked_at.is_awaited || !all.is_empty() };
        // A stop has a time limit of its own, and accepts no further requests.
        all.retain(|_| *stopping == Stopping::No);
        let shard = broker.number();
        for change in stalls.look(now, &all, |api| clients.answered(api)) {
            match change {
                Change::Began(work, ms) => {
                    error!(target: "stall", shard, "shard {shard}: {}", in_words(work, ms));
                }
                Change::Ended(work, ms) => {
                    info!(target: "stall", shard, "shard {shard}: over: {}", in_words(work, ms));
                }
            }
        }
    }

    /// The time of the next check; None if there is no work that could stall.
    pub(super) fn look_deadline(&self) -> Option<i64> {
        let Seen { handled, has_waiting } = self.stalls.seen;
        let has_work = has_waiting
            || handled != self.counters.requests_handled
            || !self.runtime.is_flushed()
            || !self.partitions.is_quiet();
        let next_look = self.stalls.next_look();
        // If a timer does not fire in time, only this deadline may cause a turn that finds it late.
        let late = || Some(self.groups.late_deadline()?.max(next_look));
        if has_work { Some(next_look) } else { late() }
    }

    /// Whether the disk was slow recently.
    pub(crate) fn is_disk_slow(&self) -> bool {
        self.stalls.is_disk_slow(self.times.now)
    }

    /// The stalled work, and the stuck work, in words.
    pub(crate) fn stalls(&self) -> (Vec<String>, Vec<String>) {
        let now = self.times.now;
        let stuck = self.stalls.stuck(now, |api| self.clients.answered(api));
        (self.stalls.stalled(now), stuck)
    }
}
