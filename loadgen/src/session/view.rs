//! The state of a run as the live view shows it.

use std::time::{Duration, Instant};

use loadgen::measure::{LoadNow, STATES, Totals};
use loadgen::report::live::{LiveLoad, LivePhase, LiveState, MemberCounts};
use loadgen::report::model;
use loadgen::time::Time;

use super::Session;

const SHOW_EVERY: Duration = Duration::from_millis(500);

impl Session {
    pub(super) fn show(&mut self) {
        if self.shown.elapsed() < SHOW_EVERY {
            return;
        }
        self.shown = Instant::now();
        let now = self.tools.engine.now();
        let state = self.state(now);
        if let Err(sentence) = self.tools.streams.show(&state) {
            self.tools.live.note(&sentence);
        }
        self.tools.live.update(&state);
        self.show_page(now);
    }

    /// Renders the page only if a browser shows it.
    fn show_page(&self, now: Time) {
        if !self.tools.streams.is_watched() {
            return;
        }
        let place = self.tools.conductor.place(now);
        let phase = model::Phase {
            name: place.phase,
            began: place.began.seconds(),
            ended: now.seconds(),
            ..model::Phase::default()
        };
        let mut phases = self.tools.conductor.phases().to_vec();
        phases.push(phase);
        let run = model::Run { duration_seconds: now.seconds(), ..self.tools.about.clone() };
        let (violations, omitted) =
            (self.checker.found().violations.clone(), self.checker.found().omitted);
        let picture = self.measure.picture(now);
        self.tools.streams.show_page(&model::Report {
            format: model::FORMAT,
            run,
            phases,
            violations,
            violations_omitted: omitted,
            ..picture
        });
    }

    fn state(&mut self, now: Time) -> LiveState {
        let totals = self.measure.totals(now);
        let place = self.tools.conductor.place(now);
        LiveState {
            scenario: self.tools.scenario.clone(),
            elapsed: now.since(Time::ZERO),
            phase: LivePhase {
                name: place.phase,
                number: place.number,
                of: place.of,
                elapsed: now.since(place.began),
                planned: place.planned,
            },
            members: member_counts(&totals),
            groups: totals.groups,
            groups_stable: totals.groups_stable,
            rebalances: totals.rebalances,
            last_rebalance: totals.last_rebalance.as_ref().map(in_words),
            partitions_unowned: totals.unowned_partitions,
            loads: totals.loads.iter().map(live_load).collect(),
            errors: totals.errors,
            waiting: totals.waiting.requests,
            waiting_longest: totals.waiting.longest,
            violations: self.checker.found().violations.len() as u64 + self.checker.found().omitted,
            connections: totals.connections,
        }
    }
}

fn member_counts(totals: &Totals) -> MemberCounts {
    let mut counts = MemberCounts::default();
    for ((state, _), members) in STATES.into_iter().zip(totals.members) {
        counts.add(state, members);
    }
    counts
}

fn in_words(rebalance: &model::Rebalance) -> String {
    match rebalance.took {
        Some(millis) => format!("{}: {:.2} s", rebalance.trigger, millis / 1000.0),
        None if rebalance.superseded => format!("{}: the next came first", rebalance.trigger),
        None => format!("{}: did not end", rebalance.trigger),
    }
}

fn live_load(load: &LoadNow) -> LiveLoad {
    let (per_second, p50, p99) = (load.per_second, load.p50, load.p99);
    LiveLoad { name: load.of.name().into(), per_second, p50, p99 }
}
