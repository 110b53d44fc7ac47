//! Parses `server.properties` and `client.properties`, whose format is that of
//! `java.util.Properties`.

use std::iter::Peekable;
use std::str::Chars;

/// A line number with the key and value of the line, or with the error.
pub type Parsed = (usize, Result<(String, String), String>);

/// Parses the keys and values of a text, in order, as `java.util.Properties.load` does: comments
/// (`#`, `!`); `=`, `:` or blanks between key and value; escapes (`\t`, `\n`, `\r`, `\f`, `\uXXXX`,
/// a backslash before any other character); continuation lines. A `\u` without four hexadecimal
/// digits is an error.
pub fn parse(text: &str) -> impl Iterator<Item = Parsed> {
    logical_lines(text).into_iter().map(|(number, line)| {
        let pair = pair(&line).ok_or_else(|| "\\u needs four hexadecimal digits".to_owned());
        (number, pair)
    })
}

/// Returns the lines that are neither blank nor comments, each with its line number. A line that
/// ends in a backslash is joined with the next one and keeps the number of the first.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut continued = false;
    for (index, line) in natural_lines(text).enumerate() {
        let line = line.trim_start_matches(is_blank);
        if !continued && (line.is_empty() || line.starts_with(['#', '!'])) {
            continue;
        }
        let ends_open = ends_in_odd_backslashes(line);
        let line = if ends_open { &line[..line.len() - 1] } else { line };
        match lines.last_mut() {
            Some((_, last)) if continued => last.push_str(line),
            _ => lines.push((index + 1, line.to_owned())),
        }
        continued = ends_open;
    }
    lines
}

/// Splits at `\n`, `\r` and `\r\n`.
fn natural_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r'))
}

fn ends_in_odd_backslashes(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

fn pair(line: &str) -> Option<(String, String)> {
    let mut chars = line.chars().peekable();
    let key = unescape(&mut chars, |c| is_blank(c) || matches!(c, '=' | ':'))?;
    while chars.next_if(|c| is_blank(*c)).is_some() {}
    if chars.next_if(|c| matches!(c, '=' | ':')).is_some() {
        while chars.next_if(|c| is_blank(*c)).is_some() {}
    }
    let value = unescape(&mut chars, |_| false)?;
    Some((key, value))
}

/// Reads and unescapes characters. Stops before the first one that is not escaped and for which
/// `ends` is true. Returns None for an invalid `\u`.
fn unescape(chars: &mut Peekable<Chars<'_>>, ends: impl Fn(char) -> bool) -> Option<String> {
    let mut units = Vec::new();
    while let Some(c) = chars.next_if(|c| !ends(*c)) {
        let unit = match (c, if c == '\\' { chars.next() } else { None }) {
            ('\\', None) => break,
            ('\\', Some('u')) => {
                units.push(code_unit(chars)?);
                continue;
            }
            ('\\', Some('t')) => '\t',
            ('\\', Some('n')) => '\n',
            ('\\', Some('r')) => '\r',
            ('\\', Some('f')) => '\u{c}',
            ('\\', Some(escaped)) => escaped,
            (plain, _) => plain,
        };
        units.extend_from_slice(unit.encode_utf16(&mut [0; 2]));
    }
    Some(String::from_utf16_lossy(&units))
}

fn code_unit(chars: &mut Peekable<Chars<'_>>) -> Option<u16> {
    let digits: Option<Vec<u32>> = (0..4).map(|_| chars.next()?.to_digit(16)).collect();
    Some(digits?.iter().fold(0, |unit, digit| unit << 4 | *digit as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts, each with the pairs that Java reads from it.
    const CASES: &[(&str, &[(&str, &str)])] = &[
        ("", &[]),
        ("# comment\n! comment\n\n  \t\n", &[]),
        ("a=1\nb:2\nc 3\nd\t=\t4\ne", &[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4"), ("e", "")]),
        ("a=1\r\nb=2\rc=3", &[("a", "1"), ("b", "2"), ("c", "3")]),
        ("  a = b = c  ", &[("a", "b = c  ")]),
        ("a=1,\\\n   2,\\\n   # 3", &[("a", "1,2,# 3")]),
        ("a=1\\\\\nb=2", &[("a", "1\\"), ("b", "2")]),
        ("a=1\\", &[("a", "1")]),
        ("a\\=b\\ c=\\t\\n\\q", &[("a=b c", "\t\nq")]),
        ("a=\\u00fC\\ud83d\\ude00", &[("a", "\u{fc}\u{1f600}")]),
        ("=v", &[("", "v")]),
    ];

    #[test]
    fn texts_are_read_as_java_reads_them() {
        for (text, pairs) in CASES {
            let read: Vec<_> = parse(text).map(|(_, pair)| pair.unwrap()).collect();
            let read: Vec<_> = read.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            assert_eq!(&read, pairs, "{text:?}");
        }
    }

    #[test]
    fn a_bad_escape_names_its_line() {
        let read: Vec<_> = parse("a=1\n\nb=\\u12x4\nc=2").collect();
        assert_eq!((read[1].0, read[1].1.is_err()), (3, true), "{read:?}");
        assert_eq!(read[2], (4, Ok(("c".to_owned(), "2".to_owned()))), "what follows is read");
    }
}
