//! `muster cluster`: asks a running cluster how its nodes are.
//!
//! - `client`: a connection to a broker.
//! - `gather`: asks the leaders of all quorums.
//! - `standing`: the answers, by nodes. Pure.

#![forbid(unsafe_code)]

mod client;
mod gather;
mod standing;

use clap::Subcommand;
use gather::gather;
use standing::Standing;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Print the nodes, and whether any one of them may be lost.
    ///
    /// Ends with 0 if every node has all that is committed, with 1 if not or if the cluster cannot
    /// be asked. The user needs DESCRIBE on the cluster and on the topic __consumer_offsets.
    Status {
        /// A broker of the cluster, on a PLAINTEXT listener.
        #[arg(long, value_name = "HOST:PORT")]
        bootstrap_server: String,
        /// Wait until every node has all that is committed, at most this number of seconds.
        #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "300")]
        wait: Option<u64>,
    },
}

/// The time between two questions of `--wait`.
const PAUSE: Duration = Duration::from_millis(500);

/// Without `--wait`, leaders that change are looked for this long.
const PATIENCE: Duration = Duration::from_secs(3);

pub fn run(command: ClusterCommand) -> ExitCode {
    let ClusterCommand::Status { bootstrap_server, wait } = command;
    match status(&bootstrap_server, wait.map(Duration::from_secs)) {
        Ok(standing) => {
            print!("{standing}");
            if standing.may_lose_any() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("muster: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Asks until the answer is final: all leaders have answered or, with `wait`, every node is in
/// step.
fn status(bootstrap: &str, wait: Option<Duration>) -> Result<Standing, String> {
    let (began, patience) = (Instant::now(), wait.unwrap_or(PATIENCE));
    loop {
        let found = gather(bootstrap);
        let is_final = found.as_ref().is_ok_and(|it| match wait {
            Some(_) => it.may_lose_any(),
            None => it.is_complete(),
        });
        if is_final || began.elapsed() >= patience {
            return found;
        }
        sleep(PAUSE);
    }
}
