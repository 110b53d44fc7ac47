//! ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe: each item is one group.

use super::{LongApi, TOO_LARGE};
use crate::long_requests::answer::LongAnswer;
use crate::long_requests::owned::{all, text};
use crate::long_requests::rest::{ItemList, Items, Rest};
use crate::long_requests::slice::Slice;
use crate::long_requests::weight::{Sizes, exceed_a_slice};
use muster_codec::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribedConsumerGroup,
    DescribedShareGroup, DescribedStreamsGroup, ShareGroupDescribeRequest,
    ShareGroupDescribeResponse, StreamsGroupDescribeRequest, StreamsGroupDescribeResponse,
};
use muster_codec::{Field, Str};

/// Implements an API. A row has its request, its response, and the type of a group in the response.
macro_rules! described {
    ($($request:ident => $response:ident of $group:ident;)*) => {$(
        impl LongApi for $request<'_> {
            fn is_long(&self, _version: i16, sizes: &mut Sizes<'_>) -> bool {
                exceed_a_slice(self.group_ids.iter().map(|group| Self::weight(group, sizes)))
            }

            fn take_apart(self, _version: i16) -> Box<dyn Rest> {
                let groups = all(self.group_ids, text);
                Box::new(Items::new($request { group_ids: Vec::new(), ..self }, groups))
            }
        }

        impl<'r> ItemList for $request<'r> {
            type Item = Str<'r>;

            fn weight(group: &Str<'r>, sizes: &mut Sizes<'_>) -> usize {
                sizes.group(group)
            }

            fn held(group: &Str<'r>) -> usize {
                group.held()
            }

            fn answer(&self, group_ids: Vec<Str<'r>>, slice: &mut Slice<'_>) {
                slice.add_from_groups(Self { group_ids, ..*self }.into());
            }
        }

        impl<'r> LongAnswer<'r> for $response<'r> {
            type Element = $group<'r>;

            fn list(&mut self) -> &mut Vec<$group<'r>> {
                &mut self.groups
            }

            fn too_large(group: $group<'r>) -> $group<'r> {
                let group_id = group.group_id;
                $group { error_code: TOO_LARGE, group_id, ..Default::default() }
            }

            fn bytes_after_list(_version: i16) -> usize {
                0
            }
        }
    )*};
}

described! {
    ConsumerGroupDescribeRequest => ConsumerGroupDescribeResponse of DescribedConsumerGroup;
    ShareGroupDescribeRequest => ShareGroupDescribeResponse of DescribedShareGroup;
    StreamsGroupDescribeRequest => StreamsGroupDescribeResponse of DescribedStreamsGroup;
}
