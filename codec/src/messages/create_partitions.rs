//! CreatePartitions (key 37), versions 0-3, flexible from 2.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct CreatePartitionsRequest<'a> {
        topics: Vec<CreatePartitionsTopic<'a>>, 0..;
        timeout_ms: i32, 0..;
        validate_only: bool, 0..;
    }

    pub struct CreatePartitionsTopic<'a> {
        name: Str<'a>, 0..;
        count: i32, 0..;
        assignments: Option<Vec<CreatePartitionsAssignment>> = Some(Vec::new()), 0..;
    }

    pub struct CreatePartitionsAssignment {
        broker_ids: Vec<i32>, 0..;
    }

    pub struct CreatePartitionsResponse<'a> {
        throttle_time_ms: i32, 0..;
        results: Vec<CreatePartitionsTopicResult<'a>>, 0..;
    }

    pub struct CreatePartitionsTopicResult<'a> {
        name: Str<'a>, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
    }
}
