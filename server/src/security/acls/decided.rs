//! Caches the last decisions about a client, as its heartbeats and commits repeat the same checks.

use super::kinds::{Operation, ResourceType};
use std::sync::{Mutex, PoisonError};

/// The number of decisions cached for a client.
const DECISIONS_MAX: usize = 8;

/// Decisions about longer names are not cached.
const NAME_BYTES_MAX: usize = 249;

/// The cached decisions, each with operation, resource type and name. The lock is uncontended, as a
/// client belongs to one thread.
#[derive(Debug, Default)]
pub(super) struct Decided(Mutex<Last>);

#[derive(Debug, Default)]
struct Last {
    all: Vec<Decision>,
    /// The index of the decision to replace next.
    next: usize,
}

#[derive(Debug)]
struct Decision {
    operation: Operation,
    of: ResourceType,
    name: Box<str>,
    is_allowed: bool,
}

impl Decided {
    /// The cached decision, or a new one.
    pub(super) fn get(
        &self,
        operation: Operation,
        of: ResourceType,
        name: &str,
        decide: impl FnOnce() -> bool,
    ) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is = |it: &&Decision| it.operation == operation && it.of == of && *it.name == *name;
        if let Some(found) = last.all.iter().find(is) {
            return found.is_allowed;
        }
        let is_allowed = decide();
        if name.len() <= NAME_BYTES_MAX {
            last.keep(Decision { operation, of, name: name.into(), is_allowed });
        }
        is_allowed
    }
}

impl Last {
    fn keep(&mut self, decision: Decision) {
        match self.all.get_mut(self.next) {
            Some(oldest) => *oldest = decision,
            None => self.all.push(decision),
        }
        self.next = (self.next + 1) % DECISIONS_MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_decisions_are_kept() {
        let decided = Decided::default();
        let ask = |name: &str, would: bool| {
            decided.get(Operation::Read, ResourceType::Topic, name, || would)
        };
        assert!(ask("a", true) && ask("a", false), "it is kept");
        assert!(decided.get(Operation::Write, ResourceType::Topic, "a", || true));
        assert!(!decided.get(Operation::Read, ResourceType::Group, "a", || false));
        let names: Vec<_> = (0..DECISIONS_MAX).map(|number| number.to_string()).collect();
        assert!(names.iter().all(|name| ask(name, true)));
        assert!(!ask("a", false), "newer ones have replaced it");
        assert_eq!(decided.0.lock().unwrap().all.len(), DECISIONS_MAX);
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        assert!(ask(&long, true) && !ask(&long, false));
    }
}
