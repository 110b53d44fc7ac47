//! Which topics an expression matches, in slices.

use super::{Matcher, Regex};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

/// A resolution under way: one expression over all names.
///
/// Names come from the caller in ascending order, so that it may go on after a pause in which
/// topics came and went: it asks for those behind the last that it saw.
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

    /// The name that the last slice ended with. The next begins behind it.
    pub fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// Looks at the names that come after [`Self::last`], ascending, for about `budget` steps of a
    /// thread, a few nanoseconds each. Gives all that match once the names are at an end; to be
    /// called until then, and not again.
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
