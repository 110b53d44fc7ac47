//! Parses the escape or number at the beginning of an expression.

use super::RegexError;
use super::ascii::AsciiSet;
use super::unicode::unicode_class;

/// The unread part of an expression.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'e>(&'e str);

impl<'e> Cursor<'e> {
    pub(super) fn new(expression: &'e str) -> Self {
        Self(expression)
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.0.chars().next()
    }

    pub(super) fn take(&mut self) -> Option<char> {
        let first = self.peek()?;
        self.0 = &self.0[first.len_utf8()..];
        Some(first)
    }

    pub(super) fn is_at(&self, text: &str) -> bool {
        self.0.starts_with(text)
    }

    /// Skips `text` if the expression continues with it. Returns whether `text` was skipped.
    pub(super) fn skip(&mut self, text: &str) -> bool {
        let rest = self.0.strip_prefix(text);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// Returns the text before `end`. Skips this text and `end` itself.
    pub(super) fn take_until(&mut self, end: char) -> Option<&'e str> {
        let (before, behind) = self.0.split_once(end)?;
        self.0 = behind;
        Some(before)
    }

    /// The text before `end`.
    pub(super) fn rest_until(self, end: &str) -> Option<&'e str> {
        Some(self.0.split_once(end)?.0)
    }

    /// Parses `{min}`, `{min,}` or `{min,max}`. The numbers may be as large as the type permits.
    /// After a failure the position of the cursor is undefined.
    pub(super) fn take_braces(&mut self) -> Option<(usize, Option<usize>)> {
        self.skip("{");
        let min = self.take_number()?;
        let max = match self.skip(",") {
            false => Some(min),
            true if self.is_at("}") => None,
            true => Some(self.take_number()?),
        };
        self.skip("}").then_some((min, max))
    }

    /// Parses a number without leading zeros.
    fn take_number(&mut self) -> Option<usize> {
        let digits = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = self.0.split_at(digits);
        if number.is_empty() || (number.len() > 1 && number.starts_with('0')) {
            return None;
        }
        self.0 = rest;
        Some(number.parse().unwrap_or(usize::MAX))
    }

    fn take_digit(&mut self, radix: u32) -> Option<u32> {
        let digit = self.peek()?.to_digit(radix)?;
        self.take();
        Some(digit)
    }
}

/// Parses `\p{name}`, `\pN`, or a negation of them.
pub(super) fn unicode_escape(
    cursor: &mut Cursor<'_>,
    folds_case: bool,
) -> Result<AsciiSet, RegexError> {
    let mut is_negated = cursor.is_at("\\P");
    cursor.take();
    cursor.take();
    let before = cursor.0;
    let mut name = if cursor.skip("{") {
        cursor.take_until('}').ok_or(RegexError::InvalidClassRange)?
    } else {
        let letter = cursor.take().ok_or(RegexError::InvalidClassRange)?;
        &before[..letter.len_utf8()]
    };
    if let Some(rest) = name.strip_prefix('^') {
        (name, is_negated) = (rest, !is_negated);
    }
    let set = unicode_class(name, folds_case).ok_or(RegexError::InvalidClassRange)?;
    Ok(set.not_if(is_negated))
}

/// Parses the escape of one code point, which may be a surrogate.
pub(super) fn code_point(cursor: &mut Cursor<'_>) -> Result<u32, RegexError> {
    cursor.take();
    let escaped = cursor.take().ok_or(RegexError::TrailingBackslash)?;
    Ok(u32::from(match escaped {
        '0'..='7' => return octal(cursor, escaped),
        'x' => return hexadecimal(cursor),
        'a' => '\x07',
        'f' => '\x0C',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0B',
        other if other.is_ascii_alphanumeric() => return Err(RegexError::InvalidEscape),
        other => other,
    }))
}

/// Parses up to three octal digits. A single digit other than zero would be a back reference.
fn octal(cursor: &mut Cursor<'_>, first: char) -> Result<u32, RegexError> {
    let mut code = first.to_digit(8).unwrap_or(0);
    let mut digits = 1;
    while digits < 3
        && let Some(digit) = cursor.take_digit(8)
    {
        code = code * 8 + digit;
        digits += 1;
    }
    if digits == 1 && first != '0' {
        return Err(RegexError::InvalidEscape);
    }
    Ok(code)
}

/// Parses two hexadecimal digits, or any number of them in braces.
fn hexadecimal(cursor: &mut Cursor<'_>) -> Result<u32, RegexError> {
    let digits = if cursor.skip("{") {
        cursor.take_until('}').ok_or(RegexError::InvalidEscape)?
    } else {
        let two = cursor.0.get(..2).ok_or(RegexError::InvalidEscape)?;
        cursor.skip(two);
        two
    };
    let mut code = 0;
    for digit in digits.chars() {
        let digit = digit.to_digit(16).ok_or(RegexError::InvalidEscape)?;
        code = code * 16 + digit;
        if code > u32::from(char::MAX) {
            return Err(RegexError::InvalidEscape);
        }
    }
    if digits.is_empty() {
        return Err(RegexError::InvalidEscape);
    }
    Ok(code)
}
