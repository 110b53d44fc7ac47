//! `muster-load`: simulated group members against any Kafka-compatible cluster.

#![forbid(unsafe_code)]

mod args;
mod cleaning;
mod outage;
mod outputs;
mod run;
mod session;
mod steps;
mod streams;

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use loadgen::check;
use loadgen::fleet::worker;
use loadgen::report::compare::{self, Runs};
use loadgen::report::html;
use loadgen::scenario::{BUILT_IN, built_in};

use self::args::{Command, CommandLine, Echo, Run, Serve};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The result of a command that was executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Good,
    /// A threshold was broken, a phase did not finish, or the coordinator violated a guarantee.
    Bad,
    /// The load machine was too slow, so the figures do not describe the cluster.
    CouldNotKeepUp,
    /// A machine that generated load was lost.
    LostAWorker,
    /// A signal ended the run. Nothing had failed until then.
    Interrupted,
}

const COULD_NOT_KEEP_UP: u8 = 3;
const LOST_A_WORKER: u8 = 4;

impl Verdict {
    /// The verdict on several runs, which is the worst of them.
    const fn and(self, next: Self) -> Self {
        match (self, next) {
            (Self::Bad, _) | (_, Self::Bad) => Self::Bad,
            (Self::LostAWorker, _) | (_, Self::LostAWorker) => Self::LostAWorker,
            (Self::CouldNotKeepUp, _) | (_, Self::CouldNotKeepUp) => Self::CouldNotKeepUp,
            (Self::Interrupted, _) | (_, Self::Interrupted) => Self::Interrupted,
            (Self::Good, Self::Good) => Self::Good,
        }
    }

    /// The verdict, although a result could not be written or printed, or a later run failed.
    ///
    /// # Errors
    /// The verdict is good. A bad verdict is not hidden by the error, which is only printed.
    fn despite(self, done: Result<(), String>) -> Result<Self, String> {
        match (self, done) {
            (verdict, Ok(())) => Ok(verdict),
            (Self::Good, Err(why)) => Err(why),
            (verdict, Err(why)) => {
                eprintln!("muster-load: {why}");
                Ok(verdict)
            }
        }
    }
}

/// The exit status of a run that SIGINT ended. Shells report this number for such a process.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let line = CommandLine::parse();
    let done = match line.command {
        None => run_or_show(&line.run),
        Some(Command::Run(run)) => run_or_show(&run),
        Some(Command::Check { file }) => check_history(&file),
        Some(Command::Compare { files, html }) => compare_results(&files, html.as_deref()),
        Some(Command::Capacity(capacity)) => steps::capacity(&capacity),
        Some(Command::Clean(wanted)) => cleaning::clean(&wanted),
        Some(Command::Serve(wanted)) => serve(&wanted),
        Some(Command::Echo(echo)) => measure_echo(&echo),
    };
    match done {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::from(1),
        Ok(Verdict::CouldNotKeepUp) => ExitCode::from(COULD_NOT_KEEP_UP),
        Ok(Verdict::LostAWorker) => ExitCode::from(LOST_A_WORKER),
        Ok(Verdict::Interrupted) => ExitCode::from(INTERRUPTED),
        Err(sentence) => {
            eprintln!("muster-load: {sentence}");
            ExitCode::from(2)
        }
    }
}

fn run_or_show(run: &Run) -> Result<Verdict, String> {
    if run.list {
        let width = BUILT_IN.iter().map(|scenario| scenario.name.len()).max().unwrap_or_default();
        for scenario in BUILT_IN {
            print(&format!("{:width$}  {}\n", scenario.name, scenario.description()))?;
        }
        return Ok(Verdict::Good);
    }
    if let Some(name) = &run.show {
        let scenario = built_in(name)
            .ok_or_else(|| format!("no scenario is called {name}; --list shows what there is"))?;
        print(scenario.toml)?;
        return Ok(Verdict::Good);
    }
    run::run(run)
}

fn check_history(file: &Path) -> Result<Verdict, String> {
    let checked = check::check_file(file).map_err(|error| error.to_string())?;
    for violation in &checked.found.violations {
        print(&format!(
            "{}: {} ({:.3} s): {}\n",
            violation.rule, violation.group, violation.at, violation.what
        ))?;
        for event in &violation.events {
            print(&format!("    {event}\n"))?;
        }
    }
    let violations = checked.found.violations.len() as u64 + checked.found.omitted;
    if checked.cut_off {
        print("The last line is cut off: the run was ended while it was being written.\n")?;
    }
    let (groups, events) = (checked.groups, checked.events);
    print(&format!("{events} events of {groups} groups, {violations} violations\n"))?;
    Ok(if violations == 0 { Verdict::Good } else { Verdict::Bad })
}

fn compare_results(files: &[PathBuf], page: Option<&Path>) -> Result<Verdict, String> {
    if let Some(page) = page {
        for file in files {
            outputs::apart(&[("a result", file.as_path()), ("--html", page)])?;
        }
    }
    let runs = Runs::load(files).map_err(|error| error.to_string())?;
    compare::print(&runs).map_err(|error| format!("the table can't be printed: {error}"))?;
    if let Some(page) = page {
        html::save_comparison(&runs, page).map_err(|error| error.to_string())?;
    }
    Ok(Verdict::Good)
}

/// Generates load for other machines, until a signal ends it.
fn serve(wanted: &Serve) -> Result<Verdict, String> {
    let failed = |error: std::io::Error| format!("no worker on {}: {error}", wanted.listen);
    let listener = TcpListener::bind(&wanted.listen).map_err(failed)?;
    print(&format!("serves on {}\n", listener.local_addr().map_err(failed)?))?;
    let target = || run::target(&wanted.cluster, 1);
    // Wrong settings are reported now, and not only when the first run comes.
    target()?;
    worker::serve(&listener, &run::host(), target, |note| eprintln!("muster-load: {note}"))?;
    Ok(Verdict::Good)
}

fn measure_echo(echo: &Echo) -> Result<Verdict, String> {
    let target = run::target(&echo.cluster, 1)?;
    loadgen::driver::ensure_descriptors(echo.connections * target.cores.len(), target.cores.len())?;
    let cores = target.cores.len();
    let seconds = echo.duration.as_secs().max(1);
    let result = loadgen::driver::echo(target, echo.connections, echo.in_flight, seconds)?;
    let millis = |quantile| result.latency.value_at_quantile(quantile) as f64 / 1000.0;
    print(&format!(
        "{:.0} heartbeats a second on {cores} cores, {:.2} us of CPU each; \
         p50 {:.3} ms, p99 {:.3} ms, max {:.3} ms\n",
        result.per_second(),
        result.cpu.as_secs_f64() * 1e6 / result.heartbeats.max(1) as f64,
        millis(0.5),
        millis(0.99),
        result.latency.max() as f64 / 1000.0,
    ))?;
    Ok(Verdict::Good)
}

/// Prints a text. Unlike `print!`, it returns an error if the pipe was closed, and does not panic.
fn print(text: &str) -> Result<(), String> {
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(|error| format!("nothing can be written to standard output: {error}"))
}
