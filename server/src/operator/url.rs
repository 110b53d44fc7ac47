//! Parses URL queries: percent-encoded names and values.

/// The maximum number of name-value pairs of a query.
const PARTS_MAX: usize = 32;

/// The decoded names and values of a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses a query. None if it is malformed or has too many pairs.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('&').filter(|part| !part.is_empty()).collect();
        if parts.len() > PARTS_MAX {
            return None;
        }
        let read = |part: &&str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            Some((decoded(&name.replace('+', " "))?, decoded(&value.replace('+', " "))?))
        };
        parts.iter().map(read).collect::<Option<_>>().map(Self)
    }

    /// The first value of a name; None if it is missing or empty.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let named = self.0.iter().find(|(other, _)| other == name);
        named.map(|(_, value)| &**value).filter(|value| !value.is_empty())
    }

    /// The value of a name as a number, or `default` if it is missing.
    ///
    /// # Errors
    /// The value is not a number of this type.
    pub(crate) fn number<N: std::str::FromStr>(&self, name: &str, default: N) -> Result<N, String> {
        let Some(text) = self.text(name) else { return Ok(default) };
        text.parse().map_err(|_| format!("{name} is not a number in range"))
    }
}

/// Decodes percent-encoding; None if it is malformed, or the result is not UTF-8.
pub(crate) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        rest = others;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, others) = others.split_at_checked(2)?;
        bytes.push(hex(digits[0])? << 4 | hex(digits[1])?);
        rest = others;
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded_or_refused() {
        let query = Query::read("a=1&b=x%2Fy+z&c&a=2&&d=%C3%BC").unwrap();
        assert_eq!(query.text("a"), Some("1"));
        assert_eq!((query.text("b"), query.text("d")), (Some("x/y z"), Some("ü")));
        assert_eq!((query.text("c"), query.text("e")), (None, None));
        assert_eq!((query.number("a", 7), query.number("e", 7)), (Ok(1), Ok(7)));
        assert!(query.number("b", 0_u8).is_err());
        for malformed in ["a=%", "a=%2", "a=%zz", "a=%ff", "%=1"] {
            assert_eq!(Query::read(malformed), None, "{malformed}");
        }
        assert_eq!(Query::read(&"a&".repeat(33)), None);
    }
}
