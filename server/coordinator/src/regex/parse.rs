//! Parses an expression into code, in one pass and without recursion, like RE2J 1.8 with its
//! default flags. It finds errors in the same order. Comments mark surprising behaviour of RE2J.

use super::RegexError;
use super::ascii::{AsciiSet, perl_class, posix_class};
use super::escape::{Cursor, code_point, unicode_escape};
use super::program::{Code, Look, Program};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// The greatest number in braces.
const REPEAT_MAX: usize = 1000;

pub(super) fn parse(expression: &str) -> Result<Program, RegexError> {
    let mut parser = Parser::new(expression)?;
    while let Some(first) = parser.cursor.peek() {
        parser.token(first)?;
    }
    parser.end_alternation();
    // A group was not closed.
    if parser.groups.len() > 1 {
        return Err(RegexError::MissingParenthesis);
    }
    Ok(parser.code.finish())
}

struct Parser<'e> {
    cursor: Cursor<'e>,
    code: Code,
    flags: Flags,
    /// The open groups, the innermost last. The first is the expression itself.
    groups: Vec<Group>,
    names: BTreeSet<&'e str>,
    /// Whether the last token was a repetition. A repetition may not be repeated.
    was_repeat: bool,
    /// Whether a `:]` may follow. False after a search has found none: it is not repeated, because
    /// each search reads to the end of the expression.
    has_posix_end: bool,
}

/// The flags `i`, `m` and `s`. `U` only changes which match is found, so it is not stored.
#[derive(Debug, Clone, Copy, Default)]
struct Flags {
    folds_case: bool,
    is_multi_line: bool,
    dot_takes_newline: bool,
}

/// An alternation that is being parsed: the expression itself, or a group.
struct Group {
    /// The index of the instruction that is reserved for the group. The expression around the group
    /// treats the group as one atom.
    place: usize,
    /// The flags to restore after the group.
    flags: Flags,
    /// The instruction that is reserved for the current alternative.
    alternative: usize,
    /// The instructions that are reserved at the ends of the earlier alternatives. They will jump
    /// to the end of the last alternative.
    ends: Vec<usize>,
    /// The index of the last atom, to which a repetition applies.
    atom: Option<usize>,
}

impl<'e> Parser<'e> {
    fn new(expression: &'e str) -> Result<Self, RegexError> {
        let mut this = Self {
            cursor: Cursor::new(expression),
            code: Code::default(),
            flags: Flags::default(),
            groups: Vec::new(),
            names: BTreeSet::new(),
            was_repeat: false,
            has_posix_end: true,
        };
        this.open(Flags::default())?;
        Ok(this)
    }

    fn token(&mut self, first: char) -> Result<(), RegexError> {
        let is_repeat = matches!(first, '*' | '+' | '?' | '{');
        match first {
            '(' => self.open_group()?,
            '|' => self.bar()?,
            ')' => self.close_group()?,
            '^' => self.look_token(Look::LineStart, Look::TextStart)?,
            '$' => self.look_token(Look::LineEnd, Look::TextEnd)?,
            '.' => self.dot()?,
            '[' => self.bracket()?,
            '*' => self.repetition(0, None)?,
            '+' => self.repetition(1, None)?,
            '?' => self.repetition(0, Some(1))?,
            '{' => self.braces()?,
            '\\' => self.escape()?,
            _ => {
                self.cursor.take();
                self.literal(first)?;
            }
        }
        // A brace that is not a repetition counts, too: RE2J refuses `{*`.
        self.was_repeat = is_repeat;
        Ok(())
    }

    /// Parses the beginning of a group, or a construct that starts with `(?`.
    fn open_group(&mut self) -> Result<(), RegexError> {
        if !self.cursor.is_at("(?") {
            self.cursor.take();
            return self.open(self.flags);
        }
        if self.cursor.is_at("(?P<") || self.cursor.is_at("(?<") {
            return self.named_group();
        }
        self.cursor.skip("(?");
        let mut flags = self.flags;
        let mut sets = true;
        let mut saw_flag = false;
        while let Some(letter) = self.cursor.take() {
            match letter {
                'i' => flags.folds_case = sets,
                'm' => flags.is_multi_line = sets,
                's' => flags.dot_takes_newline = sets,
                'U' => {}
                '-' if sets => (sets, saw_flag) = (false, false),
                ':' | ')' if sets || saw_flag => return self.begin_flags(flags, letter == ':'),
                _ => break,
            }
            saw_flag |= letter != '-';
        }
        Err(RegexError::InvalidPerlSyntax)
    }

