//! DescribeProducers: the producers of partitions, and their open transactions.

use super::effects::{Call, Effects};
use super::limits::DESCRIBED_PRODUCERS_MAX;
use super::markers::OffsetTransactions;
use super::partition::Partition;
use super::producers::Described;
use super::table::Table;
use crate::topics::InternalTopic;
use muster_codec::ErrorCode;
use muster_codec::messages::{
    DescribeProducersRequest, DescribeProducersResponse, DescribedProducer,
    DescribedProducersPartition, DescribedProducersTopic,
};
use std::collections::HashSet;

impl Table {
    /// DescribeProducers v0. A partition that is named several times is answered once.
    pub(super) fn describe_producers(
        &self,
        call: Call<'_>,
        body: &DescribeProducersRequest<'_>,
        offsets: &dyn OffsetTransactions,
        out: &mut Effects,
    ) {
        let (mut seen, mut left) = (HashSet::new(), DESCRIBED_PRODUCERS_MAX);
        let mut topics = Vec::with_capacity(body.topics.len());
        for asked in &body.topics {
            let indexes = asked.partition_indexes.iter();
            let new = indexes.filter(|index| seen.insert((&*asked.name, **index)));
            let described =
                new.map(|index| self.described(call, &asked.name, *index, offsets, &mut left));
            let (name, partitions) = (asked.name.clone().into_owned().into(), described.collect());
            topics.push(DescribedProducersTopic { name, partitions });
        }
        out.send(call.request, DescribeProducersResponse { throttle_time_ms: 0, topics });
    }

    /// The producers of a partition. `left` is the number of producers that the answer has room
    /// for.
    fn described(
        &self,
        call: Call<'_>,
        topic: &str,
        partition_index: i32,
        offsets: &dyn OffsetTransactions,
        left: &mut usize,
    ) -> DescribedProducersPartition<'static> {
        let found = self.locate_named(call.image, topic, partition_index);
        let all = found.map(|id| match InternalTopic::of_id(id.topic) {
            Some(InternalTopic::ConsumerOffsets) => offsets.describe(id.index),
            Some(
                InternalTopic::Cluster
                | InternalTopic::TransactionState
                | InternalTopic::ShareState,
            ) => Vec::new(),
            None => self.get(id).map(active_producers).unwrap_or_default(),
        });
        let fitting = all.and_then(|all| match left.checked_sub(all.len()) {
            Some(rest) => {
                *left = rest;
                Ok(all)
            }
            None => Err(ErrorCode::UnknownServerError),
        });
        let mut answer = DescribedProducersPartition { partition_index, ..Default::default() };
        match fitting {
            Ok(all) => answer.active_producers = all,
            Err(error) => answer.error_code = error.code(),
        }
        // Kafka has a message for an unknown topic, but none for an unknown partition.
        if answer.error_code == ErrorCode::UnknownTopicOrPartition.code()
            && call.image.topic(topic).is_none()
        {
            answer.error_message = Some("This server does not host this topic-partition.".into());
        }
        answer
    }
}

fn active_producers(partition: &Partition) -> Vec<DescribedProducer> {
    let transactions = &partition.producers.transactions;
    let describe = |producer: Described| {
        let (coordinator_epoch, current_txn_start_offset) = transactions.describe(producer.id);
        DescribedProducer {
            producer_id: producer.id,
            producer_epoch: producer.epoch.into(),
            last_sequence: producer.last_sequence,
            last_timestamp: producer.last_timestamp,
            coordinator_epoch,
            current_txn_start_offset,
        }
    };
    partition.producers.describe().into_iter().map(describe).collect()
}
