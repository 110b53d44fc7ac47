//! Finds the topics that an expression matches, in slices.

use super::{Matcher, Regex};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

/// A resolution under way: one expression over all names.
///
/// Names come from the caller in ascending order, so that the resolution can continue although
/// topics were created and deleted in between: it asks for the names that follow the last one.
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

    /// The last name of the last slice. The next slice starts with the name that follows it.
    pub fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// Matches the names that follow [`Self::last`], ascending, for about `budget` thread steps, a
    /// few nanoseconds each. Returns all matches at the end of the names; not to be called again
    /// after that.
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
