//! A copy of some groups, built from the records of the log to check the live groups.
//!
//! The caller reads the log from its beginning, replays it to the copy, and compares the groups by
//! [`GroupDigest`]. The memory of a copy is bounded: when it grows too large, the copy drops half
//! of its groups.

use crate::config::Config;
use crate::coordinator::Coordinator;
use crate::group::{Entry, group_records};
use crate::groups::GroupDigest;
use crate::text::{TEXT_BYTES, Text};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use muster_codec::DecodeError;
use muster_codec::record_batch::{BatchHeader, Record};
use muster_codec::records::key_group;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The memory of a copy, approximately, at which it drops half of its groups.
pub const CHECK_COPY_BYTES_MAX: usize = 4 << 20;

/// The approximate bytes of an offset and of a group, without their texts.
const OFFSET_BYTES: usize = 100;
const GROUP_BYTES: usize = 500;

/// A sample of the groups: one in 2^`halvings`. `salt` decides which groups are in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub salt: u64,
    pub halvings: u32,
}

impl Sample {
    pub fn has(self, group_id: &str) -> bool {
        xxh3_64_with_seed(group_id.as_bytes(), self.salt).trailing_zeros() >= self.halvings
    }
}

/// The sampled groups, as the records of the log produce them.
#[derive(Debug)]
pub struct CheckCopy {
    groups: Coordinator,
    sample: Sample,
    /// Groups that are too large to compare. Their records are skipped.
    left_out: BTreeSet<Text>,
    bytes_max: usize,
    /// The most members, offsets and partitions of a group that is compared.
    items_max: usize,
    /// The size of the groups at the last measurement, plus the bytes of all records since.
    bytes: usize,
}

impl Coordinator {
    /// An empty copy, with the configs of these groups. Groups with more than `items_max` members,
    /// offsets and partitions are not compared.
    pub fn check_copy(&self, sample: Sample, items_max: usize) -> CheckCopy {
        CheckCopy::new(self.config.clone(), sample, CHECK_COPY_BYTES_MAX, items_max)
    }
}

impl CheckCopy {
    /// A copy of about `bytes_max` bytes.
    fn new(config: Config, sample: Sample, bytes_max: usize, items_max: usize) -> Self {
        let (groups, left_out) = (Coordinator::new(config), BTreeSet::new());
        Self { groups, sample, left_out, bytes_max, items_max, bytes: 0 }
    }

    /// The current sample. It is smaller than the first one if the groups were too large.
    pub fn sample(&self) -> Sample {
        self.sample
    }

    pub fn has(&self, group_id: &str) -> bool {
        self.sample.has(group_id) && !self.left_out.contains(group_id)
    }

    /// Applies a batch of the log, as recovery does.
    ///
    /// # Errors
    /// A record cannot be decoded.
    pub fn replay<'a>(
        &mut self,
        header: &BatchHeader,
        records: impl Iterator<Item = Result<Record<'a>, DecodeError>>,
    ) -> Result<(), DecodeError> {
        let (sample, left_out, bytes) = (self.sample, &self.left_out, &mut self.bytes);
        let records = records.filter(|record| {
            let Ok(record) = record else { return true };
            if header.is_control() {
                return true;
            }
            let Some(group) = record.key.and_then(key_group) else { return false };
            let is_in = sample.has(group) && !left_out.contains(group);
            if is_in {
                let len = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
                *bytes += OFFSET_BYTES + len(record.key) + len(record.value);
            }
            is_in
        });
        self.groups.replay_batch(header, records, 0)?;
        if self.bytes > self.bytes_max {
            self.measure();
            while self.bytes > self.bytes_max / 2 && self.sample.halvings < u64::BITS {
                self.halve();
            }
        }
        Ok(())
    }

    /// The digest of a sampled group, from [`Coordinator::digest`].
    pub fn digest(&mut self, group_id: &str) -> GroupDigest {
        self.groups.digest(group_id, usize::MAX).unwrap_or_default()
    }

    /// The next group of the copy after `after`, in the order of ids.
    pub fn next_group(&self, after: Option<&Text>) -> Option<Text> {
        self.groups.ids_after(after).next()
    }

    /// Drops half of the groups.
    fn halve(&mut self) {
        self.sample.halvings += 1;
        let sample = self.sample;
        self.retain(|entry| sample.has(&entry.id));
        self.left_out.retain(|id| sample.has(id));
        self.measure();
    }

    /// Measures the groups, and leaves out those that are too large.
    fn measure(&mut self) {
        let items_max = self.items_max;
        let is_large = |entry: &&Entry| entry.items() > items_max;
        self.left_out.extend(self.groups.groups.live().filter(is_large).map(|it| it.id.clone()));
        self.retain(|entry| entry.items() <= items_max);
        let left_out: usize = self.left_out.iter().map(|id| id.len() + TEXT_BYTES).sum();
        let pending = self.groups.pending.bytes();
        self.bytes = left_out + pending + self.groups.groups.live().map(weight).sum::<usize>();
    }

    fn retain(&mut self, stays: impl Fn(&Entry) -> bool) {
        let goes = |entry: &&Entry| !stays(entry);
        let gone: Vec<Text> =
            self.groups.groups.live().filter(goes).map(|entry| entry.id.clone()).collect();
        for id in gone {
            self.groups.forget(&id);
        }
    }
}

