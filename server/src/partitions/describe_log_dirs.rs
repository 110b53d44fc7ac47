//! DescribeLogDirs: the size of partitions. Those of `__consumer_offsets` share the shard's log,
//! which has no sizes by partition, and are left out.

use super::partition_set::PartitionId;
use super::{Partitions, partition::Partition};
use crate::cluster::ClusterImage;
use muster_codec::Str;
use muster_codec::messages::{
    DescribeLogDirsPartition, DescribeLogDirsRequest, DescribeLogDirsTopic,
};
use std::collections::BTreeMap;

impl Partitions {
    /// The partitions that this shard leads among those asked for, by topic.
    pub fn describe_log_dirs<'i>(
        &self,
        image: &'i ClusterImage,
        request: &DescribeLogDirsRequest<'_>,
    ) -> Vec<DescribeLogDirsTopic<'i>> {
        let mut by_topic: BTreeMap<&'i str, BTreeMap<i32, DescribeLogDirsPartition>> =
            BTreeMap::new();
        let mut add = |id: PartitionId, partition: &Partition| {
            let Some(topic) = image.topic_by_id(id.topic) else { return };
            by_topic.entry(&topic.name).or_default().insert(id.index, described(id, partition));
        };
        match &request.topics {
            None => self.partitions.iter().for_each(|(id, partition)| add(*id, partition)),
            Some(topics) => {
                for asked in topics {
                    let Some(topic) = image.topic(&asked.topic) else { continue };
                    let ids = asked.partitions.iter();
                    let ids = ids.map(|index| PartitionId { topic: topic.id, index: *index });
                    ids.filter_map(|id| self.partitions.get_key_value(&id))
                        .for_each(|(id, partition)| add(*id, partition));
                }
            }
        }
        by_topic
            .into_iter()
            .map(|(name, partitions)| DescribeLogDirsTopic {
                name: Str::Borrowed(name),
                partitions: partitions.into_values().collect(),
            })
            .collect()
    }
}

fn described(id: PartitionId, partition: &Partition) -> DescribeLogDirsPartition {
    DescribeLogDirsPartition {
        partition_index: id.index,
        partition_size: partition.log.size().cast_signed(),
        ..Default::default()
    }
}
