//! Regular expressions over topic names in the dialect of RE2J 1.8 (`com.google.re2j`), as Kafka
//! matches a `SubscribedTopicRegex`: `Pattern.compile(regex).matcher(name).matches()`.
//!
//! [`parse`](parse) turns an expression into a [`program`](program) without recursion, so only the
//! size of the program limits nesting. [`Matcher`] runs all threads (states in which the program
//! may be) side by side, one byte of the name at a time. So the time is at most proportional to the
//! length of the name times the size of the program.
//!
//! Topic names are ASCII. A character beyond ASCII is accepted in an expression, and matches
//! nothing. No expression matches a name beyond ASCII.

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

/// The maximum number of instructions of an expression; `[a-z]{1000}` has 2,000. In RE2J only the
/// memory of the process limits an expression.
pub const INSTRUCTIONS_MAX: usize = 1 << 16;

/// A regular expression. It matches whole names only.
#[derive(Debug, Clone)]
pub struct Regex {
    program: Program,
}

impl Regex {
    /// Parses an expression.
    ///
    /// # Errors
    /// RE2J would throw a `PatternSyntaxException`: the error displays its description. Also
    /// [`RegexError::TooLarge`].
    pub fn new(expression: &str) -> Result<Self, RegexError> {
        Ok(Self { program: parse::parse(expression)? })
    }

    /// The number of instructions. Matching takes at most this number of steps for each byte of the
    /// name.
    pub fn instructions(&self) -> usize {
        self.program.states.len()
    }

    /// Whether the expression matches a whole name. To match many names, reuse a [`Matcher`].
    pub fn matches(&self, name: &str) -> bool {
        Matcher::default().matches(self, name)
    }
}

/// Why an expression is invalid. Displays like RE2J's `PatternSyntaxException.getDescription`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegexError {
    DuplicateGroupName,
    /// An unmatched `)`, which RE2J reports as an internal error.
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
