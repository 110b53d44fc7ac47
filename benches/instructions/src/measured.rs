//! The functions that callgrind counts. They are never inlined, so that callgrind finds them by
//! name.

use in_memory::Server;
use std::hint::black_box;

/// The size of the canary (an extra allocation, which `run` must notice): that of a small string.
const CANARY_BYTES: usize = 24;

/// Runs one turn, with everything that it calls.
#[inline(never)]
pub(crate) fn turn(server: &mut Server) {
    server.turn();
}

/// Like [`turn`], with one more allocation.
#[inline(never)]
pub(crate) fn turn_of_canary(server: &mut Server) {
    black_box(Vec::<u8>::with_capacity(black_box(CANARY_BYTES)));
    server.turn();
}
