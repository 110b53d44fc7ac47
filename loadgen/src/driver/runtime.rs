//! The runtime of a core: one thread with its tasks and sockets. It waits for sockets with epoll or
//! the like. So it works where io_uring is missing or forbidden, as in containers.

use std::cell::RefCell;
use std::future::Future;
use std::panic::resume_unwind;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::task::JoinSet;

use super::cpus;

pub(super) struct Runtime(LocalRuntime);

impl Runtime {
    /// # Errors
    /// The error is a sentence for the user.
    pub(super) fn new() -> Result<Self, String> {
        let runtime =
            Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        runtime.map(Self).map_err(|error| format!("no load core can be started: {error}"))
    }

    /// A runtime whose thread is bound to this CPU.
    /// # Errors
    /// The error is a sentence for the user.
    pub(super) fn pinned(cpu: usize) -> Result<Self, String> {
        cpus::pin(cpu)?;
        Self::new()
    }

    /// Runs `main`. Tasks that it starts run until `main` ends.
    pub(super) fn run<T>(self, main: impl Future<Output = T>) -> T {
        let result = self.0.block_on(main);
        // Does not wait for a name lookup that is still under way.
        self.0.shutdown_background();
        result
    }
}

/// The tasks besides the main one.
#[derive(Default)]
pub(super) struct Tasks(RefCell<JoinSet<()>>);

impl Tasks {
    /// Starts a task, which has its first turn after the current one.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.0.borrow_mut().spawn_local(task);
    }

    /// Forgets tasks that have ended. Panics if one of them panicked, because it may have left
    /// shared state half changed.
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
