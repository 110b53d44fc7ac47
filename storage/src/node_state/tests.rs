//! Records of the node are read as they were written, and nothing else is read.

use super::*;
use proptest::prelude::*;

fn members(replica: u64) -> Marker {
    Marker { replica, voters: vec![1, 2, replica], outgoing: vec![], learners: vec![9] }
}

fn vote(replica: u64, state: ReplicaState) -> Vote {
    Vote { replica, state, term: 7, vote: Some(5) }
}

fn records() -> Vec<NodeRecord> {
    let of_vote = |group, vote| NodeRecord::Vote { group, vote };
    let nodes = vec![(1, [1; 16]), (2, [2; 16]), (3, [3; 16])];
    vec![
        of_vote(0, vote(3, ReplicaState::Running)),
        of_vote(GROUP_MAX, vote(u64::MAX, ReplicaState::Quarantined)),
        of_vote(1, Vote { vote: None, ..vote(3, ReplicaState::Gone) }),
        NodeRecord::Members { group: 2, index: 0, members: Some(members(4)) },
        NodeRecord::Members { group: 2, index: INDEX_LIMIT - 1, members: None },
        NodeRecord::Formation(Formation { is_complete: false, cluster: [9; 16], nodes }),
    ]
}

fn written(record: &NodeRecord) -> (Vec<u8>, Option<Vec<u8>>) {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    record.write_key(&mut key);
    let has_value = record.write_value(&mut value);
    (key, has_value.then_some(value))
}

#[test]
fn records_are_read_as_they_were_written() {
    for record in records() {
        let (key, value) = written(&record);
        assert_eq!(NodeRecord::read(&key, value.as_deref()), Ok(record.clone()));
        for length in 0..key.len() {
            assert!(NodeRecord::read(&key[..length], value.as_deref()).is_err(), "{record:?}");
        }
        let longer = [&key[..], &[0]].concat();
        assert!(NodeRecord::read(&longer, value.as_deref()).is_err(), "{record:?}");
        let Some(value) = value else { continue };
        for length in 0..value.len() {
            assert!(NodeRecord::read(&key, Some(&value[..length])).is_err(), "{record:?}");
        }
        let longer = [&value[..], &[0]].concat();
        assert!(NodeRecord::read(&key, Some(&longer)).is_err(), "{record:?}");
        let newer = [&[0, 1], &value[2..]].concat();
        assert!(NodeRecord::read(&key, Some(&newer)).is_err(), "{record:?}");
        if !matches!(record, NodeRecord::Members { .. }) {
            assert!(NodeRecord::read(&key, None).is_err(), "{record:?}");
        }
    }
}

#[test]
fn impossible_values_are_refused() {
    let refused = |record: &NodeRecord, at: usize, byte: u8| {
        let (key, value) = written(record);
        let mut value = value.unwrap();
        value[at] = byte;
        assert!(NodeRecord::read(&key, Some(&value)).is_err(), "byte {at} of {record:?}");
    };
    let records = records();
    refused(&records[0], 10, 3);
    refused(&records[0], 11, 0x80);
    refused(&records[5], 2, 2);
    refused(&records[5], 19, 17);
    let (key, mut value) = written(&records[0]);
    value.as_mut().unwrap()[2..10].fill(0);
    assert!(NodeRecord::read(&key, value.as_deref()).is_err(), "no replica has the id 0");
    for key in [&[0, 0, 0xff, 0xff][..], &[0, 3], &[]] {
        assert!(NodeRecord::read(key, value.as_deref()).is_err(), "{key:?}");
    }
}

#[test]
fn the_members_at_an_entry_are_those_of_the_last_change() {
    let mut state = NodeState::default();
    let at =
        |index, replica| NodeRecord::Members { group: 2, index, members: Some(members(replica)) };
    [at(1, 4), at(5, 4), at(9, 4), at(7, 8)].into_iter().for_each(|it| state.apply(it));
    let index = |index, replica| {
        let found = state.members_at(2, replica, index);
        found.map(|found| {
            state.members.iter().rfind(|it| it.1 == found && it.0.1 <= index).unwrap().0.1
        })
    };
    let found = [0, 1, 4, 5, 8, 9, 100].map(|it| index(it, 4));
    assert_eq!(found, [None, Some(1), Some(1), Some(5), Some(5), Some(9), Some(9)]);
    assert_eq!([6, 7].map(|it| index(it, 8)), [None, Some(7)]);
    assert_eq!(state.members_at(3, 4, 9), None);
}

/// The members at a base may be those of a record before the base. Such a record is still needed,
/// so only records before it get tombstones.
#[test]
fn members_before_the_base_get_tombstones() {
    let mut state = NodeState::default();
    let at = |index, members| NodeRecord::Members { group: 2, index, members };
    for index in [1, 5, 9] {
        state.apply(at(index, Some(members(4))));
    }
    assert_eq!(state.outdated(2, 0), []);
    assert_eq!(state.outdated(2, 4), []);
    assert_eq!(state.outdated(2, 8), [at(1, None)]);
    let all = state.outdated(2, 9);
    assert_eq!(all, [at(1, None), at(5, None)]);
    all.into_iter().for_each(|it| state.apply(it));
    assert!(state.members_at(2, 4, 8).is_none() && state.members_at(2, 4, 9).is_some());
}

proptest! {
    /// A record that can be read has the bytes with which it would be written.
    #[test]
    fn only_written_bytes_are_read(
        kind in 0..4u8,
        key in prop::collection::vec(any::<u8>(), 0..12),
        value in prop::option::of(prop::collection::vec(any::<u8>(), 0..60)),
    ) {
        let key = [&[0, kind], &key[..]].concat();
        let value = value.map(|value| [&[0, 0], &value[..]].concat());
        if let Ok(record) = NodeRecord::read(&key, value.as_deref()) {
            prop_assert_eq!(written(&record), (key, value));
        }
    }
}
