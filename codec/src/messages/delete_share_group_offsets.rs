//! DeleteShareGroupOffsets (key 92), version 0, flexible (KIP-932).

use crate::declare::message;
use crate::types::{Str, Uuid};

message! {
    pub struct DeleteShareGroupOffsetsRequest<'a> {
        group_id: Str<'a>, 0..;
        topics: Vec<DeleteShareGroupOffsetsRequestTopic<'a>>, 0..;
    }

    pub struct DeleteShareGroupOffsetsRequestTopic<'a> {
        topic_name: Str<'a>, 0..;
    }

    pub struct DeleteShareGroupOffsetsResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
        responses: Vec<DeleteShareGroupOffsetsResponseTopic<'a>>, 0..;
    }

    pub struct DeleteShareGroupOffsetsResponseTopic<'a> {
        topic_name: Str<'a>, 0..;
        topic_id: Uuid, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
    }
}