    /// Parses `(?P<name>` or `(?<name>`.
    fn named_group(&mut self) -> Result<(), RegexError> {
        self.cursor.skip("(?");
        self.cursor.skip("P");
        self.cursor.skip("<");
        let name = self.cursor.take_until('>').ok_or(RegexError::InvalidGroupName)?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_word) {
            return Err(RegexError::InvalidGroupName);
        }
        if !self.names.insert(name) {
            return Err(RegexError::DuplicateGroupName);
        }
        self.open(self.flags)
    }

    /// Applies new flags to the group that they open, or to the rest of the current group.
    fn begin_flags(&mut self, flags: Flags, opens: bool) -> Result<(), RegexError> {
        if opens {
            self.open(self.flags)?;
        }
        self.flags = flags;
        Ok(())
    }

    fn open(&mut self, flags: Flags) -> Result<(), RegexError> {
        let place = self.code.keep_place()?;
        let alternative = self.code.keep_place()?;
        self.groups.push(Group { place, flags, alternative, ends: Vec::new(), atom: None });
        Ok(())
    }

    fn close_group(&mut self) -> Result<(), RegexError> {
        self.cursor.take();
        self.end_alternation();
        if self.groups.len() == 1 {
            return Err(RegexError::Internal);
        }
        if let Some(group) = self.groups.pop() {
            self.flags = group.flags;
            self.group().atom = Some(group.place);
        }
        Ok(())
    }

    fn bar(&mut self) -> Result<(), RegexError> {
        self.cursor.take();
        let end = self.code.keep_place()?;
        let alternative = self.code.keep_place()?;
        let before = self.group().alternative;
        self.code.skip_to(before, alternative);
        let group = self.group();
        group.ends.push(end);
        group.alternative = alternative;
        group.atom = None;
        Ok(())
    }

    fn end_alternation(&mut self) {
        let ends = core::mem::take(&mut self.group().ends);
        let behind = self.code.len();
        for end in ends {
            self.code.jump_to(end, behind);
        }
    }

    fn look_token(&mut self, of_line: Look, of_text: Look) -> Result<(), RegexError> {
        self.cursor.take();
        self.look(if self.flags.is_multi_line { of_line } else { of_text })
    }

    fn dot(&mut self) -> Result<(), RegexError> {
        self.cursor.take();
        let newline = AsciiSet::of(&[(b'\n', b'\n')]);
        self.class(newline.not().or(if self.flags.dot_takes_newline {
            newline
        } else {
            AsciiSet::EMPTY
        }))
    }

    fn repetition(&mut self, min: usize, max: Option<usize>) -> Result<(), RegexError> {
        self.cursor.take();
        self.repeat(min, max)
    }

    /// Parses `{n}`, `{n,}` or `{n,m}`. Any other brace is a literal.
    fn braces(&mut self) -> Result<(), RegexError> {
        let begin = self.cursor;
        let Some((min, max)) = self.cursor.take_braces() else {
            self.cursor = begin;
            self.cursor.take();
            return self.literal('{');
        };
        if min > REPEAT_MAX || max.is_some_and(|max| max > REPEAT_MAX || max < min) {
            return Err(RegexError::InvalidRepeatCount);
        }
        self.repeat(min, max)
    }

    fn repeat(&mut self, min: usize, max: Option<usize>) -> Result<(), RegexError> {
        self.cursor.skip("?");
        if self.was_repeat {
            return Err(RegexError::NestedRepeat);
        }
        let place = self.group().atom.ok_or(RegexError::MissingRepeatArgument)?;
        self.code.repeat(place, min, max)
    }

    fn escape(&mut self) -> Result<(), RegexError> {
        let begin = self.cursor;
        self.cursor.take();
        match self.cursor.take() {
            Some('A') => return self.look(Look::TextStart),
            Some('b') => return self.look(Look::WordBoundary),
            Some('B') => return self.look(Look::NoWordBoundary),
            Some('z') => return self.look(Look::TextEnd),
            Some('C') => return Err(RegexError::InvalidEscape),
            Some('Q') => return self.quotation(),
            Some('p' | 'P') => {
                self.cursor = begin;
                let set = unicode_escape(&mut self.cursor, self.flags.folds_case)?;
                return self.class(set);
            }
            Some(letter) => {
                if let Some(set) = perl_class(letter) {
                    return self.class(set);
                }
            }
            None => {}
        }
        self.cursor = begin;
        let escaped = code_point(&mut self.cursor)?;
        self.class(self.range(escaped, escaped))
    }

    /// Parses literal text up to `\E` or the end.
    fn quotation(&mut self) -> Result<(), RegexError> {
        while self.cursor.peek().is_some() && !self.cursor.is_at("\\E") {
            if let Some(character) = self.cursor.take() {
                self.literal(character)?;
            }
        }
        self.cursor.skip("\\E");
        Ok(())
    }

    /// Parses a class in brackets.
    fn bracket(&mut self) -> Result<(), RegexError> {
        self.cursor.take();
        let is_negated = self.cursor.skip("^");
        let mut set = AsciiSet::EMPTY;
        let mut is_first = true;
        while is_first || self.cursor.peek() != Some(']') {
            is_first = false;
            set = set.or(self.bracket_item()?);
        }
        self.cursor.take();
        self.class(set.not_if(is_negated))
    }

    fn bracket_item(&mut self) -> Result<AsciiSet, RegexError> {
        if self.cursor.is_at("[:") && self.has_posix_end {
            match self.cursor.rest_until(":]") {
                Some(name) => return self.posix_item(name),
                None => self.has_posix_end = false,
            }
        }
        if self.cursor.is_at("\\p") || self.cursor.is_at("\\P") {
            return unicode_escape(&mut self.cursor, self.flags.folds_case);
        }
        let begin = self.cursor;
        if self.cursor.skip("\\")
            && let Some(set) = self.cursor.take().and_then(perl_class)
        {
            return Ok(set);
        }
        self.cursor = begin;
        let first = self.bracket_character()?;
        let last = if self.cursor.is_at("-") && !self.cursor.is_at("-]") {
            self.cursor.take();
            self.bracket_character()?
        } else {
            first
        };
        if last < first {
            return Err(RegexError::InvalidClassRange);
        }
        Ok(self.range(first, last))
    }

    /// Parses `[:name:]` or `[:^name:]`. `name` is everything before `:]`. In `[:]` the colon
    /// belongs to both ends, so there is no name.
    fn posix_item(&mut self, name: &'e str) -> Result<AsciiSet, RegexError> {
        self.cursor.skip(name);
        self.cursor.skip(":]");
        let name = name.strip_prefix("[:").ok_or(RegexError::InvalidClassRange)?;
        let (name, is_negated) = match name.strip_prefix('^') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let set = posix_class(name).ok_or(RegexError::InvalidClassRange)?;
        let set = if self.flags.folds_case { set.folded() } else { set };
        Ok(set.not_if(is_negated))
    }

    fn bracket_character(&mut self) -> Result<u32, RegexError> {
        match self.cursor.peek() {
            None => Err(RegexError::MissingBracket),
            Some('\\') => code_point(&mut self.cursor),
            Some(other) => {
                self.cursor.take();
                Ok(other.into())
            }
        }
    }

    fn literal(&mut self, character: char) -> Result<(), RegexError> {
        self.class(self.range(character.into(), character.into()))
    }

    fn range(&self, first: u32, last: u32) -> AsciiSet {
        if self.flags.folds_case {
            AsciiSet::folded_range(first, last)
        } else {
            AsciiSet::range(first, last)
        }
    }

    fn class(&mut self, set: AsciiSet) -> Result<(), RegexError> {
        let place = self.code.keep_place()?;
        self.group().atom = Some(place);
        self.code.class(set)
    }

    fn look(&mut self, look: Look) -> Result<(), RegexError> {
        let place = self.code.keep_place()?;
        self.group().atom = Some(place);
        self.code.look(look)
    }

    /// The innermost open group, or the expression itself.
    fn group(&mut self) -> &mut Group {
        let last = self.groups.len() - 1;
        &mut self.groups[last]
    }
}
