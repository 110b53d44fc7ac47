//! A run from the command line to its results.

use std::io::Write;
use std::time::{Duration, SystemTime};

use kafka_protocol::protocol::StrBytes;
use loadgen::check::Found;
use loadgen::driver::command::{Cluster, Target};
use loadgen::measure::Measured;
use loadgen::report::live::{Live, Mode};
use loadgen::report::thresholds::{self, Rule, judge_phase};
use loadgen::report::{model, summary};
use loadgen::scenario::{self, Conductor, Limits, Named, Settings};
use loadgen::{driver, history};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Verdict;
use crate::args::{self, Conduct, Run};
use crate::session::{Played, Session, Tools};
use crate::streams::Streams;

const DEFAULT: &str = "quick";
pub(crate) const TOOL: &str = concat!("muster-load ", env!("CARGO_PKG_VERSION"));

/// # Errors
/// One sentence: bad input, or why the run could not start or continue.
pub(crate) fn run(run: &Run) -> Result<Verdict, String> {
    if run.conduct.repeat < 2 {
        return run_once(run);
    }
    let run = &first_of_several(run);
    let mut verdict = run_once(run)?;
    for repetition in 2..=run.conduct.repeat {
        if verdict == Verdict::Interrupted {
            break;
        }
        let next = Run { outputs: run.outputs.numbered(repetition), ..run.clone() };
        let conduct = Conduct { repetition: Some(repetition), ..run.conduct.clone() };
        verdict = verdict.and(run_once(&Run { conduct, ..next })?);
    }
    Ok(verdict)
}

/// The label is the name by which compare finds the repetitions again.
fn first_of_several(run: &Run) -> Run {
    let mut first = run.clone();
    first.conduct.repetition = Some(1);
    let file = first.outputs.json.as_ref().and_then(|path| path.file_stem());
    let name = file.map(|stem| stem.to_string_lossy().into_owned());
    let label = &mut first.outputs.label;
    *label = label.take().or(name);
    first
}

fn run_once(run: &Run) -> Result<Verdict, String> {
    let source = run.source.as_deref().or(run.scenario.as_deref()).unwrap_or(DEFAULT);
    let named = scenario::load(source, &run.sizes.overrides(), &limits(&run.cluster))
        .map_err(|problem| problem.to_string())?;
    run.outputs.check(source)?;
    finish(run, apart(run, named)?)
}

/// On a thread of its own, which keeps off the CPUs that generate the load; the calling one, from
/// which the next run starts, may use them all.
pub(crate) fn apart(run: &Run, named: Named) -> Result<Ended, String> {
    std::thread::scope(|scope| {
        let playing = scope.spawn(|| play(run, named));
        playing.join().unwrap_or_else(|_| Err("the run panicked".into()))
    })
}

pub(crate) fn limits(cluster: &args::Cluster) -> Limits {
    Limits { members_per_connection: cluster.members_per_connection }
}

/// A run that was played, to its end or not.
pub(crate) struct Ended {
    pub(crate) report: model::Report,
    pub(crate) by_signal: bool,
    /// Why it could not continue.
    broken: Option<String>,
}

impl Ended {
    pub(crate) fn verdict(&self) -> Verdict {
        let report = &self.report;
        match (report.failed(), self.by_signal) {
            // Violations are facts, however late this machine was; other figures are not.
            (true, _) if report.violation_count() > 0 => Verdict::Bad,
            _ if !report.kept_up() => Verdict::CouldNotKeepUp,
            (true, _) => Verdict::Bad,
            (false, true) => Verdict::Interrupted,
            (false, false) => Verdict::Good,
        }
    }

    pub(crate) fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// # Errors
    /// Why the run could not continue.
    pub(crate) fn whole(self) -> Result<Self, String> {
        match self.broken {
            Some(why) => Err(why),
            None => Ok(self),
        }
    }
}

