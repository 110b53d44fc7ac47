//! The durably stable offset of a partition, below which its records may be compacted.

/// The last stable offset that a power loss cannot move back: the markers of transactions below it
/// are on stable storage.
///
/// To find it, a last stable offset is noted together with the end of the log. Once the log is
/// durable up to this end, no power loss can move the noted offset back.
#[derive(Debug, Default)]
pub(super) struct DurablyStable {
    reached: i64,
    /// The noted end of the log, and the last stable offset at that time.
    next: Option<(i64, i64)>,
}

impl DurablyStable {
    /// The durably stable offset. Everything before `durable` is on stable storage; the log now
    /// ends at `end`, and is stable up to `stable`.
    pub(super) fn at(&mut self, durable: i64, end: i64, stable: i64) -> i64 {
        if let Some((_, then)) = self.next.take_if(|(end, _)| *end <= durable) {
            self.reached = self.reached.max(then);
        }
        if end <= durable {
            self.reached = self.reached.max(stable);
        } else if self.next.is_none() {
            self.next = Some((end, stable));
        }
        self.reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stable_counts_when_the_end_of_then_is_durable() {
        let mut stable = DurablyStable::default();
        assert_eq!(stable.at(0, 100, 90), 0);
        assert_eq!(stable.at(50, 200, 190), 0);
        assert_eq!(stable.at(100, 300, 290), 90);
        assert_eq!(stable.at(299, 400, 390), 90);
        assert_eq!(stable.at(400, 400, 395), 395);
    }
}
