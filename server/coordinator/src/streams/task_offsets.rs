//! The offsets that members report for their tasks: how far the state of each task is, and where
//! its changelogs end. The assignor and operators read them. As in Kafka, they are volatile.

use crate::java_order::compare;
use crate::text::{TEXT_BYTES, Text, owned as text};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use hashbrown::HashMap;
use muster_codec::messages::{StreamsGroupHeartbeatRequest, StreamsGroupTaskOffset};

/// The last reports of all members, by member id.
#[derive(Debug, Default)]
pub(crate) struct TaskOffsets {
    by_member: HashMap<Text, Reports>,
    bytes: usize,
}

/// The offset lists of a heartbeat. A list that was not sent is None.
#[derive(Debug)]
pub(crate) struct Report {
    member_id: Text,
    offsets: Option<Offsets>,
    end_offsets: Option<Offsets>,
    /// Whether a list names a task twice, which Kafka refuses.
    pub(super) repeats: bool,
}

/// The last reports of a member.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    offsets: Offsets,
    end_offsets: Offsets,
}

/// Offsets by subtopology and partition. Subtopologies are in the order of Java strings.
#[derive(Debug, Default)]
struct Offsets(Vec<(Text, BTreeMap<i32, i64>)>);

/// The approximate bytes of an offset in memory, or in a description (plus the subtopology's id).
const OFFSET_BYTES: usize = 40;

impl Offsets {
    /// If a task has several offsets, the last one counts.
    fn read(sent: &[StreamsGroupTaskOffset<'_>]) -> Self {
        let mut by_subtopology: BTreeMap<&str, BTreeMap<i32, i64>> = BTreeMap::new();
        for it in sent {
            let of = by_subtopology.entry(&it.subtopology_id).or_default();
            of.insert(it.partition, it.offset);
        }
        let all = by_subtopology.into_iter().map(|(id, offsets)| (Text::from(id), offsets));
        let mut all: Vec<_> = all.collect();
        all.sort_by(|(one, _), (other, _)| compare(one, other));
        Self(all)
    }

    fn to_message(&self) -> Vec<StreamsGroupTaskOffset<'static>> {
        let of = |(id, offsets): &(Text, BTreeMap<i32, i64>)| {
            let of_partition = |(partition, offset): (&i32, &i64)| StreamsGroupTaskOffset {
                subtopology_id: text(id),
                partition: *partition,
                offset: *offset,
            };
            offsets.iter().map(of_partition).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of).collect()
    }

    /// The number of tasks.
    fn len(&self) -> usize {
        self.0.iter().map(|(_, offsets)| offsets.len()).sum()
    }

    fn bytes(&self) -> usize {
        let of = |(id, offsets): &(Text, BTreeMap<i32, i64>)| {
            TEXT_BYTES + id.len() + (OFFSET_BYTES + id.len()) * offsets.len()
        };
        self.0.iter().map(of).sum()
    }
}

impl Report {
    /// The report of a heartbeat; None if it has no lists.
    pub(super) fn read(request: &StreamsGroupHeartbeatRequest<'_>) -> Option<Self> {
        let lists = [&request.task_offsets, &request.task_end_offsets];
        if lists.iter().all(|list| list.is_none()) {
            return None;
        }
        let [offsets, end_offsets] = lists.map(|list| list.as_deref().map(Offsets::read));
        let counts = |(sent, read): (&Option<Vec<_>>, &Option<Offsets>)| {
            sent.as_ref().map(Vec::len) == read.as_ref().map(Offsets::len)
        };
        let repeats = !lists.into_iter().zip([&offsets, &end_offsets]).all(counts);
        Some(Self { member_id: Text::from(&*request.member_id), offsets, end_offsets, repeats })
    }
}

impl Report {
    /// The bytes of the member's reports after this report is taken.
    fn bytes_after(&self, known: Option<&Reports>) -> usize {
        let bytes = |new: &Option<Offsets>, known: Option<&Offsets>| {
            new.as_ref().or(known).map_or(0, Offsets::bytes)
        };
        bytes(&self.offsets, known.map(|it| &it.offsets))
            + bytes(&self.end_offsets, known.map(|it| &it.end_offsets))
    }
}

impl Reports {
    /// The offsets of all tasks that the member reported.
    pub(super) fn offsets(&self) -> impl Iterator<Item = (&Text, i32, i64)> {
        self.offsets.0.iter().flat_map(|(id, of)| of.iter().map(move |(at, it)| (id, *at, *it)))
    }

    /// The offsets and the end offsets, for a description.
    pub(super) fn described(&self) -> [Vec<StreamsGroupTaskOffset<'static>>; 2] {
        [self.offsets.to_message(), self.end_offsets.to_message()]
    }

    fn bytes(&self) -> usize {
        self.offsets.bytes() + self.end_offsets.bytes()
    }
}

impl TaskOffsets {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn of(&self, member_id: &str) -> Option<&Reports> {
        self.by_member.get(member_id)
    }

    /// The bytes that a report adds. Its length was checked before.
    pub(super) fn added_by(&self, report: &Report) -> usize {
        let known = self.of(&report.member_id);
        report.bytes_after(known).saturating_sub(known.map_or(0, Reports::bytes))
    }

    /// Stores a report. Each list replaces the member's previous list.
    pub(super) fn take(&mut self, report: Report) {
        let known = self.of(&report.member_id);
        let (before, after) = (known.map_or(0, Reports::bytes), report.bytes_after(known));
        let Report { member_id, offsets, end_offsets, .. } = report;
        let reports = self.by_member.entry(member_id).or_default();
        let kept = core::mem::take(reports);
        reports.offsets = offsets.unwrap_or(kept.offsets);
        reports.end_offsets = end_offsets.unwrap_or(kept.end_offsets);
        self.bytes = self.bytes - before + after;
    }

    pub(super) fn forget(&mut self, member_id: &str) {
        let gone = self.by_member.remove(member_id);
        self.bytes -= gone.map_or(0, |it| it.bytes());
    }
}
