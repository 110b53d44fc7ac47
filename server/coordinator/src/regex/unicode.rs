//! The ASCII part of the Unicode categories and scripts that have names in RE2J 1.8.

use super::ascii::{ALPHA, AsciiSet, DIGIT, LOWER, UPPER};

/// A category or script. If `is_folded`, it includes the characters that `(?i)` adds in RE2J: only
/// `K` and `S` to the lower-case letters, but all lower-case letters to the upper-case letters.
pub(super) fn unicode_class(name: &str, is_folded: bool) -> Option<AsciiSet> {
    let folded = |set: AsciiSet, more| if is_folded { set.or(more) } else { set };
    Some(match name {
        "Any" => AsciiSet::ALL,
        "C" | "Cc" => AsciiSet::of(&[(0, 0x1F), (0x7F, 0x7F)]),
        "L" | "Latin" => ALPHA,
        "Ll" => folded(LOWER, AsciiSet::of(&[(b'K', b'K'), (b'S', b'S')])),
        "Lu" => folded(UPPER, LOWER),
        "N" | "Nd" => DIGIT,
        "P" => AsciiSet::of(&PUNCTUATION),
        "Pc" => AsciiSet::of(&[(b'_', b'_')]),
        "Pd" => AsciiSet::of(&[(b'-', b'-')]),
        "Pe" => AsciiSet::of(&[(b')', b')'), (b']', b']'), (b'}', b'}')]),
        "Po" => AsciiSet::of(&OTHER_PUNCTUATION),
        "Ps" => AsciiSet::of(&[(b'(', b'('), (b'[', b'['), (b'{', b'{')]),
        "S" => AsciiSet::of(&[(b'$', b'$'), (b'^', b'^'), (b'`', b'`')]).or(MATH),
        "Sc" => AsciiSet::of(&[(b'$', b'$')]),
        "Sk" => AsciiSet::of(&[(b'^', b'^'), (b'`', b'`')]),
        "Sm" => MATH,
        "Z" | "Zs" => AsciiSet::of(&[(b' ', b' ')]),
        "Common" => ALPHA.not(),
        _ if WITHOUT_ASCII.binary_search(&name).is_ok() => AsciiSet::EMPTY,
        _ => return None,
    })
}

const MATH: AsciiSet = AsciiSet::of(&[(b'+', b'+'), (b'<', b'>'), (b'|', b'|'), (b'~', b'~')]);

const PUNCTUATION: [(u8, u8); 9] = [
    (b'!', b'#'),
    (b'%', b'*'),
    (b',', b'/'),
    (b':', b';'),
    (b'?', b'@'),
    (b'[', b']'),
    (b'_', b'_'),
    (b'{', b'{'),
    (b'}', b'}'),
];

const OTHER_PUNCTUATION: [(u8, u8); 8] = [
    (b'!', b'#'),
    (b'%', b'\''),
    (b'*', b'*'),
    (b',', b','),
    (b'.', b'/'),
    (b':', b';'),
    (b'?', b'@'),
    (b'\\', b'\\'),
];

/// The names whose ASCII part is empty, in ascending order.
#[rustfmt::skip]
const WITHOUT_ASCII: [&str; 111] = [
    "Arabic", "Armenian", "Avestan", "Balinese", "Bamum", "Batak", "Bengali", "Bopomofo",
    "Brahmi", "Braille", "Buginese", "Buhid", "Canadian_Aboriginal", "Carian", "Cf", "Cham",
    "Cherokee", "Co", "Coptic", "Cs", "Cuneiform", "Cypriot", "Cyrillic", "Deseret", "Devanagari",
    "Egyptian_Hieroglyphs", "Ethiopic", "Georgian", "Glagolitic", "Gothic", "Greek", "Gujarati",
    "Gurmukhi", "Han", "Hangul", "Hanunoo", "Hebrew", "Hiragana", "Imperial_Aramaic", "Inherited",
    "Inscriptional_Pahlavi", "Inscriptional_Parthian", "Javanese", "Kaithi", "Kannada",
    "Katakana", "Kayah_Li", "Kharoshthi", "Khmer", "Lao", "Lepcha", "Limbu", "Linear_B", "Lisu",
    "Lm", "Lo", "Lt", "Lycian", "Lydian", "M", "Malayalam", "Mandaic", "Mc", "Me", "Meetei_Mayek",
    "Mn", "Mongolian", "Myanmar", "New_Tai_Lue", "Nko", "Nl", "No", "Ogham", "Ol_Chiki",
    "Old_Italic", "Old_Persian", "Old_South_Arabian", "Old_Turkic", "Oriya", "Osmanya", "Pf",
    "Phags_Pa", "Phoenician", "Pi", "Rejang", "Runic", "Samaritan", "Saurashtra", "Shavian",
    "Sinhala", "So", "Sundanese", "Syloti_Nagri", "Syriac", "Tagalog", "Tagbanwa", "Tai_Le",
    "Tai_Tham", "Tai_Viet", "Tamil", "Telugu", "Thaana", "Thai", "Tibetan", "Tifinagh",
    "Ugaritic", "Unknown", "Vai", "Yi", "Zl", "Zp",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order() {
        assert!(WITHOUT_ASCII.is_sorted());
    }
}
