//! The heartbeats of consumer, share and streams groups, on top of their [`Membership`]: how
//! members send them, and how they handle the answers.

use super::core::{Core, Turn};
use super::error::Step;
use super::io::{Failure, Request, Response};
use super::membership::{Beat, Heard, Membership};
use crate::time::Time;

/// A member whose heartbeats join, keep it alive, fetch assignments and leave.
pub(super) trait Heartbeating {
    /// The answer to a heartbeat.
    type Answer<'a>;

    fn membership(&self) -> &Membership;

    fn membership_mut(&mut self) -> &mut Membership;

    /// The next regular heartbeat.
    fn request(&mut self, version: i16, core: &Core, turn: &mut Turn<'_, '_>) -> Step<Request>;

    /// A heartbeat with only the required fields. It keeps the member alive, or, if the member's
    /// epoch is that of a leaving member, leaves the group.
    fn minimal_request(&self, core: &Core) -> Request;

    /// Returns `None` for the answer to another kind of request.
    fn answer(response: Response<'_>) -> Option<Self::Answer<'_>>;

    fn beat<'a>(answer: &'a Self::Answer<'_>) -> Beat<'a>;

    /// Handles the part of an answer that does not concern the membership.
    fn take(
        &mut self,
        heard: Heard,
        sent: Time,
        answer: Option<Self::Answer<'_>>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step;

    /// Sends a heartbeat if it is due, without adopting assignments.
    fn keep_alive(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        let Some(node) = self.membership().due(core, turn.now()) else { return Ok(()) };
        let version = self.membership().version(core, turn)?;
        let request = self.request(version, core, turn)?;
        self.membership_mut().send(node, version, request, core, turn);
        Ok(())
    }

    /// Builds a heartbeat for the load that is sent in addition to the regular heartbeats. It only
    /// keeps the member alive. Returns it with its API version.
    fn extra_heartbeat(&self, core: &Core, turn: &Turn<'_, '_>) -> Step<(i16, Request)> {
        let version = self.membership().version(core, turn)?;
        Ok((version, self.minimal_request(core)))
    }

    /// Sends the last heartbeat, with this epoch, if the process is a member.
    fn leave(&mut self, epoch: i32, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        let Some(node) = self.membership_mut().begin_to_leave(epoch, core) else { return Ok(()) };
        let request = self.minimal_request(core);
        self.membership_mut().send_last(node, request, core, turn)
    }

    /// Handles the answer to the heartbeat in flight.
    fn heartbeat_answered(
        &mut self,
        sent: Time,
        outcome: Result<Response<'_>, Failure>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let answer = outcome.ok().and_then(Self::answer);
        let beat = answer.as_ref().map(|answer| Self::beat(answer));
        let heard = self.membership_mut().answered(sent, beat, core, turn)?;
        self.take(heard, sent, answer, core, turn)
    }

    /// Handles the answer to an extra heartbeat that the member sent with its current identity.
    fn extra_answered(
        &mut self,
        sent: Time,
        response: Response<'_>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let answer = Self::answer(response).filter(|_| self.membership().is_member());
        let Some(answer) = answer else { return Ok(()) };
        let heard = self.membership_mut().heard(sent, Self::beat(&answer), core, turn)?;
        self.take(heard, sent, Some(answer), core, turn)
    }
}
