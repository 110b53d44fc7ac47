//! A request's use of its client's quotas.

use crate::quotas::{Allowance, Limit, QuotaKey};
use std::sync::Arc;

/// A request's use of its client's quotas.
#[derive(Debug)]
pub(super) struct Charge {
    allowance: Arc<Allowance>,
    used: Used,
    /// The stopwatch's time when the shard began to work on the request. None while the request
    /// waits.
    began: Option<u64>,
}

/// Bytes that a request uses.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Used {
    Nothing,
    /// Bytes of a request with records.
    Produced(usize),
    /// The bytes of the answer.
    Fetched,
}

impl Charge {
    /// The shard begins to work on the request at a time of the stopwatch.
    pub(super) fn new(allowance: Arc<Allowance>, used: Used, now: u64) -> Self {
        Self { allowance, used, began: Some(now) }
    }

    pub(super) fn used(&self) -> Used {
        self.used
    }

    pub(super) fn limit(&self, key: QuotaKey) -> Option<&Limit> {
        self.allowance.limit(key)
    }

    /// Notes that the shard works on the request again.
    pub(super) fn work(&mut self, now: u64) {
        self.began = Some(now);
    }

    /// Notes that the shard no longer works on the request. Returns the time at which it began to
    /// work on the request; None if it was not working on it.
    pub(super) fn rest(&mut self) -> Option<u64> {
        self.began.take()
    }
}
