//! DescribeLogDirs: the size of partitions.

use super::partition_id::PartitionId;
use super::table::Table;
use crate::cluster::{ClusterImage, Topic};
use crate::topics::InternalTopic;
use muster_codec::Str;
use muster_codec::messages::{
    DescribeLogDirsPartition, DescribeLogDirsRequest, DescribeLogDirsTopic,
};
use std::collections::BTreeMap;

type Sizes<'i> = BTreeMap<&'i str, BTreeMap<i32, u64>>;

impl Table {
    /// The sizes of the requested partitions that this shard leads, by topic. Partitions of
    /// internal topics are in the shard's own log. `internal` returns the size of such a partition,
    /// or None if another shard leads it.
    pub(super) fn describe_log_dirs<'i>(
        &self,
        image: &'i ClusterImage,
        request: &DescribeLogDirsRequest<'_>,
        internal: impl Fn(&Topic, i32) -> Option<u64>,
    ) -> Vec<DescribeLogDirsTopic<'i>> {
        let size = |topic: &Topic, index| {
            if topic.is_internal() {
                return internal(topic, index).filter(|_| (0..topic.partitions).contains(&index));
            }
            Some(self.get(PartitionId { topic: topic.id, index })?.log.size())
        };
        let mut sizes = Sizes::new();
        let mut add = |topic: &'i Topic, index| {
            if let Some(bytes) = size(topic, index) {
                sizes.entry(&topic.name).or_default().insert(index, bytes);
            }
        };
        match &request.topics {
            None => {
                let internal = InternalTopic::seen().filter_map(|row| image.topic(row.name));
                internal
                    .for_each(|topic| (0..topic.partitions).for_each(|index| add(topic, index)));
                for (id, _) in self.all() {
                    image.topic_by_id(id.topic).into_iter().for_each(|topic| add(topic, id.index));
                }
            }
            Some(topics) => {
                for asked in topics {
                    let Some(topic) = image.topic(&asked.topic) else { continue };
                    asked.partitions.iter().for_each(|index| add(topic, *index));
                }
            }
        }
        sizes.into_iter().map(described).collect()
    }
}

fn described<'i>((name, sizes): (&'i str, BTreeMap<i32, u64>)) -> DescribeLogDirsTopic<'i> {
    let partition = |(partition_index, bytes): (i32, u64)| DescribeLogDirsPartition {
        partition_index,
        partition_size: bytes.cast_signed(),
        ..Default::default()
    };
    DescribeLogDirsTopic {
        name: Str::Borrowed(name),
        partitions: sizes.into_iter().map(partition).collect(),
    }
}
