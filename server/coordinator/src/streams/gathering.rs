//! The delay before the first target of a group, during which more members may join.

use super::StreamsGroup;
use super::epoch::STANDBYS;
use crate::modern::target::is_due;
use crate::timers::TimerKey;
use crate::turn::Turn;

impl StreamsGroup {
    /// Starts the delay if the group has no members, unless the delay is running.
    pub(super) fn gather(&mut self, turn: &mut Turn<'_, '_>) {
        let delay_ms = turn.group_configs.initial_delay_ms(&self.id, turn.config);
        if !self.is_empty() || delay_ms <= 0 || self.own.gathering.is_set() {
            return;
        }
        let at = turn.now.saturating_add(i64::from(delay_ms));
        let group_id = &self.id;
        let key = || TimerKey::Join { group_id: group_id.clone() };
        turn.timers.schedule(&mut self.own.gathering, at, key);
    }

    /// Called at the end of the delay. Computes the first target if the group has members and its
    /// topology is configured. Otherwise the next heartbeat computes it.
    pub(crate) fn gathering_timer(&mut self, turn: &mut Turn<'_, '_>) {
        let key = TimerKey::Join { group_id: self.id.clone() };
        if !turn.timers.due(&mut self.own.gathering, turn.now, key) {
            return;
        }
        let is_behind = self.epoch > self.target.epoch && self.target.computing.is_none();
        let interval_ms = turn.streams_config(&self.id).assignment_interval_ms;
        let may_compute = is_due(self.target.timestamp, interval_ms, turn.wall);
        if !self.is_empty() && is_behind && may_compute && self.own.configured.is_some() {
            let assignor = turn.group_configs.task_assignor(&self.id, turn.config);
            let computation = self.computation(None, self.recorded_standbys(), assignor);
            self.compute(turn, computation, self.epoch);
        }
    }

    /// The number of standbys of each task, by the configs of the last group epoch.
    fn recorded_standbys(&self) -> i32 {
        let config = self.own.recorded.configs.iter().find(|(name, _)| **name == *STANDBYS);
        config.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
    }
}
