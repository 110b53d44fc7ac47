//! Sends requests of one kind to a server in memory, for callgrind to count what each costs:
//! `benches/instructions/run` runs it, and compares.
//!
//! callgrind counts [`measured::turn`] alone: turns of production's reactor and shard, from the
//! bytes of a request to those of its answer. It does not count the clients and the disk, which
//! work between turns. A request takes as many turns as on a server with nothing else to do: one
//! for its bytes, one for the end of each write, one for the end of the send.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod clients;
mod measured;
mod requests;

use clap::Parser;
use clients::Clients;
use requests::Kind;
use std::thread;

/// As in the server.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Requests before those that count: buffers have their sizes then, and tables their places.
const WARM_UP: u32 = 4 * clients::COUNT;
const COUNTED: u32 = 16 * clients::COUNT;

/// Requests of one kind to a server in memory.
#[derive(Debug, Parser)]
struct Cli {
    /// The kind of the requests; without it their names are printed.
    kind: Option<Kind>,
    /// Has each request cost one more allocation, which `run` must notice.
    #[arg(long)]
    canary: bool,
}

fn main() {
    let Cli { kind, canary } = Cli::parse();
    let Some(kind) = kind else { return Kind::print_all() };
    // Hashes are seeded by addresses of the stack, and that of the main thread begins behind the
    // environment.
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

    /// Each answer is compared with what it should be, without callgrind, too.
    #[test]
    fn all_kinds_of_requests_are_answered() {
        for kind in Kind::value_variants() {
            send(*kind, false);
        }
    }
}
