//! The membership of a member of a share group: ShareGroupHeartbeat joins, keeps alive, brings
//! assignments and leaves. Nothing is given up before others may have it, so an assignment is
//! adopted at once. The order of requests is that of Kafka's `ShareMembershipManager` and
//! `ShareHeartbeatRequestManager`.

use kafka_protocol::messages::{
    ApiKey, ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse, TopicName,
};

use super::Share;
use crate::member::consumer_messages::Target;
use crate::member::core::{Core, Turn};
use crate::member::error::{Api, Step};
use crate::member::heartbeats::LEAVE;
use crate::member::io::{Failure, NodeIndex, Regular, Request, Response};
use crate::member::membership::{Beat, Beats, Heard};
use crate::time::Time;

pub(super) static BEATS: Beats = Beats {
    api: Api::Known(ApiKey::ShareGroupHeartbeat),
    least_version: 1,
    regular: Regular::ShareHeartbeat,
};

impl Share {
    /// Sends a heartbeat that is due, while it gives up its partitions.
    pub(in crate::member) fn keep_alive(
        &mut self,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        match self.membership.due(core, turn.now()) {
            Some(node) => self.heartbeat(node, core, turn),
            None => Ok(()),
        }
    }

    /// Sends the last heartbeat, if it is a member.
    pub(in crate::member) fn leave(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        let Some(node) = self.membership.begin_to_leave(LEAVE, core) else { return Ok(()) };
        let request = Request::ShareGroupHeartbeat(self.minimal(core));
        self.membership.send_last(node, request, core, turn)
    }

    /// Handles the answer to the heartbeat that is awaited.
    pub(super) fn heartbeat_answered(
        &mut self,
        sent: Time,
        outcome: Result<Response, Failure>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let response = match outcome {
            Ok(Response::ShareGroupHeartbeat(response)) => Some(response),
            Ok(_) | Err(_) => None,
        };
        match self.membership.answered(sent, response.as_ref().map(beat), core, turn)? {
            Heard::Alive { .. } => self.assigned(response, core, turn),
            Heard::Out => self.target = None,
            Heard::Nothing => {}
        }
        Ok(())
    }

    /// Adopts the known topics of the target; it stays while it has unknown ones.
    pub(super) fn adopt(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) {
        if let Some(mut target) = self.target.take() {
            target.resolve(turn.context.topics);
            core.revoke_but(&target.partitions, turn);
            core.adopt(self.membership.epoch, target.partitions.clone(), turn);
            if !target.unknown.is_empty() {
                self.target = Some(target);
            }
        }
        self.membership.settle(self.target.is_some(), core, turn);
    }

    fn assigned(
        &mut self,
        response: Option<ShareGroupHeartbeatResponse>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) {
        if let Some(assignment) = response.and_then(|response| response.assignment) {
            let assigned = assignment.topic_partitions.into_iter();
            let assigned = assigned.map(|topic| (topic.topic_id, topic.partitions));
            self.target = Some(Target::read(assigned, turn.context.topics));
            self.membership.unsettle();
        }
        self.adopt(core, turn);
    }

    fn heartbeat(&mut self, node: NodeIndex, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        let version = self.membership.version(core, turn)?;
        self.membership.choose_id(turn);
        let mut request = self.minimal(core);
        if self.membership.is_full() {
            let topics = core.group().subscription.topics().iter();
            let known = topics.filter_map(|topic| turn.context.topics.get(*topic));
            let names = known.map(|topic| TopicName(topic.name.clone())).collect();
            request.subscribed_topic_names = Some(names);
            request.rack_id = core.plan.rack.clone();
        }
        let request = Request::ShareGroupHeartbeat(request);
        self.membership.send(node, version, request, core, turn);
        Ok(())
    }

    fn minimal(&self, core: &Core) -> ShareGroupHeartbeatRequest {
        ShareGroupHeartbeatRequest::default()
            .with_group_id(core.group().id.clone().into())
            .with_member_id(self.membership.member_id.clone())
            .with_member_epoch(self.membership.epoch)
    }
}

fn beat(response: &ShareGroupHeartbeatResponse) -> Beat {
    Beat {
        error: response.error_code,
        said: response.error_message.clone(),
        member_id: response.member_id.clone(),
        epoch: response.member_epoch,
        interval_ms: response.heartbeat_interval_ms,
    }
}
