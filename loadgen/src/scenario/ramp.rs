//! Loads of a phase that reach their rates over a time.

use std::time::Duration;

use super::run_state::RunState;
use crate::plan::{Fetching, GroupIndex, Load, Workload};
use crate::time::Time;

/// The rates of a ramp change this often, or in this many steps, whichever is less often.
const STEP_LEAST: Duration = Duration::from_millis(500);
const STEPS: u32 = 50;

/// The loads of a group on their way to others.
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
    /// Begins to move the rates, from the rates that the group has now, or from none.
    pub(super) fn begin(
        group: GroupIndex,
        to: Workload,
        over: Duration,
        now: Time,
        state: &RunState,
    ) -> Self {
        Self { group, from: state.members.workload(group), to, began: now, over, next: now }
    }

    /// Sets the rates of this moment if they are due. Returns whether more steps follow.
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

    /// The rates of the middle of the step that begins now.
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

/// A closed loop has no rate, so that a ramp from one begins at none.
fn between(from: Option<Load>, to: Option<Load>, share: f64) -> Option<Load> {
    let to = to?;
    let first = from.and_then(|load| load.rate).unwrap_or(0.0);
    let rate = to.rate.map(|rate| first + (rate - first) * share);
    Some(Load { rate, ..to })
}
