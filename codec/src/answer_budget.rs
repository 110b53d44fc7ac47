//! The memory budget of an answer while it is built. Each value is counted when it is added, so
//! that no request leads to an unbounded answer.
//!
//! The error for a value that exceeds the budget is UNKNOWN_SERVER_ERROR, as Kafka has no code for
//! this. In answers with an entry for each named group, topic, resource or transactional id
//! (OffsetFetch, Metadata, DescribeConfigs, the descriptions of groups and transactions), only the
//! entry has this error. In lists (ListGroups, ListTransactions, ListConfigResources), the whole
//! answer has it. DescribeTopicPartitions ends its page before the entry. FindCoordinator leaves
//! out the entry and all later entries. If an encoded response is longer than
//! [`RESPONSE_BYTES_MAX`](crate::limits::RESPONSE_BYTES_MAX), its connection is closed.

use crate::field::Field;
use crate::limits::ANSWER_BYTES_MAX;

/// The bytes of memory that may still be added to an answer. The size of a value is that in memory,
/// including what it points to. On the wire the value is smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerBudget(usize);

impl AnswerBudget {
    pub fn new(bytes: usize) -> Self {
        Self(bytes)
    }

    /// The budget of a whole answer.
    pub fn of_answer() -> Self {
        Self(ANSWER_BYTES_MAX)
    }

    /// The bytes that are left.
    pub fn left(self) -> usize {
        self.0
    }

    /// Subtracts the size of a value; returns false, and subtracts nothing, if it does not fit.
    #[must_use]
    pub fn take<'a, T: Field<'a>>(&mut self, value: &T) -> bool {
        let left = self.0.checked_sub(size_of::<T>() + value.held());
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }

    /// Reserves memory for the smallest answer (`least`) of each element. A long answer to the
    /// first element then cannot use up the memory for an error of the last. Drops the first
    /// element whose smallest answer does not fit, and all elements after it.
    pub fn reserve<'a, E, T: Field<'a>>(&mut self, elements: &mut Vec<E>, least: impl Fn(&E) -> T) {
        let fitting = elements.iter().take_while(|element| self.take(&least(element))).count();
        elements.truncate(fitting);
    }

    /// Returns the value if it fits into the budget, and subtracts its size.
    pub fn fit<'a, T: Field<'a>>(&mut self, value: T) -> Option<T> {
        self.take(&value).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{DescribedGroup, DescribedGroupMember, ListedGroup};

    #[test]
    fn a_value_counts_with_all_that_it_refers_to() {
        let member = DescribedGroupMember {
            member_id: "m".repeat(100).into(),
            member_metadata: vec![0; 1_000].into(),
            ..Default::default()
        };
        let group = DescribedGroup { members: vec![member; 3], ..Default::default() };
        let bytes =
            size_of::<DescribedGroup<'_>>() + 3 * (size_of::<DescribedGroupMember<'_>>() + 1_100);
        assert_eq!(AnswerBudget::new(bytes).fit(group.clone()), Some(group.clone()));
        assert_eq!(AnswerBudget::new(bytes - 1).fit(group), None);
    }

    #[test]
    fn elements_whose_error_does_not_fit_are_dropped() {
        let mut budget = AnswerBudget::new(3 * size_of::<ListedGroup<'_>>() + 10);
        let mut elements = vec![1, 2, 3, 4];
        budget.reserve(&mut elements, |_| ListedGroup::default());
        assert_eq!((&elements[..], budget.left()), (&[1, 2, 3][..], 10));
    }

    #[test]
    fn a_value_that_does_not_fit_takes_nothing() {
        let group = ListedGroup { group_id: "g".repeat(1_000).into(), ..Default::default() };
        let mut budget = AnswerBudget::new(1_000);
        assert!(!budget.take(&group));
        assert_eq!(budget.left(), 1_000);
        assert!(budget.take(&ListedGroup::default()));
        assert_eq!(budget.left(), 1_000 - size_of::<ListedGroup<'_>>());
    }
}
