//! A run of one seed, and its outcome.

use crate::coverage::Coverage;
use crate::options::Options;
use crate::world::{Cluster, Loopback, Machine, Target, World};
use muster_counters::Totals;
use std::cell::RefCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub seed: u64,
    /// The violated rule, if any.
    pub violation: Option<String>,
    /// The last lines of the trace; only after a violation.
    pub last: Vec<String>,
    /// The hash of all lines of the trace.
    pub hash: u64,
    pub steps: u64,
    /// Simulated microseconds.
    pub micros: u64,
    /// The number of times that the server started.
    pub starts: u32,
    /// The number of crash images from which a server was started.
    pub images: u64,
    /// Whether the run ended early, because the server may refuse to start from this disk: a write
    /// was misdirected, or damage was not found before the process ended.
    pub refused: bool,
    pub coverage: Coverage,
    /// The sums of the counters of all shards in processes that have ended.
    pub counters: Totals,
}

impl Outcome {
    /// The outcome of a run that could not begin.
    pub fn failed(seed: u64, error: &io::Error) -> Self {
        Self {
            seed,
            violation: Some(format!("no run: {error}")),
            last: Vec::new(),
            hash: 0,
            steps: 0,
            micros: 0,
            starts: 0,
            images: 0,
            refused: false,
            coverage: Coverage::default(),
            counters: Totals::default(),
        }
    }
}

/// Runs a seed. A panic, of the server or of the simulator, is a violation.
pub fn run(seed: u64, options: Options) -> Outcome {
    let mut world = World::new(seed, options);
    let outcome = finish(seed, &mut world);
    Outcome {
        images: world.images_tried(),
        refused: world.has_refused(),
        counters: world.node().counters().clone(),
        ..outcome
    }
}

/// Runs a seed with a cluster of three nodes.
pub fn run_cluster(seed: u64, options: Options) -> Outcome {
    let mut world = World::<Cluster>::of_cluster(seed, options);
    let outcome = finish(seed, &mut world);
    Outcome { counters: world.node().counters(), ..outcome }
}

/// Runs the clients of a seed against a real server, in real time. The same seed gives the same
/// clients, but not the same run. A panic of the simulator is a violation.
///
/// # Errors
/// The machine gives no directory, no ports, or no sockets.
pub fn run_loopback(seed: u64, target: &Target, options: Options) -> io::Result<Outcome> {
    Ok(finish(seed, &mut World::<Loopback>::of(seed, target, options)?))
}

fn finish<M: Machine>(seed: u64, world: &mut World<M>) -> Outcome {
    listen_to_panics();
    let panicked = catch_unwind(AssertUnwindSafe(|| world.run())).is_err();
    let mut violation = world.sim().violation().map(str::to_owned);
    if panicked {
        let message = PANIC.with(|message| message.borrow_mut().take());
        violation = Some(format!("panic: {}", message.unwrap_or_default()));
    }
    let last = match violation.is_some() {
        true => world.sim().trace().last().map(str::to_owned).collect(),
        false => Vec::new(),
    };
    Outcome {
        seed,
        violation,
        last,
        hash: world.sim().trace().hash(),
        steps: world.sim().steps(),
        micros: world.sim().now(),
        starts: world.node().starts(),
        images: 0,
        refused: false,
        coverage: world.coverage(),
        counters: Totals::default(),
    }
}

thread_local! {
    /// The message of the last panic of this thread, and its place.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps the message of each thread's last panic; prints it only if `RUST_BACKTRACE` is set.
fn listen_to_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            PANIC.with(|message| *message.borrow_mut() = Some(info.to_string()));
            if std::env::var_os("RUST_BACKTRACE").is_some() {
                before(info);
            }
        }));
    });
}
