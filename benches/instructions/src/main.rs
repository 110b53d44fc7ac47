//! Sends requests of one kind to an in-memory server, so that callgrind can count what each costs.
//! `benches/instructions/run` runs this program and compares the results.
//!
//! callgrind counts [`measured::turn`] alone: turns of production's reactor and shard, from the
//! bytes of a request to those of its answer. The clients and the disk work between turns and are
//! not counted. A request takes as many turns as on an otherwise idle server: one for its bytes,
//! one for the end of each write, one for the end of the send.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod clients;
mod measured;
mod requests;

use clap::Parser;
use clients::Clients;
use requests::Kind;
use std::thread;

/// The same allocator as in the server.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The number of requests that are sent before counting starts. They let buffers and tables grow to
/// their final sizes.
const WARM_UP: u32 = 4 * clients::COUNT;
const COUNTED: u32 = 16 * clients::COUNT;

/// Requests of one kind to a server in memory.
#[derive(Debug, Parser)]
struct Cli {
    /// The kind of the requests. Without it the names of all kinds are printed.
    kind: Option<Kind>,
    /// Adds one allocation to each request; `run` must notice it.
    #[arg(long)]
    canary: bool,
}

fn main() {
    let Cli { kind, canary } = Cli::parse();
    let Some(kind) = kind else { return Kind::print_all() };
    // The seeds of hashes depend on stack addresses. The main thread's stack begins below the
    // environment variables, so its address varies with their size. A new thread's does not.
    let counted = thread::spawn(move || send(kind, canary));
    counted.join().unwrap();
    println!("{COUNTED}");
}

fn send(kind: Kind, canary: bool) {
    let mut clients = Clients::new();
    let mut requests = kind.prepare(&mut clients);
    for number in 0..WARM_UP {
        requests.send(&mut clients, number);
    }
    clients.count(canary);
    for number in WARM_UP..WARM_UP + COUNTED {
        requests.send(&mut clients, number);
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, send};
    use clap::ValueEnum;

    /// Checks the answer to each kind of request, without callgrind.
    #[test]
    fn all_kinds_of_requests_are_answered() {
        for kind in Kind::value_variants() {
            send(*kind, false);
        }
    }
}
