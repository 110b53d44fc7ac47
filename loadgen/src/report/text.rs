//! Text for people: numbers with units, and colours on a terminal.

use std::io::IsTerminal;
use std::os::fd::AsFd;

use super::model::Run;

/// The assumed number of columns, if no terminal reports its width.
const COLUMNS: usize = 100;
/// The minimum number of columns. A narrower terminal wraps the lines itself.
const COLUMNS_MIN: usize = 60;

/// The number with separators, as in `12,345`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The number with its noun, such as `1 error` or `12 errors`.
pub(super) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// The size of the run in words, such as `100 members in 2 groups, 4 producers`.
pub(super) fn members_in_words(run: &Run) -> String {
    let members = (run.groups > 0 || run.producers == 0).then(|| {
        let groups = counted(run.groups.into(), "group");
        format!("{} members in {groups}", count(run.members.into()))
    });
    let producers = (run.producers > 0).then(|| counted(run.producers.into(), "producer"));
    Vec::from_iter(members.into_iter().chain(producers)).join(", ")
}

/// Formats a rate or a quantity. Numbers below 100 have three significant digits, larger ones no
/// fraction: `0.0254`, `12.3`, `1,234`. Whole numbers have no fraction, either.
pub(super) fn number(value: f64) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    match value.abs() {
        v if v < 1e-6 => "0".into(),
        v if v < 0.9995 => {
            let zeros = (-v.log10()).floor() as usize;
            format!("{value:.*}", zeros + 3).trim_end_matches('0').trim_end_matches('.').into()
        }
        v if v < 9.995 => format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').into(),
        v if v < 99.95 && v.fract() != 0.0 => format!("{value:.1}"),
        v => {
            let sign = if value < 0.0 { "-" } else { "" };
            format!("{sign}{}", count(v.round() as u64))
        }
    }
}

/// Milliseconds in a suitable unit: `85 µs`, `1.25 ms`, `12.3 s`, `4 min 05 s`.
pub(super) fn millis(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        v if v < 0.9995 => format!("{:.0} µs", value * 1e3),
        v if v < 9.995 => format!("{value:.2} ms"),
        v if v < 99.95 => format!("{value:.1} ms"),
        v if v < 999.5 => format!("{value:.0} ms"),
        v if v < 9_995.0 => format!("{:.2} s", value / 1e3),
        v if v < 99_950.0 => format!("{:.1} s", value / 1e3),
        _ => clock(value / 1e3),
    }
}

/// Seconds of a phase or run: `8.4 s`, `65 s`, `2 min 05 s`, `2 h 03 min`.
pub(super) fn clock(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        0..10 if seconds > 0.0 => format!("{seconds:.1} s"),
        0..10 => "0 s".into(),
        10..100 => format!("{whole} s"),
        100..3_600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3_600, whole % 3_600 / 60),
    }
}

/// A number of bytes with its unit, such as `512 B` or `1.5 MiB`.
pub(super) fn bytes(value: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut size = value as f64;
    let mut unit = 0;
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{value} B") } else { format!("{} {}", number(size), UNITS[unit]) }
}

/// Escapes control characters of foreign text, as in `\u{1b}`, so that a terminal does not
/// interpret them.
pub(super) fn plain(foreign: &str) -> String {
    let mut text = String::with_capacity(foreign.len());
    for c in foreign.chars() {
        if c.is_control() {
            text.extend(c.escape_default());
        } else {
            text.push(c);
        }
    }
    text
}

/// The text in at most `width` characters. A longer text is cut, and ends with `…`.
pub(super) fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Lines of at most `width` characters, broken at spaces if possible. Indentation of `text` stays.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut rest: Vec<char> = line.chars().collect();
        while rest.len() > width.max(1) {
            let indent = rest.iter().take_while(|c| **c == ' ').count();
            let space = (indent + 1..=width).rev().find(|&at| rest[at] == ' ');
            let after = rest.split_off(space.unwrap_or(width.max(1)));
            lines.push(String::from_iter(rest).trim_end().to_owned());
            rest = after.into_iter().skip_while(|c| *c == ' ').collect();
        }
        lines.push(rest.into_iter().collect());
    }
    lines
}

/// The width of the terminal `stream` in columns.
pub(super) fn columns(stream: &impl AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(stream).ok();
    let known = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    known.map_or(COLUMNS, |columns| columns.max(COLUMNS_MIN))
}

/// A group's name without the prefix of the run: `orders-17` for
/// `muster-load-x1y2z3-orders-17`.
pub(super) fn named(group: &str) -> &str {
    let rest = group.strip_prefix("muster-load-").and_then(|rest| rest.split_once('-'));
    rest.map_or(group, |(_run, name)| name)
}

/// A group's name in at most `width` characters.
pub(super) fn group_name(group: &str, width: usize) -> String {
    shortened(&plain(named(group)), width)
}

/// The colours. None without a terminal, or if `NO_COLOR` is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Paint {
    colours: bool,
}

impl Paint {
    #[cfg(test)]
    pub(super) const PLAIN: Self = Self { colours: false };

    pub(super) fn of(stream: &impl IsTerminal) -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colours: stream.is_terminal() && !unwanted }
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(super) fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(super) fn bad(self, text: &str) -> String {
        self.with("1;31", text)
    }

    pub(super) fn warm(self, text: &str) -> String {
        self.with("33", text)
    }

    pub(super) fn cool(self, text: &str) -> String {
        self.with("36", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_few_digits_and_a_unit() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(12_345_678), "12,345,678");
        assert_eq!(counted(1, "error"), "1 error");
        assert_eq!(counted(1_000, "error"), "1,000 errors");
        assert_eq!(number(0.0), "0");
        assert_eq!(number(0.0254), "0.0254");
        assert_eq!(number(0.5), "0.5");
        assert_eq!(number(1e-12), "0");
        assert_eq!(number(3.9), "3.9");
        assert_eq!(number(12.34), "12.3");
        assert_eq!(number(38.0), "38");
        assert_eq!(number(1_234.5), "1,235");
        assert_eq!(number(f64::NAN), "0");
        assert_eq!(millis(0.085), "85 µs");
        assert_eq!(millis(1.254), "1.25 ms");
        assert_eq!(millis(999.9), "1.00 s");
        assert_eq!(millis(12_345.0), "12.3 s");
        assert_eq!(millis(245_000.0), "4 min 05 s");
        assert_eq!(clock(8.44), "8.4 s");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(1_572_864), "1.5 MiB");
        assert_eq!(bytes(1_048_575), "1 MiB");
        assert_eq!(clock(7_384.0), "2 h 03 min");
    }

    #[test]
    fn foreign_text_cannot_control_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(shortened("äöü", 3), "äöü");
        assert_eq!(group_name("muster-load-x1y2z3-orders-17", 9), "orders-17");
        assert_eq!(group_name("orders\n", 9), "orders\\n");
    }

    #[test]
    fn long_lines_are_broken_at_spaces() {
        assert_eq!(wrapped("one two three", 20), ["one two three"]);
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("   12  FOUR (5)", 9), ["   12", "FOUR (5)"]);
        assert_eq!(wrapped("abcdefgh ij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrapped("a\nb", 4), ["a", "b"]);
        assert_eq!(wrapped("ab", 0), ["a", "b"]);
    }

    #[test]
    fn without_a_terminal_there_are_a_hundred_columns() {
        assert_eq!(columns(&tempfile::tempfile().unwrap()), 100);
    }
}
