//! Regular expressions of subscriptions. Input: expression and names, one a line.

use crate::memory::within;
use muster_coordinator::regex::{Regex, Resolution};

/// Memory for a program with the most instructions, and for parsing it.
const GRANTED_BYTES: usize = 32 << 20;

/// The steps of a slice.
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

/// Checks that matching by name, in one piece, and in slices finds the same topics.
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
