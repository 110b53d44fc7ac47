//! Ramps: the loads of a phase that reach their rates gradually.

use std::time::Duration;

use super::run_state::RunState;
use crate::plan::{Fetching, GroupIndex, Load, Workload};
use crate::time::Time;

/// The minimum time between two changes of rates, and the maximum number of changes of a ramp.
const STEP_LEAST: Duration = Duration::from_millis(500);
const STEPS: u32 = 50;

/// The ramp of a group's loads.
pub(super) struct Ramp {
    group: GroupIndex,
    from: Workload,
    to: Workload,
    began: Time,
    over: Duration,
    /// When the rates change again.
    next: Time,
}

impl Ramp {
    /// Begins to change the rates, from the group's present rates, or from zero.
    pub(super) fn begin(
        group: GroupIndex,
        to: Workload,
        over: Duration,
        now: Time,
        state: &RunState,
    ) -> Self {
        Self { group, from: state.members.workload(group), to, began: now, over, next: now }
    }

    /// Sets the current rates if a change is due. Returns whether more changes follow.
    pub(super) fn advance(&mut self, now: Time, state: &mut RunState) -> bool {
        if now < self.next {
            return true;
        }
        self.next = now + self.step();
        let workload = self.workload(now);
        state.members.set_workload(&state.plan, self.group, workload, &mut state.orders);
        now.since(self.began) < self.over
    }

    fn step(&self) -> Duration {
        (self.over / STEPS).max(STEP_LEAST)
    }

    /// The rates in the middle of the step that begins now.
    fn workload(&self, now: Time) -> Workload {
        let elapsed = now.since(self.began);
        if elapsed >= self.over {
            return self.to;
        }
        let share = (elapsed + self.step() / 2).as_secs_f64() / self.over.as_secs_f64();
        let share = share.min(1.0);
        let Workload { commit, fetch, records, heartbeat, produce } = self.to;
        Workload {
            commit: between(self.from.commit, commit, share),
            fetch: between(self.from.fetch, fetch, share),
            records: records.and_then(|to| {
                let from = self.from.records.map(|records| records.load);
                Some(Fetching { load: between(from, Some(to.load), share)?, ..to })
            }),
            heartbeat: between(self.from.heartbeat, heartbeat, share),
            produce: between(self.from.produce, produce, share),
        }
    }
}

/// The load at this share of the way from one load to the other. A closed loop has no rate, so a
/// ramp from a closed loop begins at zero.
fn between(from: Option<Load>, to: Option<Load>, share: f64) -> Option<Load> {
    let to = to?;
    let first = from.and_then(|load| load.rate).unwrap_or(0.0);
    let rate = to.rate.map(|rate| first + (rate - first) * share);
    Some(Load { rate, ..to })
}
