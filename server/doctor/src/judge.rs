//! Judges facts by the rules.

use crate::rules;
use crate::{Change, Facts, Profile, Rule, Wanted};

/// The judgements of all rules of a profile on the facts.
#[derive(Debug)]
pub struct Examination {
    pub profile: Profile,
    /// The process id of a server that runs with the data directory.
    pub server: Option<String>,
    /// The judgements, worst first, then in the order of the rules.
    pub judged: Vec<Judged>,
}

/// The judgement of one rule.
#[derive(Debug)]
pub struct Judged {
    pub rule: &'static Rule,
    pub value: Option<String>,
    pub wanted: Wanted,
    pub state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Fine,
    Finding,
    /// The fact does not exist on this host, or cannot be seen.
    Absent,
}

/// The overall outcome, for the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Healthy,
    Findings,
}

pub fn examine(facts: &Facts, profile: Profile) -> Examination {
    let rules = rules::all().filter(|rule| rule.profiles.contains(&profile));
    let mut judged: Vec<_> = rules.map(|rule| judge(facts, rule)).collect();
    judged.sort_by_key(|it| (it.state != State::Finding, it.rule.harm));
    Examination { profile, server: facts.value("data.server"), judged }
}

impl Examination {
    pub fn findings(&self) -> impl Iterator<Item = &Judged> {
        self.judged.iter().filter(|it| it.state == State::Finding)
    }

    pub fn verdict(&self) -> Verdict {
        if self.findings().next().is_some() { Verdict::Findings } else { Verdict::Healthy }
    }

    /// Restricts the result to one rule. Returns false if the profile does not have this rule.
    pub fn narrow(&mut self, name: &str) -> bool {
        self.judged.retain(|it| it.rule.name == name);
        !self.judged.is_empty()
    }
}

impl Judged {
    /// The files whose value has to change. Each has its present and its wanted value.
    pub fn changes<'f>(&self, facts: &'f Facts) -> Vec<(&'f str, &'f str, String)> {
        let target = self.wanted.target().filter(|_| self.rule.change == Change::Apply);
        let Some(target) = target else { return Vec::new() };
        let wrong = facts.files(self.rule.name).filter(|(_, value)| !self.wanted.fits(value));
        wrong.map(|(file, value)| (file, value, target.clone())).collect()
    }
}

/// Judges one rule. If a knob has several files, all of them must have a fitting value.
fn judge(facts: &Facts, rule: &'static Rule) -> Judged {
    let (value, wanted) = (facts.value(rule.name), (rule.wanted)(facts));
    let mut files = facts.files(rule.name).peekable();
    let fits = match &value {
        Some(_) if files.peek().is_some() => files.all(|(_, value)| wanted.fits(value)),
        Some(value) => wanted.fits(value),
        None => true,
    };
    let state = match (&value, fits) {
        (None, _) => State::Absent,
        (Some(_), true) => State::Fine,
        (Some(_), false) => State::Finding,
    };
    Judged { rule, value, wanted, state }
}
