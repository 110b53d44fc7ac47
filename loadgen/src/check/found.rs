//! The violations that a checker found, and a limit on how many are kept.

use std::collections::BTreeMap;

use crate::event::Event;
use crate::report::model::Violation;
use crate::time::Time;

/// The number of violations of a rule that are kept in full. Later ones are only counted.
const KEPT_OF_EACH_RULE: u64 = 20;

/// The violations that a checker found.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Found {
    /// The first violations of each rule, in the order in which they were found.
    pub violations: Vec<Violation>,
    /// The number of further violations.
    pub omitted: u64,
    by_rule: BTreeMap<&'static str, u64>,
}

impl Found {
    pub fn total(&self) -> u64 {
        self.violations.len() as u64 + self.omitted
    }

    /// Adds a violation. `describe` makes its sentence and the events that prove it, and is called
    /// only if the violation is kept.
    pub(super) fn add(
        &mut self,
        rule: &'static str,
        at: Time,
        group: &str,
        describe: impl FnOnce() -> (String, Vec<Event>),
    ) {
        let count = self.by_rule.entry(rule).or_default();
        *count += 1;
        if *count > KEPT_OF_EACH_RULE {
            self.omitted += 1;
            return;
        }
        let (what, mut events) = describe();
        events.sort_by_key(|event| event.at);
        let events = events.iter().filter_map(|event| serde_json::to_value(event).ok()).collect();
        let (rule, group) = (rule.to_owned(), group.to_owned());
        self.violations.push(Violation { rule, at: at.seconds(), group, what, events });
    }
}
