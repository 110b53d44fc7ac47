//! `muster-bench`: what a server of the Kafka protocol answers to heartbeats or commits in a
//! closed loop, and what that costs it.

mod driver;
mod exchange;
mod process;
mod report;
mod setup;
mod wire;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};

use driver::Driver;
use exchange::Exchange;
use process::{CpuSeconds, core_busy_seconds, resident_bytes};
use report::{Report, ServerUse};
use setup::Member;
use wire::{Caller, Result};

/// Sends one kind of request in a closed loop, one in flight on each connection, and checks every
/// answer. Exits with 1 if there was any error.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// What is sent
    #[arg(long, value_enum)]
    mode: Mode,
    /// Which frame an echo server gets
    #[arg(long, value_enum, default_value = "heartbeat")]
    frame: Frame,
    /// HOST:PORT of the server; for Kafka's protocol any broker of the cluster
    #[arg(long)]
    target: String,
    /// Number of connections, each with a group of its own
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=999_999))]
    connections: u32,
    /// Seconds that are measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Seconds before that, with the same load
    #[arg(long, default_value_t = 2)]
    warmup: u32,
    /// Process whose CPU time and memory are reported
    #[arg(long)]
    server_pid: Option<u32>,
    /// Core to which the server is pinned, whose busy time is reported as well
    #[arg(long, requires = "server_pid")]
    server_core: Option<u32>,
    /// Report in JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    /// Heartbeat v4 of a member of a classic group
    Heartbeat,
    /// OffsetCommit v9 of one partition by a member of a classic group
    Commit,
    /// Frames that the server sends back as they are
    Echo,
}

#[derive(Clone, Copy, ValueEnum)]
enum Frame {
    Heartbeat,
    Commit,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(report) => {
            let text = if args.json { report.json().to_string() } else { report.text() };
            println!("{text}");
            if let Some(error) = &report.tally.first_error {
                eprintln!("muster-bench: {} errors, the first: {error}", report.tally.errors);
            }
            ExitCode::from(u8::from(report.tally.errors > 0))
        }
        Err(error) => {
            eprintln!("muster-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<Report> {
    muster_uring::raise_open_files()?;
    let mut driver = Driver::new(connect(args)?)?;
    driver.start()?;
    driver.run_until(Instant::now() + Duration::from_secs(args.warmup.into()))?;
    let warmup_errors = driver.take_tally()?;
    let mut report = measure(&mut driver, args)?;
    driver.drain()?;
    report.tally.add_errors(warmup_errors);
    report.tally.add_errors(driver.take_tally()?);
    if report.tally.errors == 0 {
        check_commits(&driver)?;
    }
    Ok(report)
}

fn connect(args: &Args) -> Result<Vec<(Exchange, TcpStream)>> {
    let count = args.connections as usize;
    let members = match args.mode {
        Mode::Heartbeat | Mode::Commit => setup::join_groups(&args.target, count)?,
        Mode::Echo => (0..count)
            .map(|index| Ok((Member::made_up(index), TcpStream::connect(&args.target)?)))
            .collect::<Result<_>>()?,
    };
    let exchange = match (args.mode, args.frame) {
        (Mode::Heartbeat, _) => Exchange::heartbeat,
        (Mode::Commit, _) => Exchange::commit,
        (Mode::Echo, Frame::Heartbeat) => Exchange::echo_heartbeat,
        (Mode::Echo, Frame::Commit) => Exchange::echo_commit,
    };
    members.into_iter().map(|(member, stream)| Ok((exchange(&member)?, stream))).collect()
}

fn measure(driver: &mut Driver, args: &Args) -> Result<Report> {
    let client = CpuSeconds::of(std::process::id())?;
    let server = ServerMeter::read(args)?;
    let start = Instant::now();
    driver.run_until(start + Duration::from_secs(args.seconds.into()))?;
    let seconds = start.elapsed().as_secs_f64();
    let server = server.map(|before| before.used_until_now()).transpose()?;
    let client = CpuSeconds::of(std::process::id())? - client;
    let mode = match (args.mode, args.frame) {
        (Mode::Heartbeat, _) => "heartbeat",
        (Mode::Commit, _) => "commit",
        (Mode::Echo, Frame::Heartbeat) => "echo of heartbeats",
        (Mode::Echo, Frame::Commit) => "echo of commits",
    };
    let connections = args.connections as usize;
    let tally = driver.take_tally()?;
    Ok(Report { mode: mode.into(), connections, seconds, tally, client, server })
}

/// What the server had used before the window.
struct ServerMeter {
    pid: u32,
    cpu: CpuSeconds,
    /// Its core, and in how many seconds that was busy.
    core: Option<(u32, f64)>,
}

impl ServerMeter {
    fn read(args: &Args) -> Result<Option<Self>> {
        let Some(pid) = args.server_pid else { return Ok(None) };
        let core = match args.server_core {
            Some(core) => Some((core, core_busy_seconds(core)?)),
            None => None,
        };
        Ok(Some(Self { pid, cpu: CpuSeconds::of(pid)?, core }))
    }

    fn used_until_now(&self) -> Result<ServerUse> {
        let core = match self.core {
            Some((core, before)) => Some(core_busy_seconds(core)? - before),
            None => None,
        };
        let cpu = CpuSeconds::of(self.pid)? - self.cpu;
        let resident_bytes = resident_bytes(self.pid)?;
        Ok(ServerUse { cpu, core_busy_seconds: core, resident_bytes })
    }
}

/// What was acknowledged must be what the server has.
fn check_commits(driver: &Driver) -> Result<()> {
    let mut callers = BTreeMap::new();
    for (peer, exchange) in driver.exchanges() {
        let Some((group, offset)) = exchange.committed() else { continue };
        let caller = match callers.entry(peer) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Caller::connect(peer)?),
        };
        setup::check_committed(caller, group, offset)?;
    }
    Ok(())
}
