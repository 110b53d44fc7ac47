//! The functions whose instructions count. They are never inlined, so that callgrind finds them.

use in_memory::Server;
use std::hint::black_box;

/// The bytes of the canary's allocation: those of a small string.
const CANARY_BYTES: usize = 24;

/// A turn, with all that it calls.
#[inline(never)]
pub(crate) fn turn(server: &mut Server) {
    server.turn();
}

/// The same where each request costs one more allocation.
#[inline(never)]
pub(crate) fn turn_of_canary(server: &mut Server) {
    black_box(Vec::<u8>::with_capacity(black_box(CANARY_BYTES)));
    server.turn();
}
