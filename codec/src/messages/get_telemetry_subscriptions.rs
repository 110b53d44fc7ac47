//! GetTelemetrySubscriptions (key 71), version 0, flexible from 0: asks which metrics the client
//! has to push (KIP-714).

use crate::declare::message;
use crate::types::{Str, Uuid};

message! {
    pub struct GetTelemetrySubscriptionsRequest {
        /// Zero if the client has no id yet.
        client_instance_id: Uuid, 0..;
    }

    pub struct GetTelemetrySubscriptionsResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        client_instance_id: Uuid, 0..;
        subscription_id: i32, 0..;
        /// In the order of the server's preference.
        accepted_compression_types: Vec<i8>, 0..;
        push_interval_ms: i32, 0..;
        telemetry_max_bytes: i32, 0..;
        /// True if the client has to push each counter as its increase since the last push.
        delta_temporality: bool, 0..;
        /// Prefixes of the names of the requested metrics. An empty list requests no metrics, `*`
        /// all.
        requested_metrics: Vec<Str<'a>>, 0..;
    }
}
