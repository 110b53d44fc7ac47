//! Sets of ASCII characters, and the sets that RE2J has names for.

/// A set of ASCII characters, with one bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct AsciiSet(u128);

pub(super) const DIGIT: AsciiSet = AsciiSet::of(&[(b'0', b'9')]);
pub(super) const UPPER: AsciiSet = AsciiSet::of(&[(b'A', b'Z')]);
pub(super) const LOWER: AsciiSet = AsciiSet::of(&[(b'a', b'z')]);
pub(super) const ALPHA: AsciiSet = UPPER.or(LOWER);
const ALNUM: AsciiSet = ALPHA.or(DIGIT);
pub(super) const WORD: AsciiSet = ALNUM.or(AsciiSet::of(&[(b'_', b'_')]));

/// The non-ASCII characters that differ from an ASCII letter only by case: the Kelvin sign and the
/// long s.
const FOLDED_TO_ASCII: [(u32, u8); 2] = [(0x212A, b'k'), (0x17F, b's')];

impl AsciiSet {
    pub(super) const EMPTY: Self = Self(0);
    pub(super) const ALL: Self = Self(u128::MAX);

    /// The union of inclusive ranges.
    pub(super) const fn of(ranges: &[(u8, u8)]) -> Self {
        let mut set = 0;
        let mut at = 0;
        while at < ranges.len() {
            let (first, last) = ranges[at];
            set |= (u128::MAX >> (127 - last)) & (u128::MAX << first);
            at += 1;
        }
        Self(set)
    }

    /// The ASCII part of the code points from `first` to `last`.
    pub(super) fn range(first: u32, last: u32) -> Self {
        if first > 0x7F { Self::EMPTY } else { Self::of(&[(first as u8, last.min(0x7F) as u8)]) }
    }

    /// Like [`Self::range`], but includes all ASCII characters that differ from a character of the
    /// range only by case.
    pub(super) fn folded_range(first: u32, last: u32) -> Self {
        let mut set = Self::range(first, last);
        for (folded, letter) in FOLDED_TO_ASCII {
            if (first..=last).contains(&folded) {
                set = set.or(Self::of(&[(letter, letter)]));
            }
        }
        set.folded()
    }

    /// The set with all its letters in both cases.
    pub(super) const fn folded(self) -> Self {
        let upper = self.0 & UPPER.0;
        let lower = self.0 & LOWER.0;
        Self(self.0 | upper << 32 | lower >> 32)
    }

    pub(super) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn not(self) -> Self {
        Self(!self.0)
    }

    pub(super) fn not_if(self, is_negated: bool) -> Self {
        if is_negated { self.not() } else { self }
    }

    /// Whether a byte is in the set. `byte` must be ASCII.
    pub(super) fn contains(self, byte: u8) -> bool {
        self.0 >> byte & 1 == 1
    }
}

/// The class `\d`, `\s` or `\w` that has this letter. An upper-case letter negates the class.
pub(super) fn perl_class(letter: char) -> Option<AsciiSet> {
    let set = match letter.to_ascii_lowercase() {
        'd' => DIGIT,
        's' => AsciiSet::of(&[(b'\t', b'\n'), (b'\x0C', b'\r'), (b' ', b' ')]),
        'w' => WORD,
        _ => return None,
    };
    Some(set.not_if(letter.is_ascii_uppercase()))
}

/// The class of `[:name:]`.
pub(super) fn posix_class(name: &str) -> Option<AsciiSet> {
    Some(match name {
        "alnum" => ALNUM,
        "alpha" => ALPHA,
        "ascii" => AsciiSet::ALL,
        "blank" => AsciiSet::of(&[(b'\t', b'\t'), (b' ', b' ')]),
        "cntrl" => AsciiSet::of(&[(0, 0x1F), (0x7F, 0x7F)]),
        "digit" => DIGIT,
        "graph" => AsciiSet::of(&[(b'!', b'~')]),
        "lower" => LOWER,
        "print" => AsciiSet::of(&[(b' ', b'~')]),
        "punct" => AsciiSet::of(&[(b'!', b'/'), (b':', b'@'), (b'[', b'`'), (b'{', b'~')]),
        "space" => AsciiSet::of(&[(b'\t', b'\r'), (b' ', b' ')]),
        "upper" => UPPER,
        "word" => WORD,
        "xdigit" => AsciiSet::of(&[(b'0', b'9'), (b'A', b'F'), (b'a', b'f')]),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(set: AsciiSet) -> alloc::string::String {
        (0..128).filter(|byte| set.contains(*byte)).map(char::from).collect()
    }

    #[test]
    fn a_range_keeps_its_ascii_part() {
        assert_eq!(text(AsciiSet::range(0x78, 0x7A)), "xyz");
        assert_eq!(text(AsciiSet::range(0x7E, 0xE9)), "~\x7F");
        assert_eq!(text(AsciiSet::range(0xE9, 0xEB)), "");
    }

    #[test]
    fn folding_includes_the_kelvin_sign_and_the_long_s() {
        assert_eq!(text(AsciiSet::folded_range(0x61, 0x62)), "ABab");
        assert_eq!(text(AsciiSet::folded_range(0x212A, 0x212A)), "Kk");
        assert_eq!(text(AsciiSet::folded_range(0x17F, 0x180)), "Ss");
        assert_eq!(text(AsciiSet::folded_range(0x30, 0x31)), "01");
    }

    #[test]
    fn perl_space_is_without_the_vertical_tab() {
        assert_eq!(perl_class('s').map(text).unwrap(), "\t\n\x0C\r ");
        assert_eq!(posix_class("space").map(text).unwrap(), "\t\n\x0B\x0C\r ");
    }
}
