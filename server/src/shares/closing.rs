//! The last request of a share session. As in Kafka, the session ends and its member's records are
//! released once the acknowledgements of this request are flushed. So the release is a record of
//! its own, which follows the record of the acknowledgements. It has the start offset to which the
//! acknowledgements moved the share partition.

use super::table::{Closing, Request};
use super::{Inputs, Shares};
use crate::net::VisibleAt;
use muster_shares::sessions::SessionKey;

impl Shares {
    /// Ends the session of a member with its last request, at once or when the request's
    /// acknowledgements are flushed.
    pub(super) fn close_session(&mut self, inputs: &Inputs<'_>, request: &Request) {
        if request.unwritten.is_empty() {
            return self.end_session(inputs, &request.member);
        }
        let closing = Closing { request: request.asked.request, visible_at: None };
        self.closing.insert(request.member.clone(), closing);
    }

    /// Called when the last request of a member is answered. Notes the positions of the records
    /// that the answer waits for: when these are flushed, the member's session ends.
    pub(super) fn closing_answered(&mut self, request: &Request) {
        let closing = self.closing.get_mut(&request.member);
        if let Some(closing) = closing.filter(|it| it.request == request.asked.request) {
            closing.visible_at = Some(request.visible_at.clone());
        }
    }

    /// Called when a last request gets no answer because its connection ended. Ends the session.
    pub(super) fn closing_unanswered(&mut self, inputs: &Inputs<'_>, request: &Request) {
        let closing = self.closing.get(&request.member);
        if closing.is_some_and(|it| it.request == request.asked.request) {
            self.end_session(inputs, &request.member);
        }
    }

    /// Ends the session that a member has closed, before the member's next request. Otherwise the
    /// end of the old session would release records of the new one. Kafka accepts requests of a
    /// closed session until the acknowledgements are written; its clients send none.
    pub(super) fn end_closing(&mut self, inputs: &Inputs<'_>, member: &SessionKey) {
        if self.closing.contains_key(member) {
            self.end_session(inputs, member);
        }
    }

    /// Ends the sessions whose last acknowledgements are flushed.
    pub(super) fn end_flushed_sessions(&mut self, inputs: &Inputs<'_>) {
        let log = inputs.runtime.log();
        let is_flushed = |at: &VisibleAt| {
            let mut positions = at.positions();
            positions.all(|(slot, position)| position <= log.progress_of(slot).flushed())
        };
        let is_over = |it: &Closing| it.visible_at.as_ref().is_some_and(is_flushed);
        let over = self.closing.iter().filter(|(_, it)| is_over(it));
        let members: Vec<_> = over.map(|(member, _)| member.clone()).collect();
        members.iter().for_each(|member| self.end_session(inputs, member));
    }

    fn end_session(&mut self, inputs: &Inputs<'_>, member: &SessionKey) {
        let was_closing = self.closing.remove(member).is_some();
        // The session may have ended already, by another request or with its connection. Then its
        // records were released.
        if let Ok(ended) = self.sessions.close(member) {
            self.release(inputs, &member.group_id, &ended);
        }
        // If all connections of the group ended before, only this place notes that the group has
        // no session left.
        if was_closing && !self.sessions.has_group(&member.group_id) {
            self.left_groups.insert(member.group_id.clone());
        }
    }
}
