//! Kafka's coordinator records of streams groups (KIP-1071), all of version 0. Keys and the value
//! of type 20 have the structures of consumer groups. The value of type 21 is the assignment
//! structure of StreamsGroupDescribe.

use crate::declare::message;
use crate::messages::{
    StreamsGroupEndpoint, StreamsGroupKeyValue, StreamsGroupSubtopology, StreamsTopologyDescription,
};
use crate::types::Str;

message! {
    /// Type 17.
    pub struct StreamsGroupMetadataValue<'a> {
        epoch: i32, 0..;
        /// The hash of the metadata of the topology's topics.
        metadata_hash: i64, 0..;
        /// The epoch of the group's topology if a check found that all its topics exist; otherwise
        /// -1.
        validated_topology_epoch: i32 = -1, 0.., tag 0;
        /// The assignment configs that the last assignment used.
        last_assignment_configs: Option<Vec<StreamsGroupKeyValue<'a>>> = Some(Vec::new()), 0..,
            tag 1;
        /// The epoch of the topology whose description is stored; -1 if no description is stored;
        /// -2 if storing or deleting a description was begun and its outcome is unknown.
        stored_description_topology_epoch: i32 = -1, 0.., tag 2;
        /// The epoch of the topology whose description was permanently refused; -1 if none was.
        failed_description_topology_epoch: i32 = -1, 0.., tag 3;
    }

    /// Type 23: a topology as a member sends it.
    pub struct StreamsGroupTopologyValue<'a> {
        epoch: i32, 0..;
        subtopologies: Vec<StreamsGroupSubtopology<'a>>, 0..;
        /// The description of the topology. The field is muster's own; Kafka skips it as an unknown
        /// tag.
        #[cfg_attr(feature = "serde", serde(skip))]
        description: Option<StreamsTopologyDescription<'a>>, 0.., tag 28021;
    }

    /// Type 19.
    pub struct StreamsGroupMemberMetadataValue<'a> {
        instance_id: Option<Str<'a>>, 0..;
        rack_id: Option<Str<'a>>, 0..;
        client_id: Str<'a>, 0..;
        client_host: Str<'a>, 0..;
        rebalance_timeout_ms: i32 = -1, 0..;
        topology_epoch: i32, 0..;
        process_id: Str<'a>, 0..;
        user_endpoint: Option<StreamsGroupEndpoint<'a>>, 0..;
        client_tags: Vec<StreamsGroupKeyValue<'a>>, 0..;
    }

    /// Type 22.
    pub struct StreamsGroupCurrentMemberAssignmentValue<'a> {
        member_epoch: i32, 0..;
        previous_member_epoch: i32, 0..;
        state: i8, 0..;
        active_tasks: Vec<StreamsGroupOwnedTaskIds<'a>>, 0..;
        standby_tasks: Vec<StreamsGroupOwnedTaskIds<'a>>, 0..;
        warmup_tasks: Vec<StreamsGroupOwnedTaskIds<'a>>, 0..;
        active_tasks_pending_revocation: Vec<StreamsGroupOwnedTaskIds<'a>>, 0..;
        standby_tasks_pending_revocation: Vec<StreamsGroupOwnedTaskIds<'a>>, 0..;
        warmup_tasks_pending_revocation: Vec<StreamsGroupOwnedTaskIds<'a>>, 0..;
    }

    pub struct StreamsGroupOwnedTaskIds<'a> {
        subtopology_id: Str<'a>, 0..;
        partitions: Vec<i32>, 0..;
        /// The epoch at which the member got each of `partitions`, in their order; present only for
        /// active tasks.
        assignment_epochs: Option<Vec<i32>>, 0.., tag 0;
    }
}
