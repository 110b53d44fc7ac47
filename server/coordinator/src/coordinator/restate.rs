//! Returns the durable state of a slot as records, part by part, to rewrite a damaged log.

use super::Coordinator;
use crate::group::group_records;
use crate::groups::Listed;
use crate::offsets::Offsets;
use crate::pending::{GroupPending, Placed, Producer};
use crate::snapshot::SnapshotDamage;
use crate::text::Text;
use crate::timers::Timers;
use alloc::vec::Vec;
use muster_codec::Str;
use muster_codec::records::{GroupRecord, OffsetCommitKey};

/// A partition of a topic.
type Place = (Text, i32);

/// The progress of a walk over the durable state of all groups.
#[derive(Debug, Clone, Default)]
pub struct StateWalk {
    /// The last group whose records were all passed to the caller.
    after: Option<Text>,
    /// A group whose records were passed only in part, and the last offset that was passed.
    begun: Option<(Text, Place)>,
}

/// A range of a group's offsets, in the order of their keys: after `after`, up to `until`.
struct Part {
    after: Option<Place>,
    until: Option<Place>,
}

impl Coordinator {
    /// Passes about `count` further records of the durable state to `take`, group by group. A
    /// pending offset comes with the producer of its transaction. Returns false after the last
    /// record. No group is loaded.
    ///
    /// A replay of the records in this order produces the state. If the state exists already, the
    /// replay changes nothing. This is true even if only a part of the records is replayed, or if
    /// other records come between two calls.
    ///
    /// # Errors
    /// An unloaded group is damaged. [`Self::damage`] returns the damage then.
    pub fn restate(
        &mut self,
        walk: &mut StateWalk,
        count: usize,
        mut take: impl FnMut(Option<Producer>, &GroupRecord<'_>),
    ) -> Result<bool, SnapshotDamage> {
        let mut left = count;
        while left > 0 {
            let (id, after) = match walk.begun.take() {
                Some((id, after)) => (id, Some(after)),
                None => match self.groups.id_after(walk.after.as_ref()) {
                    Some(id) => (id, None),
                    None => return Ok(false),
                },
            };
            let (room, mut given) = (left, 1);
            let restated = self.restate_group(&id, after, room, &mut |producer, record| {
                given += 1;
                take(producer, record);
            });
            left = left.saturating_sub(given);
            match restated {
                Ok(Some(last)) => walk.begun = Some((id, last)),
                Ok(None) => walk.after = Some(id),
                Err(damage) => {
                    self.damage.get_or_insert_with(|| damage.clone());
                    return Err(damage);
                }
            }
        }
        Ok(true)
    }

    /// Passes the records of a group with `count` of its offsets. Returns the last of these offsets
    /// if there may be more. An unloaded group is passed as a whole.
    fn restate_group(
        &self,
        id: &Text,
        after: Option<Place>,
        count: usize,
        take: &mut dyn FnMut(Option<Producer>, &GroupRecord<'_>),
    ) -> Result<Option<Place>, SnapshotDamage> {
        let unloaded = &self.groups.unloaded;
        let (read_entry, read_offsets);
        let (entry, offsets, count) = match self.groups.listed(id) {
            None => return Ok(None),
            Some(Listed::Live(entry)) if !entry.offsets.is_unloaded() => {
                (entry, &entry.offsets, count)
            }
            Some(Listed::Live(entry)) => {
                let group = unloaded.with_offsets(id);
                let read = group.map(|group| unloaded.read_offsets(&group)).transpose()?;
                read_offsets = read.unwrap_or_default();
                (entry, &read_offsets, usize::MAX)
            }
            Some(Listed::Unloaded(group)) => {
                read_entry = unloaded.read_group(&group, &mut Timers::default())?;
                read_offsets = unloaded.read_offsets(&group)?;
                (&read_entry, &read_offsets, usize::MAX)
            }
        };
        if after.is_none() {
            group_records(entry).iter().for_each(|record| take(None, record));
        }
        Ok(self.restate_offsets(id, offsets, after, count, take))
    }

    /// Passes some offsets of a group. A committed offset supersedes earlier pending offsets. So
    /// superseded offsets are passed before the committed offset, and other pending offsets after
    /// it.
    fn restate_offsets(
        &self,
        id: &Text,
        offsets: &Offsets,
        after: Option<Place>,
        count: usize,
        take: &mut dyn FnMut(Option<Producer>, &GroupRecord<'_>),
    ) -> Option<Place> {
        let committed: Vec<_> = offsets.after(after.as_ref()).take(count).collect();
        let last = committed.last().filter(|_| committed.len() == count);
        let until = last.map(|(topic, partition, _)| ((*topic).clone(), *partition));
        let (part, pending) = (Part { after, until }, self.pending.of(id));
        part.each_pending(id, pending, true, take);
        for (topic, partition, committed) in committed {
            let key = OffsetCommitKey {
                group: Str::Borrowed(id),
                topic: Str::Borrowed(topic),
                partition,
            };
            take(None, &GroupRecord::OffsetCommit(key, Some(committed.to_record())));
        }
        part.each_pending(id, pending, false, take);
        part.until
    }
}

impl Part {
    /// Passes either the superseded pending offsets or the other pending offsets, in the order of
    /// their records.
    fn each_pending(
        &self,
        id: &Text,
        pending: Option<&GroupPending>,
        are_superseded: bool,
        take: &mut dyn FnMut(Option<Producer>, &GroupRecord<'_>),
    ) {
        for (topic, partition, all) in pending.into_iter().flat_map(GroupPending::iter) {
            if !self.has(topic, partition) {
                continue;
            }
            for Placed { pending, is_superseded } in all.in_order() {
                if is_superseded == are_superseded {
                    take(Some(pending.producer), &pending.to_record(id, topic, partition));
                }
            }
        }
    }

    fn has(&self, topic: &Text, partition: i32) -> bool {
        let place = |place: &Place| (topic, partition).cmp(&(&place.0, place.1));
        self.after.as_ref().is_none_or(|after| place(after).is_gt())
            && self.until.as_ref().is_none_or(|until| place(until).is_le())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use muster_codec::record_batch::TransactionOutcome::Commit;
    use muster_codec::records::OffsetCommitValue;

    const OPEN: Producer = Producer { id: 7, epoch: 0 };
    const LATE: Producer = Producer { id: 8, epoch: 0 };

    fn commit(group: &'static str, partition: i32, offset: i64) -> GroupRecord<'static> {
        let (group, topic) = (group.into(), "t".into());
        let value = OffsetCommitValue { offset, ..Default::default() };
        GroupRecord::OffsetCommit(OffsetCommitKey { group, topic, partition }, Some(value))
    }

    fn replay(of: &mut Coordinator, producer: Option<Producer>, record: &GroupRecord<'_>) {
        match producer {
            Some(producer) => of.replay_in_transaction(producer, record, 1),
            None => of.replay(record, 1),
        }
    }

    /// Three groups. Some partitions have a pending offset that is older than the committed offset,
    /// and some have a newer pending offset.
    fn filled() -> Coordinator {
        let mut coordinator = Coordinator::new(Config::default());
        for group in ["a", "b", "c"] {
            for partition in 0..7 {
                let record = |offset| commit(group, partition, offset);
                if partition % 2 == 0 {
                    replay(&mut coordinator, Some(OPEN), &record(1));
                }
                if partition % 3 > 0 {
                    replay(&mut coordinator, None, &record(2));
                }
                if partition % 4 == 1 {
                    replay(&mut coordinator, Some(LATE), &record(3));
                }
            }
        }
        coordinator
    }

    fn states(of: &mut Coordinator) -> Vec<Option<u64>> {
        ["a", "b", "c"].map(|group| of.fingerprint(group)).into()
    }

    #[test]
    fn records_make_the_state_and_change_nothing_where_it_is() {
        for count in [1, 2, 3, 5, 100] {
            let (mut of, mut new, mut again) =
                (filled(), Coordinator::new(Config::default()), filled());
            let (mut walk, mut has_more) = (StateWalk::default(), true);
            while has_more {
                let restated = of.restate(&mut walk, count, |producer, record| {
                    replay(&mut new, producer, record);
                    replay(&mut again, producer, record);
                });
                has_more = restated.unwrap();
            }
            for other in [&mut new, &mut again] {
                assert_eq!(states(other), states(&mut of), "{count} at once");
                [LATE, OPEN].iter().for_each(|it| other.replay_end_transaction(it.id, Commit, 2));
            }
            [LATE, OPEN].iter().for_each(|it| of.replay_end_transaction(it.id, Commit, 2));
            assert_eq!(states(&mut new), states(&mut of), "after the ends of transactions");
            assert_eq!(states(&mut again), states(&mut of), "after the ends of transactions");
        }
    }
}
