//! Plays the phases of a scenario without a cluster, and tracks only how many members can be up. So
//! it finds actions that will never have any members to act on. A real run would only warn of this
//! mistake.

use std::collections::BTreeMap;

use super::file::{Group, Phase, Scenario, Start, Stopping};
use super::values::Words;

/// # Errors
/// A group that no phase starts, or the first action that never has a member to act on. The error
/// is a sentence for the user.
pub(super) fn validate(scenario: &Scenario) -> Result<(), String> {
    let phases = &scenario.phases;
    if let Some(group) = scenario.groups.iter().find(|group| !is_started(group, phases)) {
        return Err(format!("group {}: no phase starts its members", group.name));
    }
    let mut run = DryRun { scenario, up: BTreeMap::new(), seen: BTreeMap::new() };
    let repeat = scenario.repeat.as_ref();
    let from = repeat.and_then(|repeat| phases.iter().position(|phase| phase.name == repeat.from));
    // Two rounds are enough: an action that has no members in the second has none later, either.
    for first in [Some(0), from].into_iter().flatten() {
        for (at, phase) in phases.iter().enumerate().skip(first) {
            run.play(at, phase);
        }
    }
    match run.seen.iter().find(|(_, has_members)| !**has_members) {
        None => Ok(()),
        Some(((at, what), _)) => Err(format!(
            "phase {}: {what} has no effect: no member of its groups is up by then",
            phases[*at].name
        )),
    }
}

fn is_started(group: &Group, phases: &[Phase]) -> bool {
    let mut starts = phases.iter().filter_map(|phase| phase.start.as_ref());
    starts.any(|start| means(&start.groups, group))
}

fn means(groups: &Words, group: &Group) -> bool {
    groups.0.is_empty() || groups.0.contains(&group.name)
}

struct DryRun<'a> {
    scenario: &'a Scenario,
    /// The highest number of members that can be up, by group table. A table is missing until the
    /// first action that starts or stops its members.
    up: BTreeMap<&'a str, u32>,
    /// For each action, whether it has had members to act on in some round. The key is the index of
    /// the phase and the name of the action.
    seen: BTreeMap<(usize, &'static str), bool>,
}

impl<'a> DryRun<'a> {
    /// Plays a phase. Its stops come first, because a phase does not stop members that it starts.
    fn play(&mut self, at: usize, phase: &'a Phase) {
        let stops = [("leave", &phase.leave), ("close", &phase.close), ("crash", &phase.crash)];
        for (what, stopping) in stops {
            if let Some(stopping) = stopping {
                self.see(at, what, self.are_up(&stopping.groups));
                self.stop(what, stopping);
            }
        }
        if let Some(of) = &phase.shut_down {
            self.see(at, "shut-down", self.are_up(&of.groups));
            self.change(&of.groups, |_, up| *up = 0);
        }
        if let Some(roll) = &phase.roll {
            self.see(at, "roll", self.are_up(&roll.groups));
        }
        if let Some(change) = &phase.change {
            self.see(at, "change", self.are_up(&change.groups));
        }
        if let Some(of) = &phase.read_offsets {
            self.see(at, "read-offsets", self.were_up(&of.groups));
        }
        if let Some(of) = &phase.delete_groups {
            self.see(at, "delete-groups", self.were_up(&of.groups));
            self.change(&of.groups, |_, up| *up = 0);
        }
        if let Some(start) = &phase.start {
            self.start(start);
        }
        if let Some(churn) = &phase.churn {
            self.see(at, "churn", self.are_up(&churn.groups));
        }
        if let Some(work) = &phase.work {
            self.see(at, "work", self.are_up(&work.groups) || self.start_later(at, &work.groups));
        }
        if phase.coordinator_restart {
            self.see(at, "coordinator-restart", self.are_up(&Words::default()));
        }
    }

    fn see(&mut self, at: usize, what: &'static str, has_members: bool) {
        *self.seen.entry((at, what)).or_default() |= has_members;
    }

    fn start(&mut self, start: &Start) {
        self.change(&start.groups, |group, up| {
            *up = up.saturating_add(start.members.of(group.members)).min(group.members);
        });
    }

    /// Members that will return still count as up. Members that `close` stops do, too: it stops
    /// only static members, and the dry run does not know how many of those that are up are static.
    fn stop(&mut self, what: &str, stopping: &Stopping) {
        if stopping.return_after.is_none() && what != "close" {
            self.change(&stopping.groups, |group, up| {
                *up = up.saturating_sub(stopping.members.of(group.members));
            });
        }
    }

    fn change(&mut self, groups: &Words, change: impl Fn(&Group, &mut u32)) {
        for group in self.scenario.groups.iter().filter(|group| means(groups, group)) {
            change(group, self.up.entry(&group.name).or_default());
        }
    }

    fn are_up(&self, groups: &Words) -> bool {
        self.groups(groups).any(|group| self.up.get(&*group.name).is_some_and(|up| *up > 0))
    }

    fn were_up(&self, groups: &Words) -> bool {
        self.groups(groups).any(|group| self.up.contains_key(&*group.name))
    }

    fn start_later(&self, at: usize, groups: &Words) -> bool {
        let later = &self.scenario.phases[at + 1..];
        let mut groups = self.groups(groups);
        self.scenario.repeat.is_some() || groups.any(|group| is_started(group, later))
    }

    fn groups(&self, groups: &Words) -> impl Iterator<Item = &'a Group> {
        self.scenario.groups.iter().filter(move |group| means(groups, group))
    }
}
