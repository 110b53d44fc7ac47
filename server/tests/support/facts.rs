//! What is known to be so: each fact was acknowledged; of the last change it is not known whether it
//! came to be, if the server went before it answered.

use std::collections::BTreeMap;
use std::fmt::Debug;

/// Facts by name; a name without one stands for nothing.
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

    /// All that are known, and one that may be.
    pub fn names(&self) -> Vec<String> {
        let doubted = self.doubted.iter().map(|(name, _)| name);
        let mut names: Vec<_> = self.known.keys().chain(doubted).cloned().collect();
        names.dedup();
        names
    }

    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// A change is on its way.
    pub fn begin(&mut self, name: &str, fact: Option<F>) {
        assert!(self.doubted.is_none(), "one change at a time");
        self.doubted = Some((name.to_owned(), fact));
    }

    /// It was acknowledged.
    pub fn acknowledged(&mut self) {
        let Some((name, fact)) = self.doubted.take() else { panic!("nothing was begun") };
        match fact {
            Some(fact) => drop(self.known.insert(name, fact)),
            None => drop(self.known.remove(&name)),
        }
    }

    /// Holds what is found against what is known. What is doubted, this decides: look at each name
    /// once before the next change.
    pub fn check(&mut self, name: &str, found: Option<F>) {
        if self.known.get(name) == found.as_ref() {
            return;
        }
        let is_doubted =
            self.doubted.as_ref().is_some_and(|it| *it == (name.to_owned(), found.clone()));
        assert!(is_doubted, "{name}: {found:?}, where {:?} is known", self.known.get(name));
        self.acknowledged();
    }

    /// All names were looked at.
    pub fn checked(&mut self) {
        self.doubted = None;
    }
}
