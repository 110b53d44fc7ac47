//! Memory that is counted: what a body grants is all that the code under test may take.

use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// What the harness around may take meanwhile, in another thread.
const NOISE_BYTES: usize = 64 << 10;

/// Does `work` and holds it to so much memory, at its peak, beyond what was in use before.
pub(crate) fn within<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let (result, peak) = peak_of(work);
    assert!(peak <= bytes + NOISE_BYTES, "{peak} bytes of memory where {bytes} are granted");
    result
}

/// Does `work`, and tells how much memory it took at its peak, beyond what was in use before.
pub(crate) fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let result = work();
    (result, MEMORY.peak_usage().saturating_sub(before))
}
