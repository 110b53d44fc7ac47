//! DescribeTopicPartitions. The answer is one page of topics, with a limit and a cursor. The topics
//! of a page must be sorted. So a request with many names is not split, but answered in one slice.

use super::LongApi;
use crate::admin;
use crate::long_requests::owned::{all, text};
use crate::long_requests::rest::{Rest, Single, Whole};
use crate::long_requests::slice::Slice;
use crate::long_requests::weight::{SLICE_WEIGHT, Sizes};
use muster_codec::Field;
use muster_codec::messages::{Cursor, DescribeTopicPartitionsRequest, TopicRequest};

impl LongApi for DescribeTopicPartitionsRequest<'_> {
    fn is_long(&self, _version: i16, _sizes: &mut Sizes<'_>) -> bool {
        self.topics.len() > SLICE_WEIGHT
    }

    fn take_apart(self, _version: i16) -> Box<dyn Rest> {
        Box::new(Whole(Some(DescribeTopicPartitionsRequest {
            topics: all(self.topics, |topic| TopicRequest { name: text(topic.name) }),
            response_partition_limit: self.response_partition_limit,
            cursor: self.cursor.map(|cursor| Cursor {
                topic_name: text(cursor.topic_name),
                partition_index: cursor.partition_index,
            }),
        })))
    }
}

impl Single for DescribeTopicPartitionsRequest<'_> {
    fn answer(self, slice: &mut Slice<'_>) {
        let view = slice.view();
        slice.add(admin::describe_topic_partitions(&view, &self).into());
    }

    fn held(&self) -> usize {
        Field::held(self)
    }
}
