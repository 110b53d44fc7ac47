//! The audit of a shard. It takes the live states one by one, converts each to records, replays
//! these, and compares the result with the live state. The log is not read. A difference means that
//! the next snapshot would be wrong.

use crate::TopicSet;

/// The interval between two turns of the audit. In each turn, one state of each topic is compared.
const INTERVAL_MS: i64 = 1_000;

/// When the next states are compared.
#[derive(Debug)]
pub struct Audit {
    next_at: i64,
}

impl Audit {
    pub fn new(now: i64) -> Self {
        Self { next_at: now.saturating_add(INTERVAL_MS) }
    }

    /// Delays the next comparison.
    pub fn not_before(&mut self, at: i64) {
        self.next_at = at;
    }

    /// Compares the next state of each topic, if it is time.
    ///
    /// # Errors
    /// A description of the first state that differs.
    pub fn turn(&mut self, now: i64, topics: &mut dyn TopicSet) -> Result<(), String> {
        let mut audited = Ok(());
        if now >= self.next_at {
            self.next_at = now.saturating_add(INTERVAL_MS);
            topics.each(&mut |topic| {
                if audited.is_ok() {
                    audited = topic.audit();
                }
            });
        }
        audited
    }
}
