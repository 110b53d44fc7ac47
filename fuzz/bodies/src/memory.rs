//! Memory limits for the code under test, checked by an allocator that counts.

use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Memory that the test harness may take in another thread during a measurement.
const NOISE_BYTES: usize = 64 << 10;

/// Runs `work`. Panics if its peak of memory in use, less the memory in use before, exceeds
/// `bytes`.
pub(crate) fn within<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let (result, peak) = peak_of(work);
    assert!(peak <= bytes + NOISE_BYTES, "{peak} bytes of memory where {bytes} are granted");
    result
}

/// Runs `work`. Also returns its peak of memory in use, less the memory in use before.
pub(crate) fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let result = work();
    (result, MEMORY.peak_usage().saturating_sub(before))
}
