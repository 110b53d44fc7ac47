//! The load of a member in addition to the requests that keep it in its group: it reads records,
//! commits and fetches offsets, and sends more heartbeats.

use super::Member;
use super::core::Turn;
use super::error::Step;
use super::io::Destination;
use super::offset_messages::Identity;
use crate::plan::Fetching;

impl Member {
    /// Sets whether the member reads records from now on. Even if it does not, answers to requests
    /// that are in flight still count.
    pub(super) fn consume(&mut self, records: Option<Fetching>, turn: &mut Turn<'_, '_>) {
        self.core.consumes = records.is_some();
        if self.core.consumes || self.consuming.is_some() {
            self.consuming.get_or_insert_default().set(records, turn);
        }
    }

    /// The member id and epoch with which a member that reads records commits its positions before
    /// it gives up partitions.
    pub(super) fn who_commits(&self) -> Option<(String, i32)> {
        let identity = self.role.identity().filter(|_| self.core.consumes)?;
        Some((identity.member_id.to_owned(), identity.epoch))
    }

    pub(super) fn commit_given_up(
        &mut self,
        identity: Option<&(String, i32)>,
        before: usize,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let identity = identity.map(|(id, epoch)| Identity { member_id: id, epoch: *epoch });
        self.offsets.commit_given_up(identity, before, &mut self.core, turn)
    }

    pub(super) fn work(&mut self, turn: &mut Turn<'_, '_>) -> Step {
        let Some(identity) = self.role.identity() else {
            self.offsets.hold();
            return Ok(());
        };
        let Some(node) = self.core.lookup.node() else { return Ok(()) };
        self.offsets.advance(identity, &mut self.core, turn)?;
        while let Some(due) = self.offsets.heartbeat_due(turn.now()) {
            let Some((version, request)) = self.role.extra_heartbeat(&self.core, turn)? else {
                break;
            };
            let to = Destination::Node(node);
            let token = self.core.send_due(turn, to, version, request, due);
            self.offsets.heartbeat_sent(token, self.core.incarnation);
        }
        Ok(())
    }
}
