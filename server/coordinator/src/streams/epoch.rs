//! The effect of a heartbeat on the group epoch, which depends on the profiles of members, the
//! topology, the existing topics and configs.

use super::configured::{Configured, configure};
use super::member::Profile;
use super::topology::{NO_TOPOLOGY, Topology};
use super::{Recorded, Reported, StreamsGroup};
use crate::allowance::Allowance;
use crate::limits::TOPOLOGY_BYTES_MAX;
use crate::modern::epoch::{ProfileChange, ProfileEffect};
use crate::modern::records::group_key;
use crate::modern::validate::profile_refusal;
use crate::modern::{Draft, Refusal, refuse};
use crate::text::Text;
use crate::turn::Turn;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use muster_codec::ErrorCode;
use muster_codec::records::GroupRecord;

/// The configs on which an assignment depends, in the order of their names.
pub(super) const STANDBYS: &str = "num.standby.replicas";
const RACK_TAGS: &str = "rack.aware.assignment.tags";

impl StreamsGroup {
    pub(super) fn effect(
        &mut self,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        change: ProfileChange<'_, Profile>,
    ) -> Result<ProfileEffect<Recorded>, Refusal> {
        let topology = self.accept_topology(draft)?;
        let is_current = |it: &Configured| it.is_current(&topology, turn.topics);
        if !self.own.configured.as_ref().is_some_and(is_current) {
            self.own.configured = Some(configure(&topology, turn.topics)?);
            self.own.endpoints.topics_changed();
        }
        self.refuse_unknown_tasks()?;
        self.take_report(&mut turn.members, &change.after.client_host)?;
        self.gather(turn);
        let is_changed = if self.own.asked.is_static {
            change.before.has_other_place(change.after)
        } else {
            change.after != change.before
        };
        let is_outdated = self.is_outdated(turn.topics);
        let fields = Recorded {
            validated: self.validated(),
            configs: configs(turn, &self.id),
            ..self.own.recorded
        };
        Ok(ProfileEffect { is_changed, bumps: is_changed, is_outdated, fields })
    }

    /// The group's topology after a heartbeat, which may contain one. A group without a topology
    /// takes it. A topology with an earlier epoch is ignored; the answer has a status for that.
    /// Another topology with the same or a later epoch is refused.
    fn accept_topology(&mut self, draft: &mut Draft<'_>) -> Result<Arc<Topology>, Refusal> {
        match (self.own.asked.topology.take(), &self.own.topology) {
            (Some(sent), None) => {
                if sent.bytes() > TOPOLOGY_BYTES_MAX {
                    return refuse(ErrorCode::UnknownServerError, "The topology is too large.");
                }
                let value = Some(sent.to_record(None));
                draft.push(GroupRecord::StreamsGroupTopology(group_key(&self.id), value));
                Ok(sent)
            }
            (Some(sent), Some(known)) if sent.epoch() >= known.epoch() && !known.is(&sent.0) => {
                refuse(ErrorCode::InvalidRequest, "Topology updates are not supported yet.")
            }
            (Some(_) | None, Some(known)) => Ok(known.clone()),
            (None, None) => refuse(ErrorCode::UnknownServerError, "The group has no topology."),
        }
    }

    /// Refuses reported tasks that the topology does not have, if it is ready.
    fn refuse_unknown_tasks(&mut self) -> Result<(), Refusal> {
        let tasks = core::mem::take(&mut self.own.asked.tasks);
        let Some(Ok(ready)) = self.own.configured.as_ref().map(|it| &it.outcome) else {
            return Ok(());
        };
        let exists = |it: &Reported| {
            let tasks = ready.place_of(&it.subtopology).map(|at| ready.subtopologies[at].tasks);
            tasks.is_some_and(|tasks| it.least >= 0 && it.greatest < tasks)
        };
        if tasks.iter().all(exists) {
            return Ok(());
        }
        refuse(ErrorCode::InvalidRequest, "The topology has no such task.")
    }

    /// Stores the offsets of tasks that a heartbeat reports.
    fn take_report(&mut self, members: &mut Allowance, host: &str) -> Result<(), Refusal> {
        let Some(report) = self.own.asked.report.take() else { return Ok(()) };
        if report.repeats {
            return refuse(ErrorCode::InvalidRequest, "The offsets name a task twice.");
        }
        let added = self.own.task_offsets.added_by(&report);
        profile_refusal(0, self.member_bytes() + added, added, members, host)?;
        self.own.task_offsets.take(report);
        Ok(())
    }

    /// Whether the configs of the last group epoch are still current. Every heartbeat calls it.
    pub(super) fn has_configs(&self, turn: &Turn<'_, '_>) -> bool {
        let standbys = turn.group_configs.standbys(&self.id, turn.config);
        let tags = turn.group_configs.rack_tags(&self.id, turn.config);
        let (of_standbys, of_tags) = match &*self.own.recorded.configs {
            [(name, standbys)] if **name == *STANDBYS => (standbys, None),
            [(name, standbys), (other, tags)] if **name == *STANDBYS && **other == *RACK_TAGS => {
                (standbys, Some(tags))
            }
            _ => return false,
        };
        let has_tags = match of_tags {
            None => tags.is_empty(),
            Some(recorded) => recorded.split(',').eq(tags.iter().map(String::as_str)),
        };
        of_standbys.parse() == Ok(standbys) && has_tags
    }

    fn validated(&self) -> i32 {
        let configured = self.own.configured.as_ref();
        configured.map_or(NO_TOPOLOGY, Configured::validated_epoch)
    }
}

/// The configs for an assignment that is computed now.
fn configs(turn: &Turn<'_, '_>, group_id: &str) -> Vec<(Text, Text)> {
    let standbys = turn.group_configs.standbys(group_id, turn.config);
    let tags = turn.group_configs.rack_tags(group_id, turn.config);
    let standbys = (Text::from(STANDBYS), Text::from(standbys.to_string()));
    let tags = (!tags.is_empty()).then(|| (Text::from(RACK_TAGS), Text::from(tags.join(","))));
    [standbys].into_iter().chain(tags).collect()
}
