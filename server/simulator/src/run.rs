//! One seed, from its beginning to what came of it.

use crate::coverage::Coverage;
use crate::plant::Plant;
use crate::world::World;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

/// What to run.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub plant: Option<Plant>,
    /// More steps than that are a violation.
    pub steps_max: u64,
    /// The number of changes of the disk from one occasion to the next at which a start is tried
    /// from all the states in which a crash may leave the disk; never if it is zero.
    pub images_every: u64,
    /// Whether every line of the trace is printed.
    pub prints: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { plant: None, steps_max: 20_000_000, images_every: 0, prints: false }
    }
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub seed: u64,
    /// What must not be and was, if anything.
    pub violation: Option<String>,
    /// The last lines of the trace; only after a violation.
    pub last: Vec<String>,
    /// Of all lines of the trace.
    pub hash: u64,
    pub steps: u64,
    /// Simulated microseconds.
    pub micros: u64,
    /// How often the server started.
    pub starts: u32,
    /// How many crash images were started from.
    pub images: u64,
    /// A start was refused for a write that had gone astray: that ends a run, and is as it should
    /// be.
    pub refused: bool,
    pub coverage: Coverage,
}

/// Runs a seed. A panic, of the server or of the simulator, is a violation.
pub fn run(seed: u64, options: Options) -> Outcome {
    listen_to_panics();
    let mut world = World::new(seed, options);
    let panicked = catch_unwind(AssertUnwindSafe(|| world.run())).is_err();
    let mut violation = world.violation.take();
    if panicked {
        let told = PANIC.with(|told| told.borrow_mut().take());
        violation = Some(format!("panic: {}", told.unwrap_or_default()));
    }
    let last = match violation.is_some() {
        true => world.trace.last().map(str::to_owned).collect(),
        false => Vec::new(),
    };
    Outcome {
        seed,
        violation,
        last,
        hash: world.trace.hash(),
        steps: world.steps(),
        micros: world.queue.now(),
        starts: world.process.life,
        images: world.images.tried,
        refused: world.refused,
        coverage: world.take_coverage(),
    }
}

thread_local! {
    /// What the last panic of this thread said, and where.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps what panics of runs say instead of printing it; those of other threads are printed.
fn listen_to_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            PANIC.with(|told| *told.borrow_mut() = Some(info.to_string()));
            if std::env::var_os("RUST_BACKTRACE").is_some() {
                before(info);
            }
        }));
    });
}
