//! The quota on changes of topics by a client (KIP-599).

use super::change::Refused;
use crate::quotas::{Buckets, Limit, QuotaKey};
use muster_codec::ErrorCode;

const KEY: QuotaKey = QuotaKey::ControllerMutationRate;

/// The quota of a request's client (Kafka's `ControllerMutationQuota`).
#[derive(Debug, Default)]
pub struct MutationQuota<'q> {
    limited: Option<Limited<'q>>,
    throttle_ms: i64,
}

#[derive(Debug)]
struct Limited<'q> {
    buckets: &'q mut Buckets,
    limit: Limit,
    /// Whether changes are refused while the quota is exceeded. Older clients are only throttled.
    is_strict: bool,
    now: i64,
}

impl<'q> MutationQuota<'q> {
    /// The quota of a client; `limit` is None for a client without a quota.
    pub fn new(buckets: &'q mut Buckets, limit: Option<Limit>, is_strict: bool, now: i64) -> Self {
        let limited = limit.map(|limit| Limited { buckets, limit, is_strict, now });
        Self { limited, throttle_ms: 0 }
    }

    /// Charges the quota with partitions that are created or deleted.
    ///
    /// # Errors
    /// THROTTLING_QUOTA_EXCEEDED: the quota is exceeded, and the client expects a refusal.
    pub(crate) fn take(&mut self, partitions: i64) -> Result<(), Refused> {
        let Some(Limited { buckets, limit, is_strict, now }) = &mut self.limited else {
            return Ok(());
        };
        if *is_strict {
            let delay = buckets.delay_ms(KEY, limit, *now);
            if delay > 0 {
                self.throttle_ms = delay;
                let words = "The throttling quota has been exceeded.";
                return Err(Refused::new(ErrorCode::ThrottlingQuotaExceeded, words));
            }
        }
        buckets.take(KEY, limit, partitions as f64, *now);
        if !*is_strict {
            self.throttle_ms = buckets.delay_ms(KEY, limit, *now);
        }
        Ok(())
    }

    /// How long to throttle the client, in milliseconds.
    pub(crate) fn throttle_time_ms(&self) -> i32 {
        i32::try_from(self.throttle_ms).unwrap_or(i32::MAX)
    }
}
