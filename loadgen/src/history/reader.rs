//! Reads a history. Any program may have written it, so the length and content of every line are
//! checked.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::HistoryError;
use super::line::{FORMAT, Header, Line};

/// The maximum length of a line. An event with 100,000 partitions is shorter.
pub const LINE_MAX: usize = 16 << 20;

/// The lines of a history, in order. After an error no more lines follow.
pub struct Reader<R> {
    from: R,
    line: Vec<u8>,
    number: u64,
    ended: bool,
}

impl Reader<BufReader<File>> {
    pub fn open(path: &Path) -> Result<Self, HistoryError> {
        let file = File::open(path).map_err(|error| HistoryError::io("open", path, error))?;
        Ok(Self::new(BufReader::with_capacity(1 << 18, file)))
    }
}

impl<R: BufRead> Reader<R> {
    pub fn new(from: R) -> Self {
        Self { from, line: Vec::new(), number: 0, ended: false }
    }

    /// The number of the last line read, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    fn read(&mut self) -> Result<Option<Line>, HistoryError> {
        self.line.clear();
        self.number += 1;
        let number = self.number;
        let mut limited = (&mut self.from).take(LINE_MAX as u64 + 1);
        limited
            .read_until(b'\n', &mut self.line)
            .map_err(|error| HistoryError::Read { number, error })?;
        if self.line.is_empty() {
            return if number == 1 { Err(HistoryError::Empty) } else { Ok(None) };
        }
        if self.line.last() != Some(&b'\n') {
            let too_long = self.line.len() > LINE_MAX;
            return Err(if too_long {
                HistoryError::TooLong { number }
            } else {
                HistoryError::CutOff { number }
            });
        }
        let line = parse(&self.line).map_err(|what| HistoryError::Line { number, what })?;
        if number == 1 {
            first(&line)?;
        }
        Ok(Some(line))
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Line, HistoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let line = self.read().transpose();
        self.ended = !matches!(line, Some(Ok(_)));
        line
    }
}

/// Parses a line. A line with the field `line` is a header, all others are events. This is decided
/// before the line is parsed as either: for the untagged enum [`Line`], serde's error would not say
/// what is wrong.
fn parse(bytes: &[u8]) -> Result<Line, String> {
    #[derive(serde::Deserialize)]
    struct Probe {
        line: Option<serde::de::IgnoredAny>,
    }
    let readable = |error: serde_json::Error| error.to_string();
    let probe: Probe = serde_json::from_slice(bytes).map_err(readable)?;
    match probe.line {
        Some(_) => serde_json::from_slice(bytes).map(Line::Header).map_err(readable),
        None => serde_json::from_slice(bytes).map(Line::Event).map_err(readable),
    }
}

fn first(line: &Line) -> Result<(), HistoryError> {
    match line {
        Line::Header(Header::Run(run)) if run.format == FORMAT => Ok(()),
        Line::Header(Header::Run(run)) => Err(HistoryError::Format(run.format)),
        Line::Header(_) | Line::Event(_) => Err(HistoryError::NoRun),
    }
}
