//! The share sessions of a history, according to Kafka's answers.

use muster_codec::Uuid;

/// A member's session, with the records that it has acquired and not acknowledged yet.
#[derive(Debug, Clone, Default)]
pub struct ShareSession {
    pub member: String,
    /// The epoch for the next request.
    pub next: i32,
    pub partitions: Vec<Partition>,
    pub acquired: Vec<Acquired>,
}

pub type Partition = (Uuid, i32);

/// Records of a partition, from the first offset to the last.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Acquired {
    pub topic_id: Uuid,
    pub partition: i32,
    pub first: i64,
    pub last: i64,
}

impl ShareSession {
    pub fn new(member: String) -> Self {
        Self { member, next: 1, ..Self::default() }
    }

    pub fn acquire(&mut self, records: Acquired) {
        self.give_up(&records);
        self.acquired.push(records);
    }

    /// Removes records that were acknowledged.
    pub fn give_up(&mut self, gone: &Acquired) {
        let rest = self.acquired.iter().flat_map(|one| one.without(gone)).collect();
        self.acquired = rest;
    }
}

impl Acquired {
    /// The records before and after those of `gone`.
    fn without(self, gone: &Self) -> Vec<Self> {
        let is_other = (self.topic_id, self.partition) != (gone.topic_id, gone.partition);
        if is_other || gone.last < self.first || self.last < gone.first {
            return vec![self];
        }
        let before = Self { last: gone.first.saturating_sub(1), ..self };
        let after = Self { first: gone.last.saturating_add(1), ..self };
        [before, after].into_iter().filter(|one| one.first <= one.last).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(partition: i32, first: i64, last: i64) -> Acquired {
        Acquired { topic_id: Uuid::ZERO, partition, first, last }
    }

    #[test]
    fn acknowledged_records_are_cut_out_of_those_acquired() {
        let mut session = ShareSession::new("m".into());
        session.acquire(records(0, 0, 9));
        session.acquire(records(1, 0, 9));
        session.give_up(&records(0, 3, 4));
        session.give_up(&records(1, -5, 20));
        assert_eq!(session.acquired, [records(0, 0, 2), records(0, 5, 9)]);
    }
}
