//! Formats findings: for a reader, for programs, for `tuning/apply`, and as the page of all rules.

use crate::rules;
use crate::{Change, Examination, Facts, Harm, Judged, Profile, Rule, State};
use serde_json::{Value, json};
use std::fmt::Write;

/// The findings for a reader, the most urgent first. With `all`, also settings that are fine or
/// absent.
pub fn report(examination: &Examination, all: bool) -> String {
    let mut out = String::new();
    let mut findings: Vec<_> = examination.findings().collect();
    findings.sort_by_key(|it| (it.rule.harm, it.rule.effect.rank()));
    findings.iter().for_each(|it| finding(it, &mut out));
    let of = |state| examination.judged.iter().filter(move |it| it.state == state);
    if all {
        for it in of(State::Fine) {
            let _ = writeln!(out, "fine    {} = {}", it.rule.name, it.value());
        }
        for it in of(State::Absent) {
            let _ = writeln!(out, "absent  {}", it.rule.name);
        }
    }
    if let Some(id) = &examination.server {
        let _ = writeln!(
            out,
            "runs    muster (pid {id}) runs with this directory: lock and ports are not judged"
        );
    }
    let (found, fine, absent) =
        (examination.findings().count(), of(State::Fine).count(), of(State::Absent).count());
    let profile = examination.profile;
    let _ =
        writeln!(out, "profile {profile}: {found} found, {fine} fine, {absent} not on this host");
    out
}

fn finding(it: &Judged, out: &mut String) {
    let Judged { rule, wanted, .. } = it;
    let _ = writeln!(out, "{}   {} = {}, wanted: {wanted}", rule.harm, rule.name, it.value());
    let effect = rule.effect.to_string();
    let lines = [
        ("why", rule.why),
        ("change", rule.change.words()),
        ("undo", rule.undo),
        ("effect", &effect),
    ];
    for (name, words) in lines {
        let _ = writeln!(out, "        {name}: {words}");
    }
}

/// The report as JSON, for programs.
pub fn json(examination: &Examination) -> Value {
    let one = |it: &Judged| {
        json!({
            "name": it.rule.name,
            "state": it.state.name(),
            "harm": it.rule.harm.to_string(),
            "value": it.value,
            "wanted": it.wanted.to_string(),
            "why": it.rule.why,
            "change": it.rule.change.words(),
            "undo": it.rule.undo,
            "effect": it.rule.effect.to_string(),
        })
    };
    let judged: Vec<Value> = examination.judged.iter().map(one).collect();
    let (profile, server) = (examination.profile.name(), &examination.server);
    json!({ "profile": profile, "server": server, "rules": judged })
}

/// Tab-separated lines for `tuning/apply`. For each file with a wrong value, there is a line: knob,
/// file, present value, wanted value. For each setting that has to be changed by hand, there is a
/// line with `-` as the file.
pub fn knobs(examination: &Examination, facts: &Facts) -> String {
    let mut out = String::new();
    for it in examination.findings() {
        let name = it.rule.name;
        match it.rule.change {
            Change::Apply => {
                for (file, value, target) in it.changes(facts) {
                    let _ = writeln!(out, "{name}\t{file}\t{value}\t{target}");
                }
            }
            Change::ByHand(how) => {
                let _ = writeln!(out, "{name}\t-\t{}\t{how}", it.value());
            }
        }
    }
    out
}

/// All rules as Markdown.
pub fn page() -> String {
    rules::all().map(described).collect()
}

fn described(rule: &Rule) -> String {
    let Rule { name, harm, why, change, undo, effect, .. } = rule;
    let profiles = rule.profiles.len() < Profile::ALL.len();
    let names: Vec<&str> = rule.profiles.iter().map(|it| it.name()).collect();
    let of = if profiles { format!(", on {}", names.join(", ")) } else { String::new() };
    let how = change.words();
    format!(
        "### `{name}`\n\n{}{of}: {why}.\n\nChange: {how}. Undo: {undo}. Effect: {effect}.\n\n",
        harm.sentence()
    )
}

impl Harm {
    fn sentence(self) -> &'static str {
        match self {
            Self::Stops => "Stops muster",
            Self::Loses => "Loses data",
            Self::Slows => "Slows muster",
            Self::Minor => "Minor",
        }
    }
}

impl Change {
    fn words(self) -> &'static str {
        match self {
            Self::Apply => "tuning/apply, until the next restart of the host",
            Self::ByHand(how) => how,
        }
    }
}

impl Judged {
    fn value(&self) -> &str {
        self.value.as_deref().unwrap_or("-")
    }
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Finding => "finding",
            Self::Absent => "absent",
        }
    }
}
