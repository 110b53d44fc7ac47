//! The tables of rules: a file for each part of the machine.

mod cores;
mod data;
mod memory;
mod network;
mod process;

use crate::{Effect, Facts, Profile, Rule, Wanted};

const ALL: &[Profile] = &Profile::ALL;
/// The kinds of hosts whose settings can be changed, and are worth changing.
const HOSTS: &[Profile] = &[Profile::Vm, Profile::Metal];
const METAL: &[Profile] = &[Profile::Metal];

const NOTHING: &str = "none needed";
const BY_SCRIPT: &str = "tuning/undo, or a restart of the host";
const LINE: &str = "remove the line";
const WORD: &str = "remove the word";
const NOT_MEASURED: Effect = Effect::NotMeasured("not measured");

/// All rules, in the order of reports.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    let tables = [process::RULES, data::RULES, network::RULES, cores::RULES, memory::RULES];
    tables.into_iter().flatten()
}

/// The number of shards.
fn shards(facts: &Facts) -> u64 {
    facts.number("shards").unwrap_or(1)
}

fn yes(_: &Facts) -> Wanted {
    Wanted::one_of(&["yes"])
}

fn zero(_: &Facts) -> Wanted {
    Wanted::one_of(&["0"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_rule_has_a_name_of_its_own_and_all_words() {
        let mut names = BTreeSet::new();
        for rule in all() {
            assert!(names.insert(rule.name), "{} is there twice", rule.name);
            for text in [rule.why, rule.undo, &rule.effect.to_string()] {
                assert!(!text.is_empty() && !text.ends_with('.'), "{}: {text}", rule.name);
            }
        }
    }
}
