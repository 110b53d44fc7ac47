//! Finds the topics that match an expression, in slices.

use super::{Matcher, Regex};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

/// A resolution under way: one expression, matched with all topic names.
///
/// The caller passes the names in ascending order. Each slice continues after the last name, so
/// topics may be created and deleted between slices.
#[derive(Debug)]
pub struct Resolution {
    regex: Regex,
    matcher: Matcher,
    last: Option<String>,
    matched: Vec<String>,
}

impl Resolution {
    pub fn new(regex: Regex) -> Self {
        Self { regex, matcher: Matcher::default(), last: None, matched: Vec::new() }
    }

    /// The last name of the previous slice. The next slice starts after it.
    pub fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// Matches `names`, the names after [`Self::last`] in ascending order. Stops after about
    /// `budget` thread steps of a few nanoseconds each. At the end of the names, returns all
    /// matches. Must not be called again after that.
    pub fn step<'n>(
        &mut self,
        names: impl IntoIterator<Item = &'n str>,
        budget: usize,
    ) -> Option<Vec<String>> {
        let mut spent = 0;
        for name in names {
            let (is_match, steps) = self.matcher.run(&self.regex, name);
            if is_match {
                self.matched.push(name.to_owned());
            }
            spent += steps;
            if spent >= budget {
                self.last = Some(name.to_owned());
                return None;
            }
        }
        Some(core::mem::take(&mut self.matched))
    }
}
