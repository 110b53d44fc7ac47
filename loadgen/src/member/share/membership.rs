//! The membership of a member of a share group: ShareGroupHeartbeat joins, keeps alive, brings
//! assignments and leaves. Nothing is given up before others may have it, so an assignment is
//! adopted at once. The order of requests is that of Kafka's `ShareMembershipManager` and
//! `ShareHeartbeatRequestManager`.

use kafka_protocol::messages::{
    ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse, TopicName,
};
use muster_codec::ApiKey;

use super::Share;
use crate::member::consumer_messages::Target;
use crate::member::core::{Core, Turn};
use crate::member::error::Step;
use crate::member::heartbeating::Heartbeating;
use crate::member::io::{Regular, Request, Response};
use crate::member::membership::{Beat, Beats, Heard, Membership};
use crate::time::Time;

pub(super) static BEATS: Beats =
    Beats { api: ApiKey::ShareGroupHeartbeat, least_version: 1, regular: Regular::ShareHeartbeat };

impl Share {
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

    fn minimal(&self, core: &Core) -> ShareGroupHeartbeatRequest {
        ShareGroupHeartbeatRequest::default()
            .with_group_id(core.group().id.clone().into())
            .with_member_id(self.membership.member_id.clone())
            .with_member_epoch(self.membership.epoch)
    }
}

impl Heartbeating for Share {
    type Answer = ShareGroupHeartbeatResponse;

    fn membership(&self) -> &Membership {
        &self.membership
    }

    fn membership_mut(&mut self) -> &mut Membership {
        &mut self.membership
    }

    fn request(&mut self, _: i16, core: &Core, turn: &mut Turn<'_, '_>) -> Step<Request> {
        self.membership.choose_id(turn);
        let mut request = self.minimal(core);
        if self.membership.is_full() {
            let topics = core.group().subscription.topics().iter();
            let known = topics.filter_map(|topic| turn.context.topics.get(*topic));
            let names = known.map(|topic| TopicName(topic.name.clone())).collect();
            request.subscribed_topic_names = Some(names);
            request.rack_id = core.plan.rack.clone();
        }
        Ok(Request::ShareGroupHeartbeat(request))
    }

    fn minimal_request(&self, core: &Core) -> Request {
        Request::ShareGroupHeartbeat(self.minimal(core))
    }

    fn answer(response: Response) -> Option<ShareGroupHeartbeatResponse> {
        match response {
            Response::ShareGroupHeartbeat(answer) => Some(answer),
            _ => None,
        }
    }

    fn beat(answer: &ShareGroupHeartbeatResponse) -> Beat {
        Beat {
            error: answer.error_code,
            said: answer.error_message.clone(),
            member_id: answer.member_id.clone(),
            epoch: answer.member_epoch,
            interval_ms: answer.heartbeat_interval_ms,
        }
    }

    fn take(
        &mut self,
        heard: Heard,
        _: Time,
        answer: Option<ShareGroupHeartbeatResponse>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        match heard {
            Heard::Alive { .. } => self.assigned(answer, core, turn),
            Heard::Out => self.target = None,
            Heard::Nothing => {}
        }
        Ok(())
    }
}
