//! `simulator`: runs seeds on all cores. For a seed that finds a violation, prints the seed and the
//! command that replays it.

#![forbid(unsafe_code)]

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use muster_faults::Fault;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use simulator::coverage::{Coverage, Seen};
use simulator::{Options, Outcome, Target, run, run_cluster, run_loopback};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Runs muster in a simulated world, from seeds.
#[derive(Debug, Parser)]
#[command(name = "simulator", version)]
struct Cli {
    #[command(subcommand)]
    server: Option<Server>,
    /// The number of seeds to run.
    #[arg(long, global = true, value_name = "N", default_value_t = 1000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, global = true, value_name = "SEED", default_value_t = 0)]
    start: u64,
    /// Replays one seed, and prints all that happens in it.
    #[arg(long, global = true, value_name = "SEED", conflicts_with_all = ["seeds", "start"])]
    seed: Option<u64>,
    /// More steps than this in one run are a violation.
    #[arg(long, global = true, value_name = "N", default_value_t = 20_000_000)]
    steps: u64,
    /// The number of threads; one for each core if it is not given, and 16 for real servers.
    #[arg(long, global = true, value_name = "N")]
    threads: Option<usize>,
    /// Continues after a violation, and lists all seeds that find one.
    #[arg(long, global = true)]
    keep_going: bool,
    /// Starts a server from each state in which a crash may leave the disk, at each change of the
    /// disk, or at each N-th.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1")]
    crash_images: Option<u64>,
    /// Injects a fault. The run fails if no check finds the fault.
    #[arg(long, value_name = "NAME", value_parser = fault)]
    fault: Option<Fault>,
    /// Runs clusters of three nodes.
    #[arg(long)]
    cluster: bool,
    /// Lists the faults that can be injected.
    #[arg(long)]
    list_faults: bool,
}

#[derive(Debug, Subcommand)]
enum Server {
    /// Has the clients of the seeds talk to real servers over loopback, in real time.
    Loopback(Loopback),
}

#[derive(Debug, Args)]
struct Loopback {
    /// How the servers do I/O.
    #[arg(long, value_name = "io_uring|poll")]
    driver: String,
    /// The binary of the server [default: `muster` beside this program].
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
}

impl Cli {
    fn run(&self, seed: u64, options: Options) -> Outcome {
        let Some(Server::Loopback(loopback)) = &self.server else {
            return if self.cluster { run_cluster(seed, options) } else { run(seed, options) };
        };
        let beside = || std::env::current_exe().map(|path| path.with_file_name("muster"));
        let ran = loopback.server.clone().map_or_else(beside, Ok).and_then(|server| {
            let target = Target { server, driver: loopback.driver.clone() };
            run_loopback(seed, &target, options)
        });
        ran.unwrap_or_else(|error| Outcome::failed(seed, &error))
    }

    /// The number of threads. With real servers it is higher, because the threads mostly wait.
    fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let default = || if self.server.is_some() { LOOPBACK_THREADS } else { cores() };
        self.threads.unwrap_or_else(default).max(1)
    }

    /// The arguments of the runs, to replay one of them.
    fn arguments(&self) -> String {
        match &self.server {
            Some(Server::Loopback(Loopback { driver, server })) => {
                let server = server.as_ref().map(|path| format!("--server {} ", path.display()));
                format!("loopback --driver {driver} {}", server.unwrap_or_default())
            }
            None if self.cluster => "--cluster ".to_owned(),
            None => String::new(),
        }
    }
}

const LOOPBACK_THREADS: usize = 16;

fn fault(name: &str) -> Result<Fault, String> {
    let names = || Vec::from_iter(Fault::ALL.iter().map(Fault::to_string)).join(", ");
    Fault::named(name).ok_or_else(|| format!("the faults are {}", names()))
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let real = cli.server.is_some();
    let reason = match () {
        () if real && (cli.crash_images.is_some() || cli.fault.is_some()) => {
            Some("--crash-images and --fault need a simulated server")
        }
        () if cli.cluster && (real || cli.crash_images.is_some()) => {
            Some("--cluster has neither real servers nor crash images")
        }
        () => None,
    };
    if let Some(reason) = reason {
        Cli::command().error(ErrorKind::ArgumentConflict, reason).exit();
    }
    if cli.list_faults {
        Fault::ALL.iter().for_each(|fault| println!("{fault}"));
        return ExitCode::SUCCESS;
    }
    if let Some(Err(reason)) = cli.fault.map(Fault::inject) {
        eprintln!("{reason}");
        return ExitCode::FAILURE;
    }
    if let Some(seed) = cli.seed {
        let options = Options { prints: true, ..options(&cli) };
        let outcome = cli.run(seed, options);
        println!("{}", summary(&outcome));
        println!("it had {}", outcome.coverage);
        println!("its shards counted {}", outcome.counters);
        return exit_code(&cli, u64::from(outcome.violation.is_some()));
    }
    let totals = match run_all(&cli) {
        Ok(totals) => totals,
        Err(error) => {
            eprintln!("could not handle signals: {error}");
            return ExitCode::FAILURE;
        }
    };
    if totals.violations == 0 && totals.runs < cli.seeds {
        println!("a signal stopped it after {} of {} seeds", totals.runs, cli.seeds);
        return ExitCode::FAILURE;
    }
    let is_enough = totals.runs >= ENOUGH_RUNS && cli.fault.is_none() && !real && !cli.cluster;
    match is_enough && never_came(&cli, &totals.coverage) {
        true => ExitCode::FAILURE,
        false => exit_code(&cli, totals.violations),
    }
}