/// The approximate size of a group in bytes.
fn weight(entry: &Entry) -> usize {
    let mut records = Vec::new();
    for record in group_records(entry) {
        record.write_value(&mut records);
    }
    let topics = entry.offsets.by_topic();
    let names: usize = topics.iter().map(|(topic, _)| topic.len()).sum();
    let metadata = topics.iter().flat_map(|(_, partitions)| partitions.iter());
    let metadata: usize = metadata.map(|(_, it)| it.metadata.len()).sum();
    let offsets = names + metadata + entry.offsets.len() * OFFSET_BYTES;
    GROUP_BYTES + entry.id.len() + records.len() + offsets
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use muster_codec::record_batch::{Batch, BatchBuilder};
    use muster_codec::records::{GroupRecord, OffsetCommitKey, OffsetCommitValue};

    const ITEMS_MAX: usize = 2_000;

    /// Commits offsets of `partitions` partitions in a group, in the copy and in the live groups.
    fn commit(copy: &mut CheckCopy, live: &mut Coordinator, group: &str, partitions: i32) {
        let mut batch = BatchBuilder::default();
        for partition in 0..partitions {
            let key = OffsetCommitKey { group: group.into(), topic: "t".into(), partition };
            let value = OffsetCommitValue { offset: 7, ..Default::default() };
            let record = GroupRecord::OffsetCommit(key, Some(value));
            live.replay(&record, 1);
            batch.append(0, &record);
        }
        let batch = Batch::read(batch.seal(0, 0)).unwrap();
        copy.replay(&batch.header, batch.records().unwrap()).unwrap();
    }

    fn copy(halvings: u32, bytes_max: usize) -> (CheckCopy, Coordinator) {
        let sample = Sample { salt: 7, halvings };
        let copy = CheckCopy::new(Config::default(), sample, bytes_max, ITEMS_MAX);
        (copy, Coordinator::new(Config::default()))
    }

    fn is_as_live(copy: &mut CheckCopy, live: &mut Coordinator, group: &str) -> bool {
        let digest = live.digest(group, usize::MAX).unwrap();
        assert_eq!(digest.fingerprint, live.fingerprint(group));
        copy.digest(group).fingerprint == digest.fingerprint
    }

    #[test]
    fn the_replica_has_the_groups_of_its_sample_only() {
        let (mut copy, mut live) = copy(2, CHECK_COPY_BYTES_MAX);
        let groups: Vec<_> = (0..200).map(|number| format!("g{number}")).collect();
        groups.iter().for_each(|group| commit(&mut copy, &mut live, group, 2));
        let (is_in, others): (Vec<_>, Vec<_>) = groups.iter().partition(|it| copy.has(it));
        assert!((20..80).contains(&is_in.len()), "{} of 200", is_in.len());
        assert!(is_in.iter().all(|group| is_as_live(&mut copy, &mut live, group)));
        assert!(others.iter().all(|group| copy.digest(group).fingerprint.is_none()));
    }

    #[test]
    fn a_replica_that_grows_too_large_continues_with_fewer_groups() {
        let (mut copy, mut live) = copy(0, 100_000);
        let groups: Vec<_> = (0..1_000).map(|number| format!("g{number}")).collect();
        for group in &groups {
            commit(&mut copy, &mut live, group, 10);
            assert!(copy.bytes <= copy.bytes_max);
        }
        let is_in: Vec<_> = groups.iter().filter(|group| copy.has(group)).collect();
        assert!((10..100).contains(&is_in.len()), "{} of 1,000", is_in.len());
        assert!(is_in.iter().all(|group| is_as_live(&mut copy, &mut live, group)));
        assert_eq!(copy.groups.groups(), is_in.len());
    }

    #[test]
    fn a_key_that_is_written_again_takes_no_more_memory() {
        let (mut copy, mut live) = copy(0, 100_000);
        (0..10_000).for_each(|_| commit(&mut copy, &mut live, "hot", 1));
        assert!(copy.has("hot") && is_as_live(&mut copy, &mut live, "hot"));
        assert_eq!(copy.sample().halvings, 0);
    }

    #[test]
    fn a_group_that_is_too_large_stays_left_out() {
        let (mut copy, mut live) = copy(0, 100_000);
        commit(&mut copy, &mut live, "small", 10);
        commit(&mut copy, &mut live, "large", 3_000);
        assert!(copy.has("small") && !copy.has("large"));
        assert!(is_as_live(&mut copy, &mut live, "small"));
        assert_eq!(live.digest("large", ITEMS_MAX), None);
        commit(&mut copy, &mut live, "large", 1);
        assert_eq!(copy.next_group(Some(&"a".into())), Some("small".into()));
        assert_eq!(copy.digest("large").fingerprint, None);
    }
}