/// Plays a scenario, and makes its report.
///
/// # Errors
/// One sentence: why the run could not start.
fn play(run: &Run, mut named: Named) -> Result<Ended, String> {
    let limits = limits(&run.cluster);
    let server = run.conduct.server_pid.map(server_process).transpose()?;
    let target = target(&run.cluster, run.conduct.seed)?;
    let cores = target.cores.clone();
    driver::ensure_descriptors(connections(&named, &limits), cores.len())?;
    let history = run.outputs.history()?;
    let streams = Streams::of(&run.outputs)?;

    let began = SystemTime::now();
    let driver = driver::start(target)?;
    keep_off(&cores);
    let cluster = driver.cluster();
    let mut notes = named.fit(&cluster.versions).map_err(|problem| problem.to_string())?;
    notes.extend(named.adopt_times(cluster.consumer_times));
    let live = Live::new(Mode::detect(run.outputs.quiet));
    notes.iter().chain(&cluster.warnings).for_each(|note| live.note(note));
    let about = About::of(run, &named, driver.cluster(), began, cores.len());
    let conductor = Conductor::new(named.scenario.clone(), settings(run, &named, began));
    let (scenario, give_up) = (named.name.clone(), run.conduct.give_up);
    let rules: Vec<Rule> =
        named.scenario.thresholds.iter().chain(&run.conduct.threshold).cloned().collect();
    let abort_after = named.scenario.abort_after.map(|after| after.0);
    let abort = run.conduct.abort_after.or(abort_after).map(|after| (after, rules.clone()));
    let tools =
        Tools { driver, conductor, history, live, streams, server, scenario, give_up, abort };
    let played = Session::begin(tools, run.conduct.seed)?.play();
    if let Some(why) = played.not_begun {
        return Err(why);
    }
    let (broken, by_signal) = (played.broken.clone(), played.by_signal);
    let mut report = about.report(played);
    report.thresholds = thresholds::judge(&rules, &report);
    for phase in &named.scenario.phases {
        report.thresholds.extend(judge_phase(&phase.name, &phase.thresholds, &report));
    }
    Ok(Ended { report, by_signal, broken })
}

/// Saves and prints the report.
fn finish(run: &Run, ended: Ended) -> Result<Verdict, String> {
    let report = &ended.report;
    let saved = run.outputs.save(report);
    // A closed pipe must not hide the verdict.
    let print =
        if run.outputs.takes_standard_output() { summary::print_aside } else { summary::print };
    let shown = print(report).and_then(|()| std::io::stdout().flush());
    saved?;
    let ended = ended.whole()?;
    shown.map_err(|error| format!("the summary can't be printed: {error}"))?;
    Ok(ended.verdict())
}

/// The cluster and how to connect to it, as the command line says.
pub(crate) fn target(cluster: &args::Cluster, seed: u64) -> Result<Target, String> {
    let security = cluster.security(std::env::var(args::PASSWORD).ok())?;
    Ok(Target {
        bootstrap: cluster.bootstrap.clone(),
        client_id: StrBytes::from_static_str("muster-load"),
        security,
        connect_timeout: cluster.connect_timeout,
        request_timeout: cluster.request_timeout,
        cores: cores(cluster)?,
        members_per_connection: cluster.members_per_connection,
        seed,
    })
}

fn cores(cluster: &args::Cluster) -> Result<Vec<usize>, String> {
    let ours: Vec<usize> =
        core_affinity::get_core_ids().unwrap_or_default().iter().map(|core| core.id).collect();
    let Some(wanted) = &cluster.cores else {
        let last = ours.iter().max().ok_or("the CPUs of this machine can't be determined")?;
        return Ok(vec![*last]);
    };
    match wanted.0.iter().find(|cpu| !ours.contains(cpu)) {
        Some(cpu) => {
            Err(format!("CPU {cpu} (--cores) does not exist, or this process may not use it"))
        }
        None => Ok(wanted.0.clone()),
    }
}

/// Moves this thread, which does little, off the CPUs that generate the load, unless there is no
/// other CPU.
fn keep_off(cores: &[usize]) {
    let Ok(mut allowed) = sched_getaffinity(None) else { return };
    cores.iter().for_each(|&cpu| allowed.unset(cpu));
    if (0..CpuSet::MAX_CPU).any(|cpu| allowed.is_set(cpu)) {
        // This affects only speed, so an error is ignored.
        let _ = sched_setaffinity(None, &allowed);
    }
}

fn server_process(pid: u32) -> Result<loadgen::measure::process::Process, String> {
    loadgen::measure::process::Process::of(pid)
        .map_err(|error| format!("process {pid} (--server-pid) can't be measured: {error}"))
}

