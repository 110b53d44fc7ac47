//! `muster-load`: simulated group members against any Kafka-compatible cluster. Not written yet: its
//! place in the workspace is kept, and who runs it is told so.

use std::process::ExitCode;

fn main() -> ExitCode {
    eprintln!("muster-load simulates nothing yet; benches/run measures heartbeats and commits");
    ExitCode::from(2)
}
