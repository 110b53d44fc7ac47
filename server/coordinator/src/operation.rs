//! The records of a group as operations of the log, which are atomic and of limited size.

use muster_codec::records::GroupRecord;

/// The most bytes of a record beside its texts and partitions: lengths, versions, a batch's part.
const RECORD_BYTES: usize = 64;
/// The bytes of a topic in a target beside its partitions.
const TOPIC_BYTES: usize = 24;

/// Splits the records of a group into operations: one, unless those that may be cut take more than
/// `bytes_max`.
///
/// Tombstones of offsets are independent of each other, and Kafka does not write them as a whole
/// either. Members' targets precede the record of their epoch: after a crash between them the group
/// epoch is newer than the target's, so it is computed again, and a partition that is in two
/// targets still has one owner.
pub fn operations<'o, 'r>(
    records: &'o [GroupRecord<'r>],
    bytes_max: usize,
) -> impl Iterator<Item = &'o [GroupRecord<'r>]> {
    let mut rest = records;
    core::iter::from_fn(move || {
        let mut bytes = 0;
        let is_cut = |(at, record): (usize, &GroupRecord<'_>)| {
            let more = cut_bytes(record)?;
            bytes += more;
            (at > 0 && bytes > bytes_max).then_some(at)
        };
        let end = rest.iter().enumerate().find_map(is_cut).unwrap_or(rest.len());
        let (operation, after) = rest.split_at(end);
        rest = after;
        (!operation.is_empty()).then_some(operation)
    })
}

/// The bytes of a record before which an operation may end; None if it may not.
fn cut_bytes(record: &GroupRecord<'_>) -> Option<usize> {
    if let GroupRecord::OffsetCommit(key, None) = record {
        return Some(key.group.len() + key.topic.len() + RECORD_BYTES);
    }
    let GroupRecord::ConsumerGroupTargetAssignmentMember(key, Some(value)) = record else {
        return None;
    };
    let topics = value.topic_partitions.iter();
    let topics: usize = topics.map(|it| TOPIC_BYTES + size_of::<i32>() * it.partitions.len()).sum();
    Some(key.group_id.len() + key.member_id.len() + topics + RECORD_BYTES)
}
