//! Checks throttle times and refusals of clients with quotas. They occur only under a quota that
//! the shard had. A throttle time is not longer than the used bytes permit, and not shorter than
//! the bytes that were certainly used require.

use super::Since;
use crate::client::Quotas;
use std::collections::VecDeque;

const SECOND: u64 = 1_000_000;

/// The server computes a rate over at least ten and at most twelve seconds: over samples of one
/// second, of which the oldest may have begun before the window of eleven seconds.
const WINDOW_MIN: f64 = 10.0;
const WINDOW_MAX: f64 = 12.0;

/// Bytes that were sent at most this long ago are certainly in the window of a rate.
const SURELY_COUNTED: u64 = 9 * SECOND;

/// The tolerance for a throttle time, in seconds: the server rounds it to milliseconds.
const ROUNDED: f64 = 0.002;

/// No request waits for longer than this for its answer.
const KEPT: u64 = 60 * SECOND;

/// The bytes that limited clients have used.
#[derive(Debug, Default)]
pub(crate) struct Used {
    /// All bytes that may have been counted, with the time when they were sent.
    sent: VecDeque<(u64, f64)>,
    /// The requests that were certainly counted.
    counted: VecDeque<Counted>,
}

/// A request whose answer has left.
#[derive(Debug)]
struct Counted {
    sent: u64,
    left: u64,
    bytes: f64,
}

/// A request whose answer leaves now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answered {
    pub(crate) sent: u64,
    pub(crate) now: u64,
    pub(crate) bytes: usize,
    pub(crate) throttle_ms: i32,
}

impl Used {
    pub(crate) fn sent(&mut self, now: u64, bytes: usize) {
        self.sent.push_back((now, bytes as f64));
        while self.sent.front().is_some_and(|(at, _)| at + KEPT < now) {
            self.sent.pop_front();
        }
    }

    /// Notes a request whose answer leaves now. Its bytes were certainly counted: its client had a
    /// quota from the time when the request was sent.
    pub(crate) fn counted(&mut self, it: Answered) {
        let Answered { sent, now, bytes, .. } = it;
        self.counted.push_back(Counted { sent, left: now, bytes: bytes as f64 });
        while self.counted.front().is_some_and(|first| first.left + KEPT < now) {
            self.counted.pop_front();
        }
    }

    /// The maximum number of bytes that the window of a rate can contain.
    fn at_most(&self, it: Answered) -> f64 {
        let since = it.now.saturating_sub(KEPT);
        self.sent.iter().filter(|(at, _)| *at >= since).map(|(_, bytes)| bytes).sum()
    }

    /// The bytes that are certainly in the window: this request, and the requests that were
    /// answered before this request was sent.
    fn at_least(&self, it: Answered) -> f64 {
        let since = it.now.saturating_sub(SURELY_COUNTED);
        let is_in = |other: &&Counted| other.sent >= since && other.left <= it.sent;
        let others: f64 = self.counted.iter().filter(is_in).map(|other| other.bytes).sum();
        others + if it.sent >= since { it.bytes as f64 } else { 0.0 }
    }

    /// Forgets the counts of a shard that is loaded again.
    pub(crate) fn clear(&mut self) {
        self.counted.clear();
    }
}

/// The values that the quota with index `at` in [`LIMITED`](crate::client::LIMITED) had at `sent`
/// or later.
pub(crate) fn bounds(quotas: &Since<Quotas>, at: usize, sent: u64) -> Vec<Option<u32>> {
    quotas.from(sent).map(|all| all[at]).collect()
}

/// Checks the throttle time in the answer to a Produce.
///
/// # Errors
/// No possible quota leads to this throttle time.
pub(crate) fn check_produce(
    bounds: &[Option<u32>],
    used: &Used,
    answered: Answered,
) -> Result<(), String> {
    check_limited(bounds, answered.throttle_ms > 0)?;
    let seconds = f64::from(answered.throttle_ms) / 1_000.0;
    let strictest = bounds.iter().flatten().min().copied().map_or(f64::INFINITY, f64::from);
    let most = (used.at_most(answered) / strictest - WINDOW_MIN).max(0.0);
    if seconds > most + ROUNDED {
        return Err(format!("throttled for {seconds} s, with what was sent at most {most} s"));
    }
    if bounds.iter().any(Option::is_none) {
        return Ok(());
    }
    let loosest = bounds.iter().flatten().max().copied().map_or(f64::INFINITY, f64::from);
    let least = used.at_least(answered) / loosest - WINDOW_MAX;
    if seconds + ROUNDED < least {
        return Err(format!("throttled for {seconds} s, with what was used at least {least} s"));
    }
    Ok(())
}

/// If a request was refused in a way that only a quota explains, checks that there was a quota.
///
/// # Errors
/// There was no quota.
pub(crate) fn check_limited(bounds: &[Option<u32>], is_limited: bool) -> Result<(), String> {
    if is_limited && bounds.iter().all(Option::is_none) {
        return Err("limited without a quota".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_bounded_by_what_was_sent_and_what_was_counted() {
        let mut used = Used::default();
        let (sent, now) = (99 * SECOND, 100 * SECOND);
        let of = |bytes, throttle_ms| Answered { sent, now, bytes, throttle_ms };
        used.sent(now, 150_000);
        used.counted(Answered { sent: now - 3 * SECOND, now: sent, ..of(140_000, 0) });
        let check = |bounds: &[Option<u32>], throttle_ms| {
            check_produce(bounds, &used, of(10_000, throttle_ms)).is_ok()
        };
        let bound = Some(10_000);
        assert!(check(&[bound], 5_000) && check(&[bound], 3_000));
        assert!(!check(&[bound], 5_010), "longer than all that was sent allows");
        assert!(!check(&[bound], 2_990), "shorter than what was counted demands");
        assert!(check(&[bound, None], 0), "the quota came or went meanwhile");
        assert!(!check(&[None], 1), "there is none");
        used.clear();
        assert!(check_produce(&[bound], &used, of(10_000, 0)).is_ok(), "it was loaded again");
    }
}
