//! A name chosen by a client, formatted for a log line.

use std::fmt::{self, Display, Formatter, Write};

/// Formats a name so that a reader cannot mistake it for another part of the line. A name with
/// spaces, quotes, `=`, backslashes or control characters is quoted and escaped.
pub(crate) struct Name<'n>(pub(crate) &'n str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let is_plain = |c: char| !c.is_whitespace() && !"\"'\\=".contains(c) && !c.is_control();
        if !self.0.is_empty() && self.0.chars().all(is_plain) {
            return f.write_str(self.0);
        }
        f.write_char('"')?;
        self.0.chars().try_for_each(|c| match c {
            '\'' => f.write_char(c),
            c => write!(f, "{}", c.escape_debug()),
        })?;
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_forges_no_line_and_no_field() {
        let shown = ["orders-eu", "größe", "", "two words", "a=1", "x\ngroup=y", "\"", "it's"]
            .map(|name| Name(name).to_string());
        let expected = [
            "orders-eu",
            "größe",
            "\"\"",
            "\"two words\"",
            "\"a=1\"",
            "\"x\\ngroup=y\"",
            "\"\\\"\"",
            "\"it's\"",
        ];
        assert_eq!(shown, expected);
    }
}
