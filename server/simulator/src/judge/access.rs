//! Checks the rights that users were granted or refused. A decision must fit the ACLs that the
//! deciding shard had, and the changes of ACLs that were acknowledged to a client.

use crate::client::{Book, Finding, Right, Rule, allow};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// The maximum time that a request waits for its answer, in microseconds.
const KEPT: u64 = 60_000_000;

/// The values that something had one after the other, each with the time from which it was valid.
#[derive(Debug)]
pub(crate) struct Since<T>(VecDeque<(u64, T)>);

/// The ACLs that a shard had.
pub(crate) type Rules = Since<Arc<BTreeSet<Rule>>>;

impl<T> Default for Since<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Since<T> {
    pub(crate) fn set(&mut self, now: u64, value: T) {
        self.0.push_back((now, value));
        while self.0.get(1).is_some_and(|(at, _)| at + KEPT < now) {
            self.0.pop_front();
        }
    }

    /// The values that were valid at a time or later.
    pub(super) fn from(&self, time: u64) -> impl Iterator<Item = &T> {
        let ends = self.0.iter().skip(1).map(|(at, _)| *at).chain([u64::MAX]);
        self.0.iter().zip(ends).filter(move |(_, end)| *end >= time).map(|((_, value), _)| value)
    }
}

/// Checks the rights that an answer grants or refuses to a principal. `sent` is when the request
/// was sent.
///
/// # Errors
/// None of the images that the shard had since `sent` leads to these decisions, or a decision
/// ignores a change of the ACLs that had been acknowledged before `sent`.
pub(crate) fn check(
    principal: &str,
    findings: &[Finding],
    sent: u64,
    (rules, books): (&Rules, &Since<Book>),
) -> Result<(), String> {
    let contradicts = |rules: &BTreeSet<Rule>| {
        findings.iter().find(|it| allow(rules.iter(), right_in(principal, it)) != it.is_granted)
    };
    let wrong: Vec<_> = rules.from(sent).map(|rules| contradicts(rules)).collect();
    if wrong.iter().all(Option::is_some) {
        let wrong: Vec<_> = wrong.into_iter().flatten().map(|it| right_in(principal, it)).collect();
        return Err(format!("no image of the shard decides so on {wrong:?}: {findings:?}"));
    }
    let permitted = |it: &Finding| {
        books.from(sent).any(|book| book.permits(right_in(principal, it), it.is_granted))
    };
    match findings.iter().find(|it| !permitted(it)) {
        Some(wrong) if wrong.is_granted => Err(format!(
            "granted after its revocation was answered: {:?}",
            right_in(principal, wrong)
        )),
        Some(wrong) => {
            Err(format!("refused after its ACL was answered: {:?}", right_in(principal, wrong)))
        }
        None => Ok(()),
    }
}

fn right_in<'r>(principal: &'r str, it: &'r Finding) -> Right<'r> {
    let Finding { operation, resource, name, .. } = it;
    Right { principal, operation: *operation, resource: *resource, name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_hold_until_the_next_one() {
        let mut since = Since::default();
        [(10, 'a'), (20, 'b'), (30, 'c')].into_iter().for_each(|(at, value)| since.set(at, value));
        let from = |time| since.from(time).copied().collect::<String>();
        assert_eq!(
            (from(0), from(20), from(21), from(99)),
            ("abc".into(), "abc".into(), "bc".into(), "c".into())
        );
    }
}
