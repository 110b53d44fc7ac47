//! The state of a run for other programs while it runs: lines of JSON, an endpoint that they query,
//! and an endpoint to which the state is pushed.

mod endpoint;
mod push;

use std::fs::File;
use std::io::{self, BufWriter, Write};

use loadgen::report::files::STANDARD_OUTPUT;
use loadgen::report::html;
use loadgen::report::live::LiveState;
use loadgen::report::model::Report;
use loadgen::report::otlp::Resource;
use loadgen::report::stream::{json_line, prometheus};

use self::endpoint::{Endpoint, PAGE, PROMETHEUS};
use self::push::Push;
use crate::args::Outputs;

#[derive(Default)]
pub(crate) struct Streams {
    lines: Option<Box<dyn Write>>,
    endpoint: Option<Endpoint>,
    push: Option<Push>,
    page: Option<Endpoint>,
}

impl Streams {
    /// # Errors
    /// A file can't be written, an address can't be listened on, or a thread can't be started. The
    /// error is a sentence for the user.
    pub(crate) fn of(outputs: &Outputs, resource: Resource) -> Result<Self, String> {
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
        let endpoint = outputs.prometheus.as_deref();
        let endpoint = endpoint.map(|at| Endpoint::start(at, PROMETHEUS)).transpose()?;
        let page = outputs.live.as_deref().map(|at| Endpoint::start(at, PAGE)).transpose()?;
        page.iter().for_each(|page| page.show(html::live_without_figures()));
        let push = outputs.otlp.as_deref().map(|url| Push::start(url, resource)).transpose()?;
        Ok(Self { lines, endpoint, push, page })
    }

    /// Whether a browser shows the page of the run.
    pub(crate) fn is_watched(&self) -> bool {
        self.page.as_ref().is_some_and(Endpoint::is_watched)
    }

    /// Updates the page.
    pub(crate) fn show_page(&self, report: &Report) {
        if let Some(page) = &self.page {
            page.show(html::live(report));
        }
    }

    /// # Errors
    /// The lines can't be written, or the endpoint of `--otlp` does not accept the state. An error
    /// is returned once, as a sentence for the user. After a line that could not be written, no
    /// further lines are written.
    pub(crate) fn show(&mut self, state: &LiveState) -> Result<(), String> {
        if let Some(endpoint) = &self.endpoint {
            endpoint.show(prometheus(state));
        }
        let pushed = self.push.as_mut().map_or(Ok(()), |push| push.show(state));
        let Some(lines) = &mut self.lines else { return pushed };
        let written = writeln!(lines, "{}", json_line(state)).and_then(|()| lines.flush());
        written.map_err(|error| {
            self.lines = None;
            format!("no more lines can be written (--ndjson): {error}")
        })?;
        pushed
    }
}
