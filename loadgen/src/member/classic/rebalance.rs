//! The rebalances of a member of a classic group: JoinGroup, SyncGroup, and the partitions that it
//! gives up or adopts before and after them.

use std::sync::Arc;

use muster_codec::ApiKey;
use muster_codec::ErrorCode;

use muster_codec::messages::{JoinGroupResponse, SyncGroupRequestAssignment, SyncGroupResponse};

use super::{Classic, Phase, Then, is_fencing};
use crate::event::EventKind;
use crate::member::assignors::protocol::{lead, read_assignment};
use crate::member::classic_messages as messages;
use crate::member::core::{Core, Turn};
use crate::member::error::{Fatal, Step, refusal};
use crate::member::owned::difference;
use crate::member::repeat::Repeat;
use crate::plan::Partition;
use crate::time::Time;
use crate::topics::Topics;

impl Classic {
    /// Prepares to join. An eager member first gives up all partitions, which takes time. A
    /// cooperative member keeps them, except those of topics to which it no longer subscribes.
    pub(super) fn prepare_to_join(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) {
        self.rejoin = false;
        self.assigned_of = None;
        let takes = core.group().revocation_takes;
        if messages::is_cooperative(core) || core.owned.is_empty() {
            self.revoke_unsubscribed(core, turn);
            self.phase = Phase::Unjoined;
        } else if takes.is_zero() {
            core.revoke_all(turn);
            self.phase = Phase::Unjoined;
        } else {
            self.phase = Phase::Revoking(turn.now() + takes, Then::Join);
        }
    }

    fn revoke_unsubscribed(&self, core: &mut Core, turn: &mut Turn<'_, '_>) {
        if self.differs(core) {
            let topics = core.group().subscription.topics();
            let kept = core.owned.partitions().iter().filter(|it| topics.contains(&it.topic));
            let kept: Vec<_> = kept.copied().collect();
            core.revoke_but(&kept, turn);
        }
    }

    pub(super) fn join(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        if self.in_flight.is_some() || !self.retry.ready(turn.now()) {
            return Ok(());
        }
        let Some(node) = core.lookup.node() else { return Ok(()) };
        let (version, request) = messages::join(self, core, turn)?;
        core.emit(turn, EventKind::Joining);
        self.joined_to = Some(Arc::clone(core.group().subscription.topics()));
        self.send(node, version, request, core, turn);
        self.phase = Phase::Joining;
        Ok(())
    }

    pub(super) fn joined(
        &mut self,
        sent: Time,
        response: &JoinGroupResponse<'_>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        self.phase = Phase::Unjoined;
        if let Some(error) = refusal(response.error_code) {
            return self.not_joined(error, &response.member_id, core, turn);
        }
        core.lookup.confirm();
        if *self.member_id != *response.member_id {
            self.member_id = Arc::from(&*response.member_id);
        }
        self.generation = response.generation_id;
        core.incarnation = core.incarnation.wrapping_add(1);
        self.retry.succeeded();
        self.fenced = false;
        self.rejoin = false;
        let member_id = Arc::clone(&self.member_id);
        core.emit(turn, EventKind::Joined { member_id, epoch: self.generation });
        self.alive(sent, core, turn);
        self.next_heartbeat = Core::first_heartbeat(core.group().heartbeat_interval, turn);
        self.assignor = Some(messages::chosen(response, core)?);
        let assignments = self.assignments(response, core, turn.context.topics)?;
        self.phase = Phase::Joined(assignments);
        Ok(())
    }

