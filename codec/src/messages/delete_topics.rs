//! DeleteTopics (key 20), versions 1-6, flexible from 4.
//!
//! Added by each version:
//! - v5: response `error_message`.
//! - v6: request `topics`; response `topic_id`.

use crate::declare::message;
use crate::types::{Str, Uuid};

message! {
    pub struct DeleteTopicsRequest<'a> {
        topics: Vec<DeleteTopicState<'a>>, 6..;
        topic_names: Vec<Str<'a>>, 0..=5;
        timeout_ms: i32, 0..;
    }

    pub struct DeleteTopicState<'a> {
        name: Option<Str<'a>>, 6..;
        topic_id: Uuid, 6..;
    }

    pub struct DeleteTopicsResponse<'a> {
        throttle_time_ms: i32, 1..;
        responses: Vec<DeletableTopicResult<'a>>, 0..;
    }

    pub struct DeletableTopicResult<'a> {
        name: Option<Str<'a>> = Some(Str::Borrowed("")), 0.., nullable 6..;
        topic_id: Uuid, 6..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 5..;
    }
}
