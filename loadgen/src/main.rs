//! `muster-load`: simulated group members against any Kafka-compatible cluster.

use std::process::ExitCode;

fn main() -> ExitCode {
    eprintln!("muster-load simulates nothing yet; benches/run measures heartbeats and commits");
    ExitCode::from(2)
}
