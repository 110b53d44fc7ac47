//! The metrics about what clients push to a shard.

use muster_codec::ErrorCode;
use muster_counters::counters;

counters! {
    /// The work since the shard's start.
    #[derive(Copy)]
    pub(crate) struct TelemetryCounters in "telemetry" {
        /// Pushes of clients that were passed on.
        pushes: u64 = Counter of Count,
        /// Bytes of pushes that were passed on, as received.
        pushed_bytes: u64 = Counter of Bytes,
        /// Requests that came before the client's next interval.
        throttled: u64 = Counter of Count,
        /// Pushes with a subscription that has changed since: the client asks again.
        unknown_subscriptions: u64 = Counter of Count,
        /// Pushes that were refused because they are malformed, too large, or come after a push
        /// that the client marked as its last.
        refused: u64 = Counter of Count,
        /// Pushes that were dropped because too many are in progress.
        dropped: u64 = Counter of Count,
    }
}

counters! {
    /// The clients now.
    #[derive(Copy)]
    pub(crate) struct TelemetryGauges in "telemetry" {
        /// Client instances that have asked or pushed lately.
        instances: u64 = Gauge of Count,
    }
}

impl TelemetryCounters {
    pub(super) fn refused(&mut self, error: ErrorCode) {
        let counter = if error == ErrorCode::ThrottlingQuotaExceeded {
            &mut self.throttled
        } else if error == ErrorCode::UnknownSubscriptionId {
            &mut self.unknown_subscriptions
        } else {
            &mut self.refused
        };
        *counter += 1;
    }
}
