//! The memory budget of an answer while it is built. Each value is counted when it is added, so
//! that no request leads to an unbounded answer.
//!
//! Beyond the budget the error is UNKNOWN_SERVER_ERROR, as Kafka has no code for this. In answers
//! about named groups, topics or resources (OffsetFetch, the descriptions of groups,
//! DescribeConfigs, Metadata) the entry gets it. In lists (ListGroups, ListConfigResources) the
//! whole answer does. DescribeTopicPartitions begins its next page there. A response that is longer
//! than a frame may be closes its connection.

use crate::field::Field;
use crate::limits::ANSWER_BYTES_MAX;

/// Bytes of memory that an answer may still take. A value counts with its size in memory, including
/// what it points to; on the wire it takes less.
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
    /// first element then cannot use up the memory for an error of the last. Elements whose
    /// smallest answer does not fit are dropped.
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
