//! The server's log: lines go through a bounded queue to a thread that writes them, so that a
//! reader that is slow or gone can neither block a shard nor end it.

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

/// The time for which the end of the process waits for the last lines to be written.
const FLUSH_PATIENCE: Duration = Duration::from_secs(1);

/// The form of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The time, the level, the words, and fields as `name=value`.
    Text,
    /// A JSON object.
    Json,
}

static QUEUE: OnceLock<Queue> = OnceLock::new();

/// Starts the log, a line for each event: errors go to the standard error, others to the standard
/// output, and where one of them fails to the other. `RUST_LOG` is the filter. A panic is logged,
/// too.
///
/// # Errors
/// No thread or descriptor can be had.
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

/// Waits up to a second until all lines so far are written. False if they are not.
pub fn flush() -> bool {
    QUEUE.get().is_some_and(|queue| queue.flush(FLUSH_PATIENCE))
}

/// Ends the process with status 1 and the reason as the last line of the log.
pub fn fail(reason: impl Display) -> ! {
    let reason = reason.to_string();
    error!("{reason}");
    if !flush() {
        print_aside(reason);
    }
    std::process::exit(1)
}

/// Writes the reason to the standard error when the log is blocked; the standard error may block,
/// too.
fn print_aside(reason: String) {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        // A failure cannot be reported anywhere else.
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
