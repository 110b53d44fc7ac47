//! The part of a list that a request asks for.

use super::answer::{Answer, Refused};
use crate::operator::Query;

/// The maximum number of rows of a list, and the default.
const ROWS_MAX: usize = 500;
const ROWS: usize = 50;

/// The number of bytes of names after which a page ends. JSON may take six bytes for each byte of
/// these.
const NAMES_BYTES_MAX: usize = 128 << 10;

/// The maximum length of a search text, in bytes.
const SEARCH_BYTES_MAX: usize = 256;

/// The requested part of a list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page<'q> {
    /// The text to search for; None for all rows.
    pub(super) search: Option<&'q str>,
    pub(super) from: usize,
    pub(super) rows: usize,
}

impl<'q> Page<'q> {
    /// # Errors
    /// A value is not a number, or is too large.
    pub(super) fn read(query: &'q Query) -> Result<Self, Refused> {
        let search = query.text("search");
        if search.is_some_and(|search| search.len() > SEARCH_BYTES_MAX) {
            let words = format!("search may have {SEARCH_BYTES_MAX} bytes");
            return Err(Answer::malformed(words));
        }
        let from = query.number("from", 0).map_err(Answer::malformed)?;
        let rows = query.number("rows", ROWS).map_err(Answer::malformed)?;
        if rows > ROWS_MAX {
            return Err(Answer::malformed(format!("rows may be {ROWS_MAX} at most")));
        }
        Ok(Self { search, from, rows })
    }

    /// Whether a name contains the search text, ignoring case.
    pub(super) fn wants(&self, name: &str) -> bool {
        let Some(search) = self.search else { return true };
        let (name, search) = (name.as_bytes(), search.as_bytes());
        name.windows(search.len()).any(|part| part.eq_ignore_ascii_case(search))
    }

    /// Returns the number of all matching rows, and those that are on the page. The page ends early
    /// if its names are long.
    pub(super) fn of<'f, T>(
        &self,
        found: impl Iterator<Item = &'f T>,
        name: impl Fn(&T) -> &str,
    ) -> (usize, Vec<&'f T>) {
        let (mut count, mut bytes, mut rows) = (0, 0, Vec::new());
        for row in found {
            let is_next = count == self.from + rows.len();
            if is_next && rows.len() < self.rows && bytes < NAMES_BYTES_MAX {
                bytes += name(row).len();
                rows.push(row);
            }
            count += 1;
        }
        (count, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_at_its_rows_or_after_the_bytes_of_its_names() {
        let long = "x".repeat(NAMES_BYTES_MAX / 2);
        let names = [long.as_str(), long.as_str(), "a", "b", "c"].map(str::to_owned);
        let of = |from, rows| {
            let page = Page { search: None, from, rows };
            let (count, rows) = page.of(names.iter(), |name| name);
            assert_eq!(count, names.len(), "all are counted");
            rows.len()
        };
        assert_eq!([of(0, 5), of(2, 5), of(2, 2), of(5, 5)], [2, 3, 2, 0]);
    }
}
