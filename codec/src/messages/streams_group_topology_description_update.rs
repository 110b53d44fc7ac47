//! StreamsGroupTopologyDescriptionUpdate (key 93), version 0, flexible (KIP-1331).

use super::StreamsTopologyDescription;
use crate::declare::message;
use crate::types::Str;

message! {
    pub struct StreamsGroupTopologyDescriptionUpdateRequest<'a> {
        group_id: Str<'a>, 0..;
        member_id: Str<'a>, 0..;
        /// The epoch of the topology that the description belongs to.
        topology_epoch: i32, 0..;
        topology_description: StreamsTopologyDescription<'a>, 0..;
    }

    pub struct StreamsGroupTopologyDescriptionUpdateResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
    }
}
