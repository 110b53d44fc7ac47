//! The executors of the cores, and why there may be none.

use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use glommio::{LocalExecutor, LocalExecutorBuilder, Placement};

/// The depth of the rings. The kernel keeps the pending polls of thousands of connections in a hash
/// table whose size follows from it; this depth makes it the largest.
const RING_DEPTH: usize = 4096;
/// Buffers that glommio registers with the kernel for files; sockets need none.
const IO_MEMORY: usize = 64 << 10;

const FORBIDDEN: &str = "io_uring is forbidden here: by a seccomp profile, as Docker's (allow \
                         io_uring_setup, io_uring_enter and io_uring_register, or use \
                         seccomp=unconfined), by kernel.io_uring_disabled, or by a kernel before \
                         5.8";

/// # Errors
/// One sentence: io_uring is forbidden, or has too little memory.
pub(super) fn executor(placement: Placement) -> Result<LocalExecutor, String> {
    if !ring_is_allowed() {
        return Err(FORBIDDEN.into());
    }
    make(placement.clone()).map_err(|error| no_executor(&placement, &error))
}

fn make(placement: Placement) -> Result<LocalExecutor, String> {
    let builder = LocalExecutorBuilder::new(placement);
    let made = builder.ring_depth(RING_DEPTH).io_memory(IO_MEMORY).make();
    made.map_err(|error| error.to_string())
}

/// glommio panics where io_uring is forbidden. That is tried once, without the message of the
/// panic: the hook that prints it belongs to the whole process.
fn ring_is_allowed() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(|_| {}));
        let made = catch_unwind(AssertUnwindSafe(|| drop(make(Placement::Unbound))));
        panic::set_hook(hook);
        made.is_ok()
    })
}

fn no_executor(placement: &Placement, error: &str) -> String {
    if let Some((limit, needed)) = locked_memory(error) {
        return format!(
            "locked memory is limited to {limit} KiB, and io_uring needs {needed} KiB: raise it \
             (ulimit -l {needed}, --ulimit memlock= of Docker, LimitMEMLOCK= of systemd)"
        );
    }
    match placement {
        Placement::Fixed(cpu) => format!("no executor on CPU {cpu} (io_uring): {error}"),
        _ => format!("no executor (io_uring): {error}"),
    }
}

/// The limit and the need, in KiB, of `MemLockLimit(65536/524288)`.
fn locked_memory(error: &str) -> Option<(u64, u64)> {
    let (_, numbers) = error.split_once("MemLockLimit(")?;
    let (limit, needed) = numbers.strip_suffix(')')?.split_once('/')?;
    let kib = |bytes: &str| bytes.parse::<u64>().ok().map(|bytes| bytes.div_ceil(1024));
    kib(limit).zip(kib(needed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_locked_memory_is_a_sentence_with_the_cure() {
        let error = "IO error occurred: MemLockLimit(65536/524288)";
        let sentence = no_executor(&Placement::Fixed(3), error);
        let expected = "locked memory is limited to 64 KiB, and io_uring needs 512 KiB: raise it \
                        (ulimit -l 512, ";
        assert!(sentence.starts_with(expected), "{sentence}");
        let other = no_executor(&Placement::Fixed(3), "no such CPU");
        assert_eq!(other, "no executor on CPU 3 (io_uring): no such CPU");
    }
}
