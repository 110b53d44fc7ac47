//! WriteTxnMarkers (key 27), versions 1-2, flexible from 1. Brokers and Admin.abortTransaction send
//! this request.
//!
//! Added by each version:
//! - v2: request `transaction_version` (KIP-1228).

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct WriteTxnMarkersRequest<'a> {
        markers: Vec<WritableTxnMarker<'a>>, 0..;
    }

    pub struct WritableTxnMarker<'a> {
        producer_id: i64, 0..;
        producer_epoch: i16, 0..;
        /// True for COMMIT.
        transaction_result: bool, 0..;
        topics: Vec<WritableTxnMarkerTopic<'a>>, 0..;
        coordinator_epoch: i32, 0..;
        transaction_version: i8, 2..;
    }

    pub struct WritableTxnMarkerTopic<'a> {
        name: Str<'a>, 0..;
        partition_indexes: Vec<i32>, 0..;
    }

    pub struct WriteTxnMarkersResponse<'a> {
        markers: Vec<WritableTxnMarkerResult<'a>>, 0..;
    }

    pub struct WritableTxnMarkerResult<'a> {
        producer_id: i64, 0..;
        topics: Vec<WritableTxnMarkerTopicResult<'a>>, 0..;
    }

    pub struct WritableTxnMarkerTopicResult<'a> {
        name: Str<'a>, 0..;
        partitions: Vec<WritableTxnMarkerPartitionResult>, 0..;
    }

    pub struct WritableTxnMarkerPartitionResult {
        partition_index: i32, 0..;
        error_code: i16, 0..;
    }
}
