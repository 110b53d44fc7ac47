//! The state of a run for other programs while it runs: lines of JSON, and an endpoint.

mod endpoint;

use std::fs::File;
use std::io::{self, BufWriter, Write};

use loadgen::report::files::STANDARD_OUTPUT;
use loadgen::report::live::LiveState;
use loadgen::report::stream::{json_line, prometheus};

use self::endpoint::Endpoint;
use crate::args::Outputs;

#[derive(Default)]
pub(crate) struct Streams {
    lines: Option<Box<dyn Write>>,
    endpoint: Option<Endpoint>,
}

impl Streams {
    /// # Errors
    /// One sentence: a file that can't be written, an address that can't be listened on.
    pub(crate) fn of(outputs: &Outputs) -> Result<Self, String> {
        let open = |path: &std::path::PathBuf| -> Result<Box<dyn Write>, String> {
            if path.as_os_str() == STANDARD_OUTPUT {
                return Ok(Box::new(io::stdout()));
            }
            let file = File::create(path);
            let file =
                file.map_err(|error| format!("{} can't be written: {error}", path.display()));
            Ok(Box::new(BufWriter::new(file?)))
        };
        let lines = outputs.ndjson.as_ref().map(open).transpose()?;
        let endpoint = outputs.prometheus.as_deref().map(Endpoint::start).transpose()?;
        Ok(Self { lines, endpoint })
    }

    /// # Errors
    /// One sentence, once: nothing more is written to lines that can't be written.
    pub(crate) fn show(&mut self, state: &LiveState) -> Result<(), String> {
        if let Some(endpoint) = &self.endpoint {
            endpoint.show(prometheus(state));
        }
        let Some(lines) = &mut self.lines else { return Ok(()) };
        let written = writeln!(lines, "{}", json_line(state)).and_then(|()| lines.flush());
        written.map_err(|error| {
            self.lines = None;
            format!("no more lines can be written (--ndjson): {error}")
        })
    }
}
