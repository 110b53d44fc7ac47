//! Checks a history that was written earlier: `muster-load check history.jsonl`.

use std::path::Path;

use super::{Checker, Found};
use crate::history::{Header, HistoryError, Line, Reader};

/// The result of checking a history.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Checked {
    pub found: Found,
    pub groups: u64,
    pub events: u64,
    /// Whether the last line is incomplete, because the run was ended while it wrote the line. The
    /// lines before it were checked.
    pub cut_off: bool,
}

/// Checks the whole file. This takes as much memory as a run of its size.
pub fn check_file(path: &Path) -> Result<Checked, HistoryError> {
    check_lines(Reader::open(path)?)
}

fn check_lines(
    lines: impl Iterator<Item = Result<Line, HistoryError>>,
) -> Result<Checked, HistoryError> {
    let mut checker = Checker::default();
    let mut checked = Checked::default();
    for line in lines {
        match line {
            Ok(Line::Event(event)) => {
                checked.events += 1;
                checker.observe(&event);
            }
            Ok(Line::Header(Header::Group(group))) => {
                checked.groups += 1;
                checker.expect_group(group);
            }
            Ok(Line::Header(Header::CoordinatorRestarted { at })) => {
                checker.coordinator_restarted(at);
            }
            Ok(Line::Header(Header::Run(_) | Header::Topic(_) | Header::Phase { .. })) => {}
            Err(HistoryError::CutOff { .. }) => checked.cut_off = true,
            Err(error) => return Err(error),
        }
    }
    checked.found = checker.finish();
    Ok(checked)
}
