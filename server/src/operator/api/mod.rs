//! The read API, `/api/v1/...`: JSON answers of limited size. No request changes anything.

mod configs;
mod group;
mod groups;
mod records;
mod share;
mod topics;

use super::shards::Shards;
use super::{Operator, Query, decoded};
use crate::calendar::civil_time;
use crate::clock::wall;
use serde_json::{Value, json};

/// The most rows of a list, and the default.
const ROWS_MAX: usize = 500;
const ROWS: usize = 50;

/// A page ends after this many bytes of names. JSON may need six bytes for each byte.
const NAMES_BYTES_MAX: usize = 128 << 10;

/// The longest search text, in bytes.
const SEARCH_BYTES_MAX: usize = 256;

/// An answer: HTTP status and JSON.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn found(body: Value) -> Self {
        Self { status: 200, body }
    }

    pub(crate) fn malformed(words: impl Into<String>) -> Self {
        Self::error(400, words)
    }

    fn unknown(words: impl Into<String>) -> Self {
        Self::error(404, words)
    }

    pub(crate) fn unavailable(words: impl Into<String>) -> Self {
        Self::error(503, words)
    }

    pub(crate) fn error(status: u16, words: impl Into<String>) -> Self {
        Self { status, body: json!({ "error": words.into() }) }
    }
}

/// An error as an answer.
type Refused = Answer;

/// The requested part of a list.
#[derive(Debug, Clone, Copy)]
struct Page<'q> {
    /// The text to search for; None for all rows.
    search: Option<&'q str>,
    from: usize,
    rows: usize,
}

/// Answers a path below `/api/v1/`.
pub(super) fn answer(operator: &Operator, shards: &Shards, path: &str, query: &Query) -> Answer {
    let (collection, item) = path.split_once('/').map_or((path, None), |(a, b)| (a, Some(b)));
    let Some(item) = item.map_or(Some(None), |item| decoded(item).map(Some)) else {
        return Answer::malformed("the path is malformed");
    };
    let answered = match (collection, item) {
        ("groups", None) => groups::answer(operator, query),
        ("groups", Some(id)) => group::answer(shards, &id, query),
        ("topics", None) => topics::answer(operator, query),
        ("topics", Some(name)) => topics::answer_one(shards, &name, query),
        ("records", Some(name)) => records::answer(shards, &name, query),
        ("configs", None) => configs::answer(shards, query),
        _ => Err(Answer::unknown("there is no such path: see /api/v1/")),
    };
    answered.map_or_else(|refused| refused, |body| Answer::found(timed(body)))
}

/// Adds the current time to an answer.
pub(crate) fn timed(mut body: Value) -> Value {
    body["time"] = json!(civil_time(wall().0));
    body
}

impl<'q> Page<'q> {
    /// # Errors
    /// A value is not a number, or is too large.
    fn read(query: &'q Query) -> Result<Self, Refused> {
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
    fn wants(&self, name: &str) -> bool {
        let Some(search) = self.search else { return true };
        let (name, search) = (name.as_bytes(), search.as_bytes());
        name.windows(search.len()).any(|part| part.eq_ignore_ascii_case(search))
    }

    /// The rows of the page among all matching rows, and the number of these. The page ends early
    /// if its names are long.
    fn of<'f, T>(
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

fn late(shard: u32) -> Refused {
    Answer::unavailable(format!("shard {shard} does not answer in time"))
}

fn no_survey() -> Refused {
    Answer::unavailable("a shard does not answer in time: see /readyz")
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
