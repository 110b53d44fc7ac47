//! See `peers::run` in the crate `muster-fuzz-bodies`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| muster_fuzz_bodies::peers::run(input));
