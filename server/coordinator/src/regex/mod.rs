//! Regular expressions over topic names, in the dialect of RE2J 1.8 (`com.google.re2j`), which is
//! what a `SubscribedTopicRegex` means in Kafka: `Pattern.compile(regex).matcher(name).matches()`.
//!
//! [`parse`](parse) reads an expression straight into a [`program`](program) without recursion, so
//! nesting is bounded by the program's size alone; [`Matcher`] runs all its threads side by side,
//! one byte of the name at a time, so the time is at most name times program.
//!
//! The name of a topic is ASCII: a character of an expression beyond ASCII is understood, and
//! matches nothing, and a name beyond ASCII is matched by no expression.

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

/// How many instructions may be made of an expression; of `[a-z]{1000}` 2,000 are. RE2J has
/// no such limit: there it is the memory of the process.
pub const INSTRUCTIONS_MAX: usize = 1 << 16;

/// A regular expression, which matches whole names.
#[derive(Debug, Clone)]
pub struct Regex {
    program: Program,
}

impl Regex {
    /// Reads an expression.
    ///
    /// # Errors
    /// Where RE2J throws a `PatternSyntaxException`, with its description; and
    /// [`RegexError::TooLarge`].
    pub fn new(expression: &str) -> Result<Self, RegexError> {
        Ok(Self { program: parse::parse(expression)? })
    }

    /// Whether it matches the whole of a name. For many names a [`Matcher`] that stays is cheaper.
    pub fn matches(&self, name: &str) -> bool {
        Matcher::default().matches(self, name)
    }
}

/// Why an expression is refused. Displays as RE2J's `PatternSyntaxException.getDescription`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegexError {
    DuplicateGroupName,
    /// Where RE2J finds a `)` that closes nothing.
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
    /// It takes more than [`INSTRUCTIONS_MAX`] instructions.
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
