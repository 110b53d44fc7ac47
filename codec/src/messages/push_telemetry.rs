//! PushTelemetry (key 72), version 0, flexible from 0: metrics from a client (KIP-714).

use crate::declare::message;
use crate::types::{Bytes, Uuid};

message! {
    pub struct PushTelemetryRequest<'a> {
        client_instance_id: Uuid, 0..;
        subscription_id: i32, 0..;
        /// True if this is the client's last push before it ends.
        terminating: bool, 0..;
        compression_type: i8, 0..;
        /// OpenTelemetry's `MetricsData`.
        metrics: Bytes<'a>, 0..;
    }

    pub struct PushTelemetryResponse {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
    }
}
