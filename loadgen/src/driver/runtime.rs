//! The runtime of a core: one thread, its tasks and its sockets. It asks nothing of the system but
//! to poll, so that it works where io_uring is forbidden, as in containers, or missing.

use std::cell::RefCell;
use std::future::Future;
use std::panic::resume_unwind;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::task::JoinSet;

use super::cpus;

pub(super) struct Runtime(LocalRuntime);

impl Runtime {
    /// # Errors
    /// A sentence for the user.
    pub(super) fn new() -> Result<Self, String> {
        let runtime =
            Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        runtime.map(Self).map_err(|error| format!("no load core can be started: {error}"))
    }

    /// Binds the calling thread to this CPU as well.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(super) fn pinned(cpu: usize) -> Result<Self, String> {
        cpus::pin(cpu)?;
        Self::new()
    }

    /// Runs `main`, and the tasks that it starts as long as it runs.
    pub(super) fn run<T>(self, main: impl Future<Output = T>) -> T {
        let result = self.0.block_on(main);
        // Does not wait for a name that is still being resolved.
        self.0.shutdown_background();
        result
    }
}

/// The tasks beside the main one.
#[derive(Default)]
pub(super) struct Tasks(RefCell<JoinSet<()>>);

impl Tasks {
    /// Starts a task, which has its first turn after the current one.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.0.borrow_mut().spawn_local(task);
    }

    /// Forgets tasks that have ended. If one has panicked, so does the caller: it may have left
    /// what it shares with the others half changed.
    pub(super) fn join_ended(&self) {
        while let Some(ended) = self.0.borrow_mut().try_join_next() {
            if let Err(error) = ended {
                resume_unwind(error.into_panic());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use tokio::task::yield_now;

    use super::*;

    #[test]
    fn a_task_that_panics_ends_the_main_one() {
        let main = async {
            let tasks = Tasks::default();
            tasks.spawn(async { panic!("on purpose") });
            loop {
                yield_now().await;
                tasks.join_ended();
            }
        };
        let run = AssertUnwindSafe(|| Runtime::new().unwrap().run::<()>(main));
        let panicked = catch_unwind(run).unwrap_err();
        assert_eq!(panicked.downcast_ref(), Some(&"on purpose"));
    }
}
