//! `capacity`: makes a run for each size that the search tries. It stops when the search ends, or
//! when the machine that generates the load is the limit.

use std::time::SystemTime;

use loadgen::capacity::{Load, Search, scenario};
use loadgen::driver;
use loadgen::measure::process::available_memory;
use loadgen::report::capacity::{self, By, Capacity, End, Figure, Step, Used};
use loadgen::report::files::save_json;
use loadgen::report::html;
use loadgen::report::model::{Report, Usage};
use loadgen::report::thresholds::Rule;
use loadgen::scenario::Named;

use crate::Verdict;
use crate::args::{self, Outputs, Part, Run};
use crate::outputs::{TOOL, apart, can_be_written};
use crate::run;

/// The rules if there is no `--threshold`.
const RULES: [&str; 2] = ["heartbeat.p99 < 50ms", "rebalance.max < 30s"];
/// The share of the available memory that a step may use.
const MEMORY_SHARE: f64 = 0.8;

/// # Errors
/// Bad input, or a step could not start, or the result could not be written. The error is a
/// sentence for the user.
pub(crate) fn capacity(wanted: &args::Capacity) -> Result<Verdict, String> {
    let outputs = &wanted.outputs;
    let files = [("--json", &outputs.json), ("--html", &outputs.html)];
    let files = files.iter().filter_map(|(name, path)| Some((*name, path.as_deref()?)));
    let files: Vec<_> = files.collect();
    apart(&files)?;
    files.iter().try_for_each(|(_, path)| can_be_written(path))?;

    let found = Climb::new(wanted)?.climb()?;
    let json = outputs.json.as_ref().map(|path| save_json(&found, path));
    let page = outputs.html.as_ref().map(|path| html::save_capacity(&found, path));
    let failed = [json, page].into_iter().flatten().find_map(Result::err);
    let shown = capacity::print(&found);
    let shown = shown.map_err(|error| format!("the answer can't be printed: {error}"));
    let written = failed.map_or(shown, |error| Err(error.to_string()));
    let verdict = match (&found.end, found.holds) {
        (End::Machine(_), _) => Verdict::CouldNotKeepUp,
        (End::Interrupted, _) => Verdict::Interrupted,
        (End::Found | End::AllHeld, Some(_)) => Verdict::Good,
        (End::Found | End::AllHeld, None) => Verdict::Bad,
    };
    verdict.despite(written)
}

struct Climb<'a> {
    wanted: &'a args::Capacity,
    by: By,
    load: Load,
    rules: Vec<Rule>,
    search: Search,
    steps: Vec<Step>,
}

impl<'a> Climb<'a> {
    fn new(wanted: &'a args::Capacity) -> Result<Self, String> {
        let by = match wanted.by {
            Part::Members => By::Members,
            Part::Groups => By::Groups,
            Part::Commits => By::Commits,
            Part::Partitions => By::Partitions,
        };
        if !(0.0..=100.0).contains(&wanted.precision) {
            return Err("--precision is a share from 0 to 100 percent".into());
        }
        let members = if by == By::Groups { 4 } else { 100 };
        let load = Load {
            protocol: wanted.protocol.clone(),
            members: wanted.members.unwrap_or(members),
            groups: wanted.groups,
            partitions: wanted.partitions,
            commits: wanted.commits,
            lasts: wanted.lasts,
            forms_within: wanted.forms_within,
        };
        let search = Search::new(wanted.from, wanted.to, wanted.precision / 100.0);
        Ok(Self { wanted, by, load, rules: rules(wanted)?, search, steps: Vec::new() })
    }

    fn climb(mut self) -> Result<Capacity, String> {
        let began = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let end = loop {
            let Some(size) = self.search.next() else {
                let all = self.search.breaks().is_none();
                break if all { End::AllHeld } else { End::Found };
            };
            if let Some(end) = self.try_size(size)? {
                break end;
            }
        };
        Ok(Capacity {
            format: capacity::FORMAT,
            tool: TOOL.into(),
            command: run::command(),
            started_at: began,
            bootstrap: self.wanted.cluster.bootstrap.join(","),
            host: run::host(),
            label: self.wanted.outputs.label.clone(),
            protocol: self.wanted.protocol.clone(),
            by: self.by,
            steps: self.steps,
            holds: self.search.holds(),
            breaks: self.search.breaks(),
            end,
        })
    }

    /// Tries a size as often as needed. Returns why the search ends here, or `None` if it
    /// continues.
    fn try_size(&mut self, size: u64) -> Result<Option<End>, String> {
        let load = self.load.of_size(self.by, size);
        let limits = run::limits(&self.wanted.cluster);
        let named = scenario(&load, &limits).map_err(|problem| problem.to_string())?;
        if let Some(why) = self.too_large(size, &named) {
            return Ok(Some(End::Machine(why)));
        }
        let mut held = false;
        for _ in 0..self.wanted.tries {
            let Some(step) = self.step(size, &load, named.clone())? else {
                return Ok(Some(End::Interrupted));
            };
            let (kept_up, by) = (step.kept_up, self.by.name());
            held = step.held;
            if !self.wanted.outputs.quiet {
                eprintln!("{}", capacity::step_in_words(by, &step));
            }
            self.steps.push(step);
            if !kept_up {
                let why = format!("this machine could not keep up with {size} {by}");
                return Ok(Some(End::Machine(why)));
            }
            if held {
                break;
            }
        }
        self.search.tried(size, held);
        Ok(None)
    }

