//! Regular expressions over topic names in the dialect of RE2J 1.8 (`com.google.re2j`), as Kafka
//! matches a `SubscribedTopicRegex`: `Pattern.compile(regex).matcher(name).matches()`.
//!
//! [`parse`](parse) turns an expression into a [`program`](program) without recursion, so that
//! nesting is bounded by the program's size alone; [`Matcher`] runs all threads side by side, one
//! byte of the name at a time, so that the time is at most name times program.
//!
//! Topic names are ASCII: a character beyond ASCII is accepted in an expression and matches
//! nothing, and no expression matches a name beyond ASCII.

mod ascii;
mod escape;
mod matcher;
mod parse;
mod program;
mod resolution;
mod unicode;

pub use matcher::Matcher;
pub use resolution::Resolution;

use core::fmt;
use program::Program;

/// The most instructions of an expression; `[a-z]{1000}` has 2,000. RE2J has no such limit other
/// than the memory of the process.
pub const INSTRUCTIONS_MAX: usize = 1 << 16;

/// A regular expression, which matches whole names.
#[derive(Debug, Clone)]
pub struct Regex {
    program: Program,
}

impl Regex {
    /// Parses an expression.
    ///
    /// # Errors
    /// Where RE2J throws a `PatternSyntaxException`, with the same description; and
    /// [`RegexError::TooLarge`].
    pub fn new(expression: &str) -> Result<Self, RegexError> {
        Ok(Self { program: parse::parse(expression)? })
    }

    /// The work of matching is at most this times the length of the name.
    pub fn instructions(&self) -> usize {
        self.program.states.len()
    }

    /// Whether it matches a whole name. For many names a reused [`Matcher`] is cheaper.
    pub fn matches(&self, name: &str) -> bool {
        Matcher::default().matches(self, name)
    }
}

/// Why an expression is invalid. Displays as RE2J's `PatternSyntaxException.getDescription`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegexError {
    DuplicateGroupName,
    /// An unmatched `)`: RE2J reports it as an internal error.
    Internal,
    InvalidClassRange,
    InvalidEscape,
    InvalidGroupName,
    InvalidPerlSyntax,
    InvalidRepeatCount,
    MissingBracket,
    MissingParenthesis,
    MissingRepeatArgument,
    NestedRepeat,
    /// More than [`INSTRUCTIONS_MAX`] instructions.
    TooLarge,
    TrailingBackslash,
}

impl fmt::Display for RegexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DuplicateGroupName => "duplicate capture group name",
            Self::Internal => "regexp/syntax: internal error",
            Self::InvalidClassRange => "invalid character class range",
            Self::InvalidEscape => "invalid escape sequence",
            Self::InvalidGroupName => "invalid named capture",
            Self::InvalidPerlSyntax => "invalid or unsupported Perl syntax",
            Self::InvalidRepeatCount => "invalid repeat count",
            Self::MissingBracket => "missing closing ]",
            Self::MissingParenthesis => "missing closing )",
            Self::MissingRepeatArgument => "missing argument to repetition operator",
            Self::NestedRepeat => "invalid nested repetition operator",
            Self::TooLarge => "expression too large",
            Self::TrailingBackslash => "trailing backslash at end of expression",
        })
    }
}

impl core::error::Error for RegexError {}
