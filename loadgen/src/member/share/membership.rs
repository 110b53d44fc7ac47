//! The membership of a member of a share group. ShareGroupHeartbeat joins, keeps the member alive,
//! fetches assignments and leaves. Other members may have the same partitions, so the member adopts
//! an assignment at once. The order of requests is that of Kafka's `ShareMembershipManager` and
//! `ShareHeartbeatRequestManager`.

use muster_codec::ApiKey;
use muster_codec::messages::{ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse};

use super::Share;
use crate::member::consumer_messages::Target;
use crate::member::core::{Core, Turn};
use crate::member::error::Step;
use crate::member::heartbeating::Heartbeating;
use crate::member::io::{Regular, Request, Response};
use crate::member::membership::{Beat, Beats, Heard, Membership};
use crate::member::text::text;
use crate::time::Time;

pub(super) static BEATS: Beats =
    Beats { api: ApiKey::ShareGroupHeartbeat, least_version: 1, regular: Regular::ShareHeartbeat };

impl Share {
    /// Adopts the known topics of the target. The target is kept while it has unknown topics.
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
        response: Option<ShareGroupHeartbeatResponse<'_>>,
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

    fn minimal(&self, core: &Core) -> ShareGroupHeartbeatRequest<'static> {
        ShareGroupHeartbeatRequest {
            group_id: text(&core.group().id),
            member_id: text(&self.membership.member_id),
            member_epoch: self.membership.epoch,
            ..ShareGroupHeartbeatRequest::default()
        }
    }
}

impl Heartbeating for Share {
    type Answer<'a> = ShareGroupHeartbeatResponse<'a>;

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
            request.subscribed_topic_names = Some(known.map(|it| text(&it.name)).collect());
            request.rack_id = core.plan.rack.as_deref().map(text);
        }
        Ok(Request::ShareGroupHeartbeat(request))
    }

    fn minimal_request(&self, core: &Core) -> Request {
        Request::ShareGroupHeartbeat(self.minimal(core))
    }

    fn answer(response: Response<'_>) -> Option<ShareGroupHeartbeatResponse<'_>> {
        match response {
            Response::ShareGroupHeartbeat(answer) => Some(answer),
            _ => None,
        }
    }

    fn beat<'a>(answer: &'a ShareGroupHeartbeatResponse<'_>) -> Beat<'a> {
        Beat {
            error: answer.error_code,
            said: answer.error_message.as_deref(),
            member_id: answer.member_id.as_deref(),
            epoch: answer.member_epoch,
            interval_ms: answer.heartbeat_interval_ms,
        }
    }

    fn take(
        &mut self,
        heard: Heard,
        _: Time,
        answer: Option<ShareGroupHeartbeatResponse<'_>>,
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