    /// Why a step of this size may be too large for the machine: it has too few file descriptors,
    /// or too little memory. `None` if the step fits.
    fn too_large(&self, size: u64, named: &Named) -> Option<String> {
        let limits = run::limits(&self.wanted.cluster);
        let cores = self.wanted.cluster.cores.as_ref().map_or(1, |cores| cores.0.len());
        let connections = run::connections(named, &limits);
        if let Err(why) = driver::ensure_descriptors(connections, cores) {
            return Some(why);
        }
        let largest = self.steps.iter().max_by_key(|step| step.size)?;
        let growth = size as f64 / largest.size as f64;
        let server = largest.server.map_or(0, |server| server.memory_bytes);
        let needed = (largest.load.memory_bytes + server) as f64 * growth;
        let available = available_memory()? as f64;
        (growth > 1.0 && needed > available * MEMORY_SHARE)
            .then(|| format!("this machine has too little memory for {size} {}", self.by.name()))
    }

    /// Runs and judges a step. `None` if a signal ended the run.
    fn step(&self, size: u64, load: &Load, named: Named) -> Result<Option<Step>, String> {
        let run = self.run();
        let ended = run::apart(&run, named)?;
        if ended.by_signal {
            return Ok(None);
        }
        // A run that lost the cluster counts as a size that did not hold.
        let gone = ended.broken().map(str::to_owned);
        Ok(Some(judged(&self.rules, size, load, &ended.report, gone)))
    }

    fn run(&self) -> Run {
        let outputs = Outputs { quiet: true, ..Outputs::default() };
        Run {
            source: None,
            scenario: None,
            list: false,
            show: None,
            cluster: self.wanted.cluster.clone(),
            sizes: args::Sizes::default(),
            conduct: args::Conduct { threshold: Vec::new(), ..self.wanted.conduct.clone() },
            outputs,
        }
    }
}

/// The rules of the search. Rules on heartbeats apply to the heartbeats of the group's protocol.
fn rules(wanted: &args::Capacity) -> Result<Vec<Rule>, String> {
    let written: Vec<String> = match &wanted.conduct.threshold[..] {
        [] => RULES.map(String::from).into(),
        rules => rules.iter().map(ToString::to_string).collect(),
    };
    let of_protocol = |rule: &String| match rule.strip_prefix("heartbeat.") {
        Some(rest) if wanted.protocol == "consumer" => format!("consumer-heartbeat.{rest}"),
        _ => rule.clone(),
    };
    let rules = written.iter().map(|rule| of_protocol(rule).parse::<Rule>());
    rules.map(|rule| rule.map_err(|error| error.to_string())).collect()
}

/// Judges a step. Rules on requests apply to the time after the groups have formed, others to the
/// whole step.
fn judged(rules: &[Rule], size: u64, load: &Load, report: &Report, gone: Option<String>) -> Step {
    let steady = report.phases.iter().find(|phase| phase.name == "steady");
    let steady = steady.map(|phase| report.of_phase(phase));
    let of = |rule: &Rule| {
        let steady = steady.as_ref().filter(|_| rule.is_of_requests());
        let judged = rule.judge(steady.unwrap_or(report));
        let value = rule.measure(steady.unwrap_or(report));
        let (rule, is_duration) = (rule.to_string(), rule.is_duration());
        Figure { rule, is_duration, value, shown: judged.measured, held: judged.held }
    };
    let rules: Vec<Figure> = rules.iter().map(of).collect();
    let problems = report.phases.iter().filter_map(|phase| phase.problem.clone());
    let mut problems: Vec<String> = problems.chain(gone).collect();
    match report.violation_count() {
        0 => {}
        count => problems.push(format!("{count} violations of the protocol")),
    }
    let seconds = report.run.duration_seconds;
    Step {
        size,
        members: load.members * load.groups,
        groups: load.groups,
        partitions: load.partitions(),
        seconds,
        held: problems.is_empty() && rules.iter().all(|figure| figure.held),
        kept_up: report.kept_up(),
        rules,
        problems,
        server: report.server.as_ref().map(|server| used(server, seconds)),
        load: used(&report.load_generator, seconds),
        lateness: report.pace.late.p99,
    }
}

fn used(usage: &Usage, seconds: f64) -> Used {
    let cores = if seconds > 0.0 { usage.cpu_seconds / seconds } else { 0.0 };
    Used { cores, memory_bytes: usage.memory_bytes_max }
}
