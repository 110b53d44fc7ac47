//! Views for checks and metrics.

use super::Connections;
use crate::net::counters::ClientCounters;
use crate::net::timings::Timings;
use muster_codec::ApiKey;

impl Connections {
    /// The number of open connections that were admitted.
    pub(in crate::net) fn inside(&self) -> usize {
        self.doors.inside()
    }

    /// The host with the most connections, and their number.
    pub(crate) fn busiest_host(&self) -> Option<(&str, usize)> {
        self.doors.busiest_host()
    }

    pub(in crate::net) fn counters(&self) -> &ClientCounters {
        &self.counters
    }

    /// The time that requests take.
    pub(in crate::net) fn timings(&self) -> &Timings {
        self.meter.timings()
    }

    /// The number of requests of an API that were answered. It may wrap.
    pub(in crate::net) fn answered(&self, api: ApiKey) -> u32 {
        self.answers.answered(api)
    }

    /// The number of entries in the queues of answers that wait for a flush.
    pub fn waits_for_flush(&self) -> usize {
        self.answers.waiting()
    }

    /// The number of slices under way.
    pub fn slices(&self) -> usize {
        self.outputs.slices()
    }

    /// The number of input bytes in the connections' own buffers, which the account must equal.
    pub fn input_bytes_held(&self) -> usize {
        let held: usize = self.table.iter().map(|it| it.input.bytes().len()).sum();
        held + self.inputs.leaving()
    }

    /// The largest number of requests in flight on one connection.
    pub fn requests_in_flight_max(&self) -> usize {
        self.table.iter().map(|it| it.requests.len()).max().unwrap_or(0)
    }

    /// The largest number of unhandled bytes of input on one connection.
    pub fn input_bytes_max(&self) -> usize {
        self.table.iter().map(|it| it.input.bytes().len()).max().unwrap_or(0)
    }

    /// The largest number of bytes of answers that one client has not taken.
    pub fn unread_bytes_max(&self) -> usize {
        self.table.iter().map(|it| it.unread_bytes()).max().unwrap_or(0)
    }
}
