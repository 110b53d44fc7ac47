//! A coordinator loads a log of group records, some of which may come from Kafka or from a later
//! version. Input: records, each with the lengths of its key and its value.

use crate::common::{self, NoIds, RecordBytes};
use crate::memory::within;
use muster_codec::Wall;
use muster_codec::records::GroupRecord;
use muster_coordinator::{Budget, Config, Context, Coordinator, NoTopics};

/// The memory that each byte of the input may take. An assigned partition needs only a few bytes in
/// a record, but an entry in each of several tables.
const GRANTED_PER_BYTE: usize = 1024;
const GRANTED_BYTES: usize = 1 << 20;

/// The number of timer calls after loading.
const EXPIRIES: u64 = 64;

pub fn run(input: &[u8]) {
    let records: Vec<_> = split(input).filter_map(read).collect();
    let granted = input.len() * GRANTED_PER_BYTE + GRANTED_BYTES;
    within(granted, || load(&records));
}

/// Splits the input into keys and values. A value with length 255 is absent.
pub(crate) fn split(mut input: &[u8]) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    std::iter::from_fn(move || {
        let ([key_len, value_len], rest) = input.split_first_chunk()?;
        let (key, rest) = rest.split_at_checked((*key_len).into())?;
        let has_value = *value_len != u8::MAX;
        let (value, rest) = rest.split_at_checked(if has_value { *value_len } else { 0 }.into())?;
        input = rest;
        Some((key, has_value.then_some(value)))
    })
}

pub(crate) fn read<'a>((key, value): (&'a [u8], Option<&'a [u8]>)) -> Option<GroupRecord<'a>> {
    GroupRecord::read(key, value).ok().flatten()
}

/// Loads the records and writes the coordinator's durable state as records. Checks that another
/// coordinator gets the same state from these. Then lets time pass.
fn load(records: &[GroupRecord<'_>]) {
    let mut coordinator = Coordinator::new(Config::default());
    records.iter().for_each(|record| coordinator.replay(record, 0));
    let durable = bytes(&coordinator);
    let mut other = Coordinator::new(Config::default());
    for (key, value) in &durable {
        let record = GroupRecord::read(key, value.as_deref()).unwrap().unwrap();
        other.replay(&record, 0);
    }
    assert_eq!(bytes(&other), durable, "the state from the records of the durable state");
    let mut now = 1_000_000;
    coordinator.loaded(now, Wall(now), &NoTopics);
    for position in 1..=EXPIRIES {
        let Some(at) = coordinator.next_deadline() else { break };
        now = now.max(at);
        let mut context = Context {
            now,
            wall: Wall(now),
            position,
            ids: &mut NoIds,
            topics: &NoTopics,
            budget: &mut Budget::default(),
        };
        let output = coordinator.expire(&mut context);
        output.records.iter().for_each(|record| coordinator.replay(record, position));
    }
}

pub(crate) fn bytes(coordinator: &Coordinator) -> Vec<RecordBytes> {
    common::bytes(&coordinator.durable_records())
}
