//! The new leader of a partition, in the responses of Produce and Fetch (KIP-951).

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct LeaderIdAndEpoch {
        leader_id: i32 = -1, 0..;
        leader_epoch: i32 = -1, 0..;
    }

    pub struct NodeEndpoint<'a> {
        node_id: i32, 0..;
        host: Str<'a>, 0..;
        port: i32, 0..;
        rack: Option<Str<'a>>, 0..;
    }
}
