//! The metrics of a shard, its files and its TLS sessions, for the admin side and the log.

use super::{Io, Reactor};
use crate::report::{Report, Signs};
use crate::shard::Shard;
use crossbeam_channel::Sender;
use muster_counters::{Copies, Totals};
use tracing::debug;

impl<I: Io> Reactor<I> {
    /// Copies of all counters and gauges of a shard.
    fn numbers(&self, shard: &Shard) -> Copies {
        let mut numbers = shard.inspect().numbers();
        numbers.push(Box::new(self.files.counters()));
        numbers.push(Box::new(self.files.gauges(self.times.now)));
        numbers.push(Box::new(self.sessions.numbers(self.times.wall.0)));
        numbers.push(Box::new(self.sessions.handshakes.limits()));
        numbers
    }

    /// Sends copies of the shard's counters and gauges to the admin side, even if it no longer
    /// waits for them.
    pub(super) fn report(&self, shard: &Shard, to: &Sender<Report>) {
        let inspection = shard.inspect();
        let (stalled, stuck) = shard.stalls();
        let signs = Signs {
            shard: inspection.number(),
            is_stopping: inspection.is_stopping(),
            is_failed: inspection.is_failed(),
            flushing_ms: inspection.flushing_ms(),
            is_log_full: inspection.is_log_full(),
            offline_partitions: inspection.offline_partitions(),
            damaged_parts: inspection.damaged_parts(),
            is_disk_short: inspection.is_disk_short(),
            is_full: self.is_full,
            troubles: shard.troubles(),
            stalled,
            stuck,
        };
        let certificates = self.sessions.listeners.iter();
        let _ = to.try_send(Report {
            shard: inspection.number(),
            numbers: self.numbers(shard),
            certificates: certificates.map(|tls| Some(tls.as_ref()?.expires_at)).collect(),
            obstacles: signs.obstacles(),
            stalled: signs.stalled(),
            stuck: signs.stuck(),
            is_disk_slow: shard.is_disk_slow(),
            warnings: signs.warnings(),
        });
    }

    /// Logs all counters and gauges of a stopped shard.
    pub(super) fn report_counters(&self, shard: &Shard) {
        let mut totals = Totals::default();
        totals.count(&self.numbers(shard));
        debug!("shard {} counted: {totals}", shard.inspect().number());
    }
}