/// In this number of runs each coverage mark is reached, except those of [`Seen::is_chance`]. The
/// rarest of the other marks is reached by three of 2,000 runs.
const ENOUGH_RUNS: u64 = 5_000;

/// Reports the marks that were never reached: the runs prove nothing about these places.
fn never_came(cli: &Cli, coverage: &Coverage) -> bool {
    let missing = coverage.missing().filter(|seen| !seen.is_chance());
    let missing = missing.filter(|seen| !seen.is_of_clusters());
    let missing = missing.filter(|seen| cli.crash_images.is_some() || !seen.is_of_images());
    let missing: Vec<&str> = missing.map(Seen::text).collect();
    if !missing.is_empty() {
        println!("there were no {}", missing.join(", no "));
    }
    !missing.is_empty()
}

/// Returns success if no violation was found. With an injected fault a violation must be found.
fn exit_code(cli: &Cli, violations: u64) -> ExitCode {
    match (violations > 0) == cli.fault.is_some() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn options(cli: &Cli) -> Options {
    let images_every = cli.crash_images.unwrap_or(0);
    Options { fault: cli.fault, steps_max: cli.steps, images_every, prints: false }
}

/// The state that all threads share.
struct Shared {
    next: AtomicU64,
    end: u64,
    /// Whether to run no more seeds after the seeds under way.
    stop: Arc<AtomicBool>,
    totals: Mutex<Totals>,
    bar: ProgressBar,
}

#[derive(Debug, Default)]
struct Totals {
    runs: u64,
    steps: u64,
    micros: u64,
    starts: u64,
    images: u64,
    refused: u64,
    violations: u64,
    coverage: Coverage,
}

/// # Errors
/// The signals cannot be handled.
fn run_all(cli: &Cli) -> io::Result<Totals> {
    let style = "{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left{msg}";
    let style =
        ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
    let shared = Shared {
        next: AtomicU64::new(cli.start),
        end: cli.start.saturating_add(cli.seeds),
        stop: stopped_by_signals()?,
        totals: Mutex::default(),
        bar: ProgressBar::new(cli.seeds).with_style(style),
    };
    shared.bar.enable_steady_tick(Duration::from_millis(200));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..cli.threads() {
            scope.spawn(|| work(cli, &shared));
        }
    });
    shared.bar.finish_and_clear();
    let totals = shared.totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    report(cli, &totals, began.elapsed());
    Ok(totals)
}

/// A flag that the first SIGINT or SIGTERM sets. Then the running seeds end together with their
/// servers, and the results so far are reported. A second signal ends the process at once.
fn stopped_by_signals() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_default(signal, Arc::clone(&stop))?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

fn work(cli: &Cli, shared: &Shared) {
    while !shared.stop.load(Ordering::Relaxed) {
        let seed = shared.next.fetch_add(1, Ordering::Relaxed);
        if seed >= shared.end {
            break;
        }
        let outcome = cli.run(seed, options(cli));
        shared.bar.inc(1);
        let mut totals = shared.totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.runs += 1;
        totals.steps += outcome.steps;
        totals.micros += outcome.micros;
        totals.starts += u64::from(outcome.starts);
        totals.images += outcome.images;
        totals.refused += u64::from(outcome.refused);
        totals.coverage += &outcome.coverage;
        if outcome.violation.is_some() {
            totals.violations += 1;
            if totals.violations == 1 || cli.keep_going {
                shared.bar.suspend(|| report_violation(cli, &outcome, totals.violations == 1));
            }
            shared.stop.store(!cli.keep_going, Ordering::Relaxed);
        }
    }
}

/// Reports a violation: the last events, and the command that replays it.
fn report_violation(cli: &Cli, outcome: &Outcome, in_full: bool) {
    const LINES: usize = 40;
    if in_full {
        let skipped = outcome.last.len().saturating_sub(LINES);
        outcome.last.iter().skip(skipped).for_each(|line| println!("{line}"));
    }
    println!("{}", summary(outcome));
    let fault = cli.fault.map(|fault| format!(" --fault {fault}")).unwrap_or_default();
    let images = cli.crash_images.map(|every| format!(" --crash-images {every}"));
    let images = images.unwrap_or_default();
    let features =
        if cfg!(feature = "injected-faults") { " --features injected-faults" } else { "" };
    let profile = if cfg!(debug_assertions) { "" } else { " --release" };
    println!(
        "replay: cargo run{profile} -p simulator{features} -- {}--seed {}{fault}{images}",
        cli.arguments(),
        outcome.seed
    );
}

fn summary(outcome: &Outcome) -> String {
    let Outcome { seed, violation, hash, steps, micros, starts, refused, .. } = outcome;
    let came = match violation {
        Some(violation) => format!("VIOLATION: {violation}"),
        None if *refused => "ended early: the disk had lost too much".to_owned(),
        None => "no violation".to_owned(),
    };
    let seconds = *micros as f64 / 1e6;
    format!("seed {seed}: {came} ({steps} steps, {seconds:.1} s, {starts} starts, {hash:016x})")
}

fn report(cli: &Cli, totals: &Totals, took: Duration) {
    let Totals { runs, steps, micros, starts, images, refused, violations, coverage } = totals;
    let seconds = took.as_secs_f64().max(1e-9);
    println!(
        "{runs} seeds from {} in {seconds:.1} s ({:.1} a second): {steps} steps, {:.1} simulated \
         hours, {starts} starts, {images} crash images, {refused} ended early, {violations} \
         violations",
        cli.start,
        *runs as f64 / seconds,
        *micros as f64 / 3.6e9,
    );
    println!("it had {coverage}");
}