    /// Returns the assignments that this member makes as the leader. Empty if another member leads.
    /// Also empty for a static leader that has returned, if the coordinator keeps the old
    /// assignments (KIP-814).
    fn assignments(
        &mut self,
        response: &JoinGroupResponse<'_>,
        core: &Core,
        topics: &Topics,
    ) -> Step<Vec<SyncGroupRequestAssignment<'static>>> {
        if *response.leader != *self.member_id {
            return Ok(Vec::new());
        }
        self.assigned_of = Some(messages::partition_counts(core, topics));
        match self.assignor {
            Some(assignor) if !response.skip_assignment => {
                lead(assignor, &response.members, topics).map_err(|error| {
                    Fatal(format!("the leader of group {} can't assign: {error}", core.group().id))
                })
            }
            _ => Ok(Vec::new()),
        }
    }

    fn not_joined(
        &mut self,
        error: ErrorCode,
        member_id: &str,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        match error {
            ErrorCode::MemberIdRequired => {
                core.refused(turn, ApiKey::JoinGroup, error.code());
                if !self.member_id.is_empty() {
                    core.failed(&mut self.retry, turn);
                }
                self.member_id = Arc::from(member_id);
                Ok(())
            }
            ErrorCode::RebalanceInProgress => {
                core.refused(turn, ApiKey::JoinGroup, error.code());
                core.failed_once(&mut self.retry, turn);
                Ok(())
            }
            error if is_fencing(error) => self.fence(ApiKey::JoinGroup, error, core, turn),
            error => self.remedy(ApiKey::JoinGroup, error, core, turn),
        }
    }

    pub(super) fn sync(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        let Some(node) = core.lookup.node().filter(|_| self.in_flight.is_none()) else {
            // The coordinator was lost since it answered, so the member has to join again.
            self.phase = Phase::Unjoined;
            return Ok(());
        };
        if let Phase::Joined(assignments) = std::mem::replace(&mut self.phase, Phase::Syncing) {
            let (version, request) = messages::sync(self, assignments, core, turn)?;
            self.send(node, version, request, core, turn);
        }
        Ok(())
    }

    pub(super) fn synced(
        &mut self,
        sent: Time,
        response: &SyncGroupResponse<'_>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        self.phase = Phase::Unjoined;
        match refusal(response.error_code) {
            None => {
                let assigned = read_assignment(&response.assignment, turn.context.topics);
                let assigned = assigned.map_err(|error| {
                    let group = &core.group().id;
                    Fatal(format!("a member of group {group} can't read its assignment: {error}"))
                })?;
                self.retry.succeeded();
                core.lookup.confirm();
                self.alive(sent, core, turn);
                self.phase = Phase::Synced(assigned);
                self.repeat = Repeat::of(core.plan.index, &response.assignment);
                Ok(())
            }
            Some(ErrorCode::RebalanceInProgress) => {
                core.emit(turn, EventKind::MustRebalance { sent });
                core.failed_once(&mut self.retry, turn);
                Ok(())
            }
            Some(error) if is_fencing(error) => self.fence(ApiKey::SyncGroup, error, core, turn),
            Some(error) => self.remedy(ApiKey::SyncGroup, error, core, turn),
        }
    }

    /// Adopts the assignment of SyncGroup. A cooperative member first gives up the partitions that
    /// are not in it.
    pub(super) fn take_up(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) {
        if !matches!(self.phase, Phase::Synced(_)) {
            return;
        }
        let Phase::Synced(assigned) = std::mem::replace(&mut self.phase, Phase::Stable) else {
            return;
        };
        // No heartbeat is due before the member has its assignment.
        self.next_heartbeat = self.next_heartbeat.max(turn.now());
        if difference(core.owned.partitions(), &assigned).is_empty() {
            self.adopt(assigned, core, turn);
            if !self.rejoin {
                core.emit(turn, EventKind::Settled { epoch: self.generation });
            }
            return;
        }
        let until = turn.now() + core.group().revocation_takes;
        self.phase = Phase::Revoking(until, Then::Adopt(assigned));
    }

    /// Ends a revocation when its time is over. After a cooperative revocation the member joins
    /// again, so that the next rebalance assigns the freed partitions to other members.
    pub(super) fn finish_revocation(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) {
        if !matches!(self.phase, Phase::Revoking(until, _) if until <= turn.now()) {
            return;
        }
        match std::mem::replace(&mut self.phase, Phase::Unjoined) {
            Phase::Revoking(_, Then::Adopt(assigned)) => {
                core.revoke_but(&assigned, turn);
                self.adopt(assigned, core, turn);
                self.phase = Phase::Stable;
                self.rejoin = true;
            }
            _ => core.revoke_all(turn),
        }
    }

    fn adopt(&mut self, assigned: Vec<Partition>, core: &mut Core, turn: &mut Turn<'_, '_>) {
        core.adopt(self.generation, assigned, turn);
        self.last = (core.owned.shared(), self.generation);
    }
}
