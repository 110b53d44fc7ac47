//! FindCoordinator (key 10), versions 0-6, flexible from 3.
//!
//! Added by each version:
//! - v1: request `key_type`; response `throttle_time_ms`, `error_message`.
//! - v4: request `coordinator_keys`; response `coordinators`.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct FindCoordinatorRequest<'a> {
        key: Str<'a>, 0..=3;
        key_type: i8, 1..;
        coordinator_keys: Vec<Str<'a>>, 4..;
    }

    pub struct FindCoordinatorResponse<'a> {
        throttle_time_ms: i32, 1..;
        error_code: i16, 0..=3;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 1..=3;
        node_id: i32, 0..=3;
        host: Str<'a>, 0..=3;
        port: i32, 0..=3;
        coordinators: Vec<Coordinator<'a>>, 4..;
    }

    pub struct Coordinator<'a> {
        key: Str<'a>, 4..;
        node_id: i32, 4..;
        host: Str<'a>, 4..;
        port: i32, 4..;
        error_code: i16, 4..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 4..;
    }
}
