//! A rule: a fact, the value it should have, and explanations for the operator.

use crate::{Facts, Profile};
use std::fmt;

/// A row of the tables in `rules/`.
#[derive(Debug)]
pub struct Rule {
    /// The name of the rule and of the fact that it judges.
    pub name: &'static str,
    pub harm: Harm,
    /// The kinds of hosts to which the rule applies.
    pub profiles: &'static [Profile],
    pub wanted: fn(&Facts) -> Wanted,
    pub why: &'static str,
    pub change: Change,
    pub undo: &'static str,
    pub effect: Effect,
}

/// The effect of the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// muster works, or it does not.
    AllOrNothing,
    Measured(&'static str),
    NotMeasured(&'static str),
    /// Was measured, and nothing changed.
    NoneSeen(&'static str),
    /// A higher limit. It has no effect until muster needs more than the present value.
    Limit,
}

impl Effect {
    /// The place among findings with the same harm. Those with a known effect come first.
    pub(crate) fn rank(self) -> u8 {
        match self {
            Self::AllOrNothing => 0,
            Self::Measured(_) => 1,
            Self::NotMeasured(_) => 2,
            Self::NoneSeen(_) => 3,
            Self::Limit => 4,
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AllOrNothing => "all or nothing",
            Self::Measured(words) | Self::NotMeasured(words) | Self::NoneSeen(words) => words,
            Self::Limit => "a limit only",
        })
    }
}

/// The consequence of a wrong value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Harm {
    /// muster does not start, or starts without some of the requested settings.
    Stops,
    /// Acknowledged changes may be lost.
    Loses,
    /// Clients have to wait longer.
    Slows,
    /// Clients notice nothing.
    Minor,
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stops => "stops",
            Self::Loses => "loses",
            Self::Slows => "slows",
            Self::Minor => "minor",
        })
    }
}

/// How the setting can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// `tuning/apply` writes the first wanted value to the files; `tuning/undo` restores the old
    /// values.
    Apply,
    ByHand(&'static str),
}

/// The values that are right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// One of these values; `tuning/apply` writes the first.
    OneOf(Vec<String>),
    AtLeast(u64),
    AtMost(u64),
    /// At least this kernel version.
    Version(u64, u64),
    /// Any value; the rule says why.
    Any,
}

impl Wanted {
    pub fn one_of(values: &[&str]) -> Self {
        Self::OneOf(values.iter().map(|it| (*it).to_owned()).collect())
    }

    pub fn fits(&self, value: &str) -> bool {
        let number = value.parse::<u64>();
        match self {
            Self::OneOf(values) => values.iter().any(|it| it == value),
            Self::AtLeast(least) => {
                value == "unlimited" || number.is_ok_and(|number| number >= *least)
            }
            Self::AtMost(most) => number.is_ok_and(|number| number <= *most),
            Self::Version(major, minor) => version(value) >= Some((*major, *minor)),
            Self::Any => true,
        }
    }

    /// The value that `tuning/apply` writes.
    pub fn target(&self) -> Option<String> {
        match self {
            Self::OneOf(values) => values.first().cloned(),
            Self::AtLeast(number) | Self::AtMost(number) => Some(number.to_string()),
            Self::Version(..) | Self::Any => None,
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneOf(values) => f.write_str(&values.join(" or ")),
            Self::AtLeast(least) => write!(f, "at least {least}"),
            Self::AtMost(most) => write!(f, "at most {most}"),
            Self::Version(major, minor) => write!(f, "{major}.{minor} or newer"),
            Self::Any => f.write_str("anything"),
        }
    }
}

/// The first two numbers of a kernel's release string.
fn version(release: &str) -> Option<(u64, u64)> {
    let mut numbers = release.split(|it: char| !it.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_fits_what_is_wanted_or_not() {
        let cases = [
            (Wanted::one_of(&["a", "b"]), &["a", "b"][..], &["c", ""][..]),
            (Wanted::AtLeast(7), &["7", "8", "unlimited"], &["6", "-1", "x", ""]),
            (Wanted::AtMost(7), &["7", "0"], &["8", "unlimited", ""]),
            (Wanted::Version(6, 1), &["6.1.0", "6.18-rc1", "10.0"], &["5.15.9", "6.0.7", "x", ""]),
            (Wanted::Any, &["", "x"], &[]),
        ];
        for (wanted, right, wrong) in cases {
            assert!(right.iter().all(|it| wanted.fits(it)), "{wanted}");
            assert!(!wrong.iter().any(|it| wanted.fits(it)), "{wanted}");
        }
    }
}
