//! The server's log. A thread writes the lines, which it gets over a bounded queue. So a slow or
//! missing reader of the log can neither block a shard nor end it.
//!
//! Lines that do not fit into the queue or cannot be written are counted, and a later line reports
//! their number. If clients can cause as many lines as they like, these lines first pass a
//! [`Throttle`]. When the process ends, it waits up to a second for the last lines.

mod name;
mod queue;
mod request_errors;
mod throttle;
mod writer;

pub(crate) use name::Name;
pub use request_errors::RequestErrors;
pub use throttle::Throttle;

use queue::Queue;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Display;
use std::io::{self, Write};
use std::panic::{self, PanicHookInfo};
use std::sync::OnceLock;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tracing::error;
use tracing_subscriber::EnvFilter;

/// How long the process waits, when it ends, until the last lines are written.
const FLUSH_PATIENCE: Duration = Duration::from_secs(1);

/// The format of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Time, level, message, and fields as `name=value`.
    Text,
    /// A JSON object.
    Json,
}

static QUEUE: OnceLock<Queue> = OnceLock::new();

/// Starts the log, with a line for each event. Errors go to standard error, other lines to standard
/// output; if one output fails, its lines go to the other. `RUST_LOG` filters lines. Panics are
/// logged.
///
/// # Errors
/// The thread cannot be started, or a descriptor cannot be duplicated.
pub fn start(format: Format) -> io::Result<()> {
    let (queue, receiver) = queue::new();
    writer::start(receiver, format)?;
    let queue: &'static Queue = QUEUE.get_or_init(|| queue);
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .log_internal_errors(false)
        .with_writer(queue);
    match format {
        Format::Text => lines.with_target(false).init(),
        Format::Json => lines.json().flatten_event(true).with_current_span(false).init(),
    }
    panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Waits up to a second until all lines so far are written. Returns false if some are not written
/// by then.
pub fn flush() -> bool {
    QUEUE.get().is_some_and(|queue| queue.flush(FLUSH_PATIENCE))
}

/// Ends the process with status 1. The reason is the last line of the log.
pub fn fail(reason: impl Display) -> ! {
    let reason = reason.to_string();
    error!("{reason}");
    if !flush() {
        print_aside(reason);
    }
    std::process::exit(1)
}

/// Writes the reason to standard error without the log, which is blocked. Standard error may block,
/// too. So another thread writes, and this one waits for it no longer than [`FLUSH_PATIENCE`].
fn print_aside(reason: String) {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        // If this fails, there is no other place to report it.
        let _ = writeln!(io::stderr(), "{reason}");
        let _ = done.send(());
    });
    let _ = is_done.recv_timeout(FLUSH_PATIENCE);
}

fn log_panic(info: &PanicHookInfo<'_>) {
    let thread = thread::current();
    let name = thread.name().unwrap_or("without a name").to_owned();
    let what = info.payload_as_str().unwrap_or("no message");
    let place = info.location().map(|location| format!(" at {location}")).unwrap_or_default();
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        error!("thread {name} panicked{place}: {what}\n{backtrace}");
    } else {
        error!("thread {name} panicked{place}: {what}");
    }
}
