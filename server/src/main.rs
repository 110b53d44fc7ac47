//! `muster`: the server.

fn main() {}
