//! The durably stable offset of a partition, below which its records may be compacted.

/// The durably stable offset: a last stable offset that a power loss cannot move back. The markers
/// of all transactions before it are on stable storage.
///
/// To find it, the last stable offset is noted together with the end of the log at that time. When
/// the log is durable up to the noted end, the noted offset is durably stable.
#[derive(Debug, Default)]
pub(super) struct DurablyStable {
    reached: i64,
    /// The end of the log when the last stable offset was noted, and this offset.
    next: Option<(i64, i64)>,
}

impl DurablyStable {
    /// Returns the durably stable offset. `durable` is the offset up to which the log is on stable
    /// storage. `end` is the present end of the log, and `stable` its last stable offset.
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