pub(crate) fn connections(named: &Named, limits: &Limits) -> usize {
    let members = named.scenario.groups.iter().map(|group| {
        let each = u64::from(group.members).div_ceil(limits.members_per_connection.into());
        u64::from(group.count) * each
    });
    members.sum::<u64>() as usize
}

fn settings(run: &Run, named: &Named, began: SystemTime) -> Settings {
    Settings {
        run: run_id(began),
        seed: run.conduct.seed,
        duration: run.conduct.duration.unwrap_or(named.scenario.duration.0),
        keep: run.conduct.keep,
    }
}

/// A short id, made from the seconds and the process id, so that two runs hardly share one.
fn run_id(began: SystemTime) -> String {
    let since = began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut rest = since.as_secs() % 36_u64.pow(4) * 1296 + u64::from(std::process::id() % 1296);
    let mut id = String::new();
    while id.len() < 6 {
        id.insert(0, char::from_digit((rest % 36) as u32, 36).unwrap_or('0'));
        rest /= 36;
    }
    id
}

/// The part of the report that describes the run itself.
struct About {
    run: model::Run,
    keep_up: Duration,
}

impl About {
    fn of(run: &Run, named: &Named, cluster: &Cluster, began: SystemTime, cores: usize) -> Self {
        let (scenario, keep_up) = (&named.scenario, run.conduct.keep_up);
        let groups = scenario.groups.iter();
        let run = model::Run {
            tool: TOOL.into(),
            command: command(),
            started_at: humantime::format_rfc3339_seconds(began).to_string(),
            duration_seconds: 0.0,
            interrupted: false,
            seed: run.conduct.seed,
            scenario: named.name.clone(),
            description: scenario.description.clone(),
            bootstrap: run.cluster.bootstrap.join(","),
            cluster_id: cluster.cluster_id.clone(),
            brokers: cluster.brokers.len() as u32,
            label: run.outputs.label.clone(),
            host: host(),
            cores: cores as u32,
            groups: groups.clone().map(|group| group.count).sum(),
            members: groups.map(|group| group.count * group.members).sum(),
            partitions: scenario.topics.iter().map(|topic| topic.count * topic.partitions).sum(),
            repetition: run.conduct.repetition,
            configs: cluster.configs.clone(),
            group_configs: scenario.groups.iter().map(group_configs).collect(),
        };
        Self { run, keep_up }
    }

    fn report(self, played: Played) -> model::Report {
        let Played { measured, found, phases, interrupted, length, .. } = played;
        let Measured {
            rebalances,
            latencies,
            uncorrected,
            phases: _,
            unanswered,
            pauses,
            unowned_partition_seconds,
            members,
            commits,
            errors,
            bytes_sent,
            bytes_received,
            load_generator,
            pace,
            server,
            series,
        } = measured;
        let bound = Some(self.keep_up.as_secs_f64() * 1e3);
        let Found { violations, omitted, .. } = found;
        model::Report {
            format: model::FORMAT,
            run: model::Run { duration_seconds: length.seconds(), interrupted, ..self.run },
            phases,
            rebalances,
            latencies,
            uncorrected,
            unanswered,
            pauses,
            unowned_partition_seconds,
            members,
            commits,
            errors,
            bytes_sent,
            bytes_received,
            load_generator,
            pace: model::Pace { bound, ..pace },
            server,
            series,
            violations,
            violations_omitted: omitted,
            thresholds: Vec::new(),
        }
    }
}

fn group_configs(group: &scenario::Group) -> model::GroupConfigs {
    let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
    model::GroupConfigs {
        name: group.name.clone(),
        protocol: group.protocol.name().into(),
        assignors: group.assignor.0.clone(),
        session_timeout: millis(group.session_timeout.0),
        heartbeat_interval: millis(group.heartbeat_interval.0),
    }
}

/// The arguments of the command line, without a password.
pub(crate) fn command() -> Vec<String> {
    let mut words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    for at in 0..words.len() {
        if words[at].starts_with("--password=") {
            words[at] = "--password=...".into();
        } else if words[at] == "--password" && at + 1 < words.len() {
            words[at + 1] = "...".into();
        }
    }
    words
}

pub(crate) fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "unknown".into(),
        name => name.into(),
    }
}

/// The first line of a history.
pub(crate) fn history_header(scenario: String, seed: u64) -> history::Header {
    history::Header::Run(history::Run {
        format: history::FORMAT,
        tool: TOOL.into(),
        scenario,
        seed,
    })
}
