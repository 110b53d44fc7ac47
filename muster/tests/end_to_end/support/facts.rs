//! Facts that the server acknowledged, such as the existence and the configs of a topic. If the
//! server ended before it answered the last change, this change may or may not have taken effect.

use std::collections::BTreeMap;
use std::fmt::Debug;

/// Facts by name. A name without a fact must not exist on the server.
#[derive(Debug)]
pub struct Facts<F> {
    known: BTreeMap<String, F>,
    doubted: Option<(String, Option<F>)>,
}

impl<F> Default for Facts<F> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), doubted: None }
    }
}

impl<F: Clone + PartialEq + Debug> Facts<F> {
    pub fn get(&self, name: &str) -> Option<&F> {
        self.known.get(name)
    }

    /// All known names, and the name in the unanswered change, which may have taken effect.
    pub fn names(&self) -> Vec<String> {
        let doubted = self.doubted.iter().map(|(name, _)| name);
        let mut names: Vec<_> = self.known.keys().chain(doubted).cloned().collect();
        names.dedup();
        names
    }

    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// A change was sent.
    pub fn begin(&mut self, name: &str, fact: Option<F>) {
        assert!(self.doubted.is_none(), "one change at a time");
        self.doubted = Some((name.to_owned(), fact));
    }

    /// The change was acknowledged.
    pub fn acknowledged(&mut self) {
        let Some((name, fact)) = self.doubted.take() else { panic!("nothing was begun") };
        match fact {
            Some(fact) => drop(self.known.insert(name, fact)),
            None => drop(self.known.remove(&name)),
        }
    }

    /// Checks that a fact that was found is the known one, or that of the unanswered change. In the
    /// latter case the change took effect. Each name must be checked once before the next change.
    pub fn check(&mut self, name: &str, found: Option<F>) {
        if self.known.get(name) == found.as_ref() {
            return;
        }
        let is_doubted =
            self.doubted.as_ref().is_some_and(|it| *it == (name.to_owned(), found.clone()));
        assert!(is_doubted, "{name}: {found:?}, where {:?} is known", self.known.get(name));
        self.acknowledged();
    }

    /// All names were checked.
    pub fn checked(&mut self) {
        self.doubted = None;
    }
}
