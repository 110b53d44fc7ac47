//! How many partitions a new assignment moves, compared with the assignment in the group's record.

use super::ClassicGroup;
use crate::event::Moved;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use hashbrown::HashMap;
use muster_codec::Str;
use muster_codec::consumer_protocol::ConsumerProtocolAssignment;
use muster_codec::records::GroupMetadataValue;

/// The most bytes of changed assignments that are compared partition by partition: some 60,000
/// partitions, less than a millisecond of work.
const COMPARED_BYTES_MAX: usize = 256 << 10;

impl ClassicGroup {
    /// Compares the assignments in the group's last record with those in `record`, the group's next
    /// record. Returns the number of members whose assignment changed, and the number of partitions
    /// that these members got.
    pub(super) fn moved_by(&self, record: &GroupMetadataValue<'_>) -> Moved {
        let known = self.durable().into_iter().flat_map(|durable| &durable.members);
        let known: HashMap<&str, &[u8]> =
            known.map(|it| (&*it.identity.member_id, &*it.assignment)).collect();
        let (mut moved, mut bytes) = (Moved::default(), 0);
        for member in &record.members {
            let before = known.get(&*member.member_id).copied().unwrap_or_default();
            if *before == *member.assignment {
                continue;
            }
            moved.members += 1;
            bytes += before.len() + member.assignment.len();
            let given = if bytes > COMPARED_BYTES_MAX || !self.is_of_consumers() {
                None
            } else {
                given(before, &member.assignment)
            };
            moved.partitions += given.unwrap_or(0);
            moved.has_more |= given.is_none();
        }
        moved
    }
}

/// The partitions of each topic, ascending.
type ByTopic<'a> = BTreeMap<Str<'a>, Vec<i32>>;

/// The number of partitions in `after` that are not in `before`. None if one of the two is
/// malformed.
fn given(before: &[u8], after: &[u8]) -> Option<u32> {
    let (before, after) = (by_topic(before)?, by_topic(after)?);
    let is_new = |topic: &Str<'_>, partition: &i32| {
        before.get(topic).is_none_or(|of_topic| of_topic.binary_search(partition).is_err())
    };
    let new = after.iter().map(|(topic, of)| of.iter().filter(|it| is_new(topic, it)).count());
    Some(new.sum::<usize>() as u32)
}

/// The partitions of an assignment. An assignment without bytes is valid: it has no partitions.
fn by_topic(assignment: &[u8]) -> Option<ByTopic<'_>> {
    let mut topics = ByTopic::new();
    if assignment.is_empty() {
        return Some(topics);
    }
    for named in ConsumerProtocolAssignment::read(assignment).ok()?.assigned_partitions {
        topics.entry(named.topic).or_default().extend(named.partitions);
    }
    topics.values_mut().for_each(|partitions| {
        partitions.sort_unstable();
        partitions.dedup();
    });
    Some(topics)
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::consumer_protocol::TopicPartitions;

    fn bytes(assignment: &[(&'static str, &[i32])]) -> Vec<u8> {
        let named = assignment.iter().map(|(topic, partitions)| TopicPartitions {
            topic: (*topic).into(),
            partitions: partitions.to_vec(),
        });
        let assigned_partitions = named.collect();
        let mut out = Vec::new();
        ConsumerProtocolAssignment { assigned_partitions, user_data: None }.write(1, &mut out);
        out
    }

    #[test]
    fn partitions_that_were_not_there_are_counted_once() {
        let before = bytes(&[("a", &[2, 1]), ("b", &[0])]);
        let after = bytes(&[("b", &[0, 1]), ("a", &[2, 3, 3]), ("c", &[]), ("b", &[1])]);
        assert_eq!(given(&before, &after), Some(2));
        assert_eq!(given(&[], &after), Some(4), "a new member has nothing before");
        assert_eq!(given(&before, &[]), Some(0));
        assert_eq!(given(&before, &[7]), None);
        assert_eq!(given(&[0, 0, 0x7f, 0xff, 0xff, 0xff], &after), None);
    }
}
