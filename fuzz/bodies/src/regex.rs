//! Regular expressions of subscriptions. Input: an expression and names, one per line.

use crate::memory::within;
use muster_coordinator::regex::{Regex, Resolution};

/// The memory limit for parsing and for the longest program.
const GRANTED_BYTES: usize = 32 << 20;

/// The number of steps in a slice.
const SLICE: usize = 100;

pub fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut lines = text.lines();
    let expression = lines.next().unwrap_or_default();
    let mut names: Vec<&str> = lines.filter(|name| name.len() <= 249).take(8).collect();
    names.sort_unstable();
    names.dedup();
    within(GRANTED_BYTES, || resolve(expression, &names));
}

/// Finds the matching topics in three ways, which must agree: each name alone, all names in one
/// step, and the names in slices.
fn resolve(expression: &str, names: &[&str]) {
    let Ok(regex) = Regex::new(expression) else { return };
    let matching: Vec<&str> = names.iter().copied().filter(|name| regex.matches(name)).collect();
    let mut whole = Resolution::new(Regex::new(expression).unwrap());
    let found = whole.step(names.iter().copied(), usize::MAX).unwrap();
    assert!(found.iter().map(|name| &**name).eq(matching.iter().copied()), "{expression:?}");
    let mut sliced = Resolution::new(regex);
    let found = loop {
        let from = sliced.last().map(str::to_owned);
        let rest = names.iter().copied().filter(|name| Some(*name) > from.as_deref());
        if let Some(found) = sliced.step(rest, SLICE) {
            break found;
        }
    };
    assert!(found.iter().map(|name| &**name).eq(matching), "{expression:?} in slices");
}
