//! The checks that the parts of a scenario share. An error is one sentence.

use std::time::Duration;

use super::assignors::classic_assignors;
use super::file::{Group, Load, Scenario};
use super::values::{Span, Words};

const IN_FLIGHT: u32 = 10_000;
pub(super) const RATE: f64 = 1_000_000.0;
/// The maximum of all durations. A longer duration is a mistake, and its end may not be
/// representable.
pub const SPAN: Duration = Duration::from_secs(365 * 24 * 3600);

/// Options of the command line that limit the scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    pub members_per_connection: u32,
}

pub(super) fn require(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

pub(super) fn bounded(name: &str, span: Option<Span>) -> Result<(), String> {
    let Some(span) = span else { return Ok(()) };
    require(span.0 <= SPAN, || format!("{name} = {span} is too long: at most a year"))
}

pub(super) fn validate_load(name: &str, load: Option<Load>) -> Result<(), String> {
    let Some(load) = load else { return Ok(()) };
    require(load.rate.is_none() || load.every.is_none(), || {
        format!("{name} has both a rate and every: write one of them")
    })?;
    bounded(&format!("{name}.every"), load.every)?;
    let fits = |rate: f64| rate > 0.0 && rate <= RATE;
    require(load.per_second().is_none_or(fits), || {
        format!("{name} must have more than 0 and at most {RATE} requests a second of a member")
    })?;
    require((1..=IN_FLIGHT).contains(&load.in_flight), || {
        format!("{name} must have 1 to {IN_FLIGHT} requests in flight, not {}", load.in_flight)
    })
}

/// Whether a server may have an assignor with this name. Servers can have assignors of their own,
/// so any name is allowed that is not one of the classic protocol. `range` is allowed, because both
/// sides have an assignor with this name.
pub(super) fn is_of_servers(assignor: &str) -> bool {
    assignor == "range" || classic_assignors(&[assignor.to_owned()]).is_err()
}

pub(super) fn known<'a>(
    words: &Words,
    kind: &str,
    there: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), String> {
    for word in &words.0 {
        require(there.clone().any(|name| name == word), || {
            let all: Vec<&str> = there.clone().collect();
            format!("there is no {kind} {word}, only {}", all.join(", "))
        })?;
    }
    Ok(())
}

pub(super) fn groups_of<'a>(
    scenario: &'a Scenario,
    words: &'a Words,
) -> Result<Vec<&'a Group>, String> {
    known(words, "group", scenario.groups.iter().map(|group| group.name.as_str()))?;
    let named = |group: &&Group| words.0.is_empty() || words.0.contains(&group.name);
    Ok(scenario.groups.iter().filter(named).collect())
}
