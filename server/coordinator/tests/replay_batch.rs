//! Applying records as a batch must have the same result as applying them one by one.
#![allow(clippy::unwrap_used)]

use muster_codec::records::{GroupMetadataKey, GroupMetadataValue, GroupRecord};
use muster_codec::records::{OffsetCommitKey, OffsetCommitValue};
use muster_coordinator::{Config, Coordinator};
use proptest::prelude::*;

mod common;
mod snapshots;

use snapshots::Writing;

const GROUPS: [&str; 3] = ["a", "group", "group-with-a-longer-name"];
const TOPICS: [&str; 2] = ["t", "topic"];

/// Successive records of a group: offsets of a topic, or the record of the group itself.
#[derive(Debug, Clone)]
enum Piece {
    Offsets {
        group: usize,
        topic: usize,
        first: i32,
        count: i32,
        is_tombstone: bool,
        retains: bool,
    },
    Same {
        group: usize,
        topic: usize,
        partition: i32,
        times: i64,
    },
    Group {
        group: usize,
        is_tombstone: bool,
    },
}

fn piece() -> impl Strategy<Value = Piece> {
    let (group, topic) = (0..GROUPS.len(), 0..TOPICS.len());
    let offsets = (group.clone(), topic.clone(), 0..20i32, 1..30i32);
    prop_oneof![
        8 => (offsets, prop::bool::weighted(0.2), prop::bool::weighted(0.2)).prop_map(
            |((group, topic, first, count), is_tombstone, retains)| {
                Piece::Offsets { group, topic, first, count, is_tombstone, retains }
            }
        ),
        2 => (group.clone(), topic, 0..20i32, 1..5i64).prop_map(
            |(group, topic, partition, times)| Piece::Same { group, topic, partition, times }
        ),
        1 => (group, any::<bool>()).prop_map(|(group, is_tombstone)| {
            Piece::Group { group, is_tombstone }
        }),
    ]
}

fn records(pieces: &[Piece]) -> Vec<GroupRecord<'static>> {
    let mut time = 0;
    let mut records = Vec::new();
    for piece in pieces {
        time += 1;
        match *piece {
            Piece::Offsets { group, topic, first, count, is_tombstone, retains } => {
                let value = |offset| OffsetCommitValue {
                    offset,
                    metadata: if offset % 3 == 0 { "some".into() } else { "".into() },
                    commit_timestamp: time,
                    expire_timestamp: if retains { time + 5 } else { -1 },
                    ..Default::default()
                };
                records.extend((first..first + count).map(|partition| {
                    let value = (!is_tombstone).then(|| value(i64::from(partition) + time));
                    GroupRecord::OffsetCommit(key(group, topic, partition), value)
                }));
            }
            Piece::Same { group, topic, partition, times } => {
                records.extend((0..times).map(|offset| {
                    let value =
                        OffsetCommitValue { offset, commit_timestamp: time, ..Default::default() };
                    GroupRecord::OffsetCommit(key(group, topic, partition), Some(value))
                }));
            }
            Piece::Group { group, is_tombstone } => {
                let value = GroupMetadataValue {
                    protocol_type: "consumer".into(),
                    generation: time as i32,
                    current_state_timestamp: time,
                    ..Default::default()
                };
                let value = (!is_tombstone).then_some(value);
                let key = GroupMetadataKey { group: GROUPS[group].into() };
                records.push(GroupRecord::GroupMetadata(key, value));
            }
        }
    }
    records
}

fn key(group: usize, topic: usize, partition: i32) -> OffsetCommitKey<'static> {
    OffsetCommitKey { group: GROUPS[group].into(), topic: TOPICS[topic].into(), partition }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_batch_equals_its_records_in_order(
        pieces in prop::collection::vec(piece(), 1..40),
        batch in 1..300usize,
        snapshot_at in 0..20usize,
    ) {
        let records = records(&pieces);
        let mut one_by_one = Coordinator::new(Config::default());
        let mut batches = Coordinator::new(Config::default());
        for (number, records) in records.chunks(batch).enumerate() {
            let position = number as u64 + 1;
            if number == snapshot_at {
                let file = snapshots::snapshot(&mut batches, position - 1);
                batches = snapshots::open(Config::default(), &file).unwrap();
            }
            records.iter().for_each(|record| one_by_one.replay(record, position));
            snapshots::replay(&mut batches, records.iter().cloned(), position);
        }
        for group in GROUPS {
            prop_assert_eq!(one_by_one.fingerprint(group), batches.fingerprint(group));
        }
        prop_assert_eq!(snapshots::durable(&mut one_by_one), snapshots::durable(&mut batches));
    }

    #[test]
    fn a_group_that_changes_while_it_is_written_is_complete(
        pieces in prop::collection::vec(piece(), 1..60),
        batch in 1..60usize,
        begin in 0..20usize,
        bytes in 1..3_000usize,
    ) {
        let records = records(&pieces);
        let mut live = Coordinator::new(Config::default());
        let mut writing = Writing::begin(begin as u64);
        let (mut file, mut last) = (None, begin as u64);
        for (number, records) in records.chunks(batch).enumerate() {
            last = last.max(number as u64 + 1);
            snapshots::replay(&mut live, records.iter().cloned(), number as u64 + 1);
            if number >= begin && file.is_none() {
                file = writing.write(&mut live, number as u64 + 1, bytes).unwrap();
            }
        }
        while file.is_none() {
            file = writing.write(&mut live, last, bytes).unwrap();
        }
        let mut rest = snapshots::open(Config::default(), &file.unwrap()).unwrap();
        for (number, records) in records.chunks(batch).enumerate().skip(begin) {
            snapshots::replay(&mut rest, records.iter().cloned(), number as u64 + 1);
        }
        for group in GROUPS {
            prop_assert_eq!(live.fingerprint(group), rest.fingerprint(group));
        }
        prop_assert_eq!(snapshots::durable(&mut live), snapshots::durable(&mut rest));
        prop_assert_eq!(rest.damage(), None);
    }
}
