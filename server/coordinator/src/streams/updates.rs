//! The description of a group's topology: an answer to a heartbeat requests the description, and
//! the member sends it.

use super::configured::Status;
use super::description::{self, Asking, Description};
use super::topology::NO_TOPOLOGY;
use super::{Beat, Described, Recorded, Streams, StreamsGroup};
use crate::java_order::hash_code;
use crate::limits::TOPOLOGY_DESCRIPTION_BYTES_MAX;
use crate::modern::kind::Kind as _;
use crate::modern::records::group_key;
use crate::modern::validate::{profile_refusal, unknown_member};
use crate::modern::{Refusal, refuse};
use crate::turn::Turn;
use muster_codec::ErrorCode;
use muster_codec::messages::{
    StreamsGroupHeartbeatResponse, StreamsGroupTopologyDescriptionUpdateRequest,
};
use muster_codec::records::GroupRecord;

/// From this version on, an answer can request a description.
const ASKED_FROM: i16 = 1;

impl StreamsGroup {
    /// Whether this answer to a heartbeat requests the description.
    pub(super) fn asks_for_description(
        &mut self,
        now: i64,
        beat: &Beat<'_>,
        answer: &StreamsGroupHeartbeatResponse<'_>,
    ) -> bool {
        if beat.api_version < ASKED_FROM || self.own.description.is_some() {
            return false;
        }
        let configured = self.own.configured.as_ref().map(|it| &it.topology);
        let Some(epoch) = configured.or(self.own.topology.as_ref()).map(|it| it.epoch()) else {
            return false;
        };
        let is_stale = |code: i8| code == Status::StaleTopology as i8;
        let mut statuses = answer.status.iter().flatten();
        self.own.recorded.description.failed != epoch
            && !statuses.any(|it| is_stale(it.status_code))
            && self.own.asking.is_due(now, hash_code(&self.id))
    }

    /// Stores the description of the topology. A member whose client has the address `host` sent
    /// it.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, INVALID_REQUEST. STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED if the
    /// description is too large. The errors of a profile that is too large.
    pub(crate) fn describe_as(
        &mut self,
        turn: &mut Turn<'_, '_>,
        host: &str,
        request: &StreamsGroupTopologyDescriptionUpdateRequest<'_>,
    ) -> Result<(), Refusal> {
        if self.members.get(&request.member_id).is_none() {
            return unknown_member();
        }
        let topology = self.own.topology.clone();
        let epoch = topology.as_ref().map_or(NO_TOPOLOGY, |it| it.epoch());
        let Some(topology) = topology.filter(|_| request.topology_epoch == epoch) else {
            return refuse(ErrorCode::InvalidRequest, "The group has a topology of another epoch.");
        };
        let sent = &request.topology_description;
        if let Err(malformed) = description::check(sent) {
            return refuse(ErrorCode::InvalidRequest, malformed.words());
        }
        let bytes = description::bytes(sent);
        if bytes > TOPOLOGY_DESCRIPTION_BYTES_MAX {
            self.own.asking = Asking::default();
            let stored = self.own.recorded.description.stored;
            turn.write(self.described(Described { stored, failed: epoch }));
            let error = ErrorCode::StreamsTopologyDescriptionUpdateFailed;
            return refuse(error, "The description of the topology is too large.");
        }
        let known = self.own.description.as_ref();
        let added = bytes.saturating_sub(known.map_or(0, Description::bytes));
        profile_refusal(0, self.member_bytes() + added, added, &mut turn.members, host)?;
        self.own.asking = Asking::default();
        let description = Description::read(sent);
        if known == Some(&description) {
            return Ok(());
        }
        let value = Some(topology.to_record(Some(description.0)));
        turn.write(GroupRecord::StreamsGroupTopology(group_key(&self.id), value));
        let failed = self.own.recorded.description.failed;
        turn.write(self.described(Described { stored: epoch, failed }));
        Ok(())
    }

    /// The record of the current group epoch, with changed `description`.
    fn described(&self, description: Described) -> GroupRecord<'static> {
        let fields = Recorded { description, ..self.own.recorded.clone() };
        Streams::epoch_record(&self.id, self.epoch, self.metadata_hash, &fields)
    }
}
