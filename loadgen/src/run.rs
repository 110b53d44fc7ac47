//! A run from the command line to its results.

use std::io::Write;
use std::sync::Arc;
use std::sync::Once;
use std::time::{Duration, SystemTime};

use loadgen::check::Found;
use loadgen::client::Clients;
use loadgen::driver;
use loadgen::driver::command::Target;
use loadgen::fleet::{self, Begin, Engine};
use loadgen::measure::Measured;
use loadgen::report::live::{Live, Mode};
use loadgen::report::otlp::Resource;
use loadgen::report::thresholds::{self, Rule, judge_phase};
use loadgen::report::{model, summary};
use loadgen::scenario::{self, Conductor, Limits, Named, Settings};

use crate::Verdict;
use crate::args::{self, Conduct, Run, SECRETS, Secrets};
use crate::outputs::TOOL;
use crate::session::{Played, Session, Tools};
use crate::streams::Streams;

const DEFAULT: &str = "quick";

/// # Errors
/// Bad input, or the run could not start or continue. The error is a sentence for the user.
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
        match run_once(&Run { conduct, ..next }) {
            Ok(next) => verdict = verdict.and(next),
            Err(why) => return verdict.despite(Err(why)),
        }
    }
    Ok(verdict)
}

/// Prepares the first run of `--repeat`. It gives the run a label, which all repetitions share, so
/// that `compare` recognises them.
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

/// Runs on a new thread. This thread is kept off the CPUs that generate the load, but the calling
/// thread is not: the load cores of the next run must be able to use all CPUs.
pub(crate) fn apart(run: &Run, named: Named) -> Result<Ended, String> {
    std::thread::scope(|scope| {
        let playing = scope.spawn(|| play(run, named));
        playing.join().unwrap_or_else(|_| Err("the run panicked".into()))
    })
}

pub(crate) fn limits(cluster: &args::Cluster) -> Limits {
    Limits { members_per_connection: cluster.members_per_connection }
}

/// A run that was played, completely or not.
pub(crate) struct Ended {
    pub(crate) report: model::Report,
    pub(crate) by_signal: bool,
    /// Why the run could not continue.
    broken: Option<String>,
    lost_a_worker: bool,
}

impl Ended {
    pub(crate) fn verdict(&self) -> Verdict {
        let report = &self.report;
        match (report.failed(), self.by_signal) {
            // A violation counts even if the load machine was too slow. All other failures may then
            // be the machine's fault.
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
    /// The run could not continue. The error is the reason.
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
/// The run could not start. The error is a sentence for the user.
fn play(run: &Run, mut named: Named) -> Result<Ended, String> {
    let limits = limits(&run.cluster);
    let server = run.conduct.server_pid.map(server_process).transpose()?;
    let connections = connections(&named, &limits);
    let history = run.outputs.history()?;

    let began = SystemTime::now();
    let streams = Streams::of(&run.outputs, resource(run, &named, began))?;
    let (engine, bootstrap) = if run.conduct.workers.is_empty() {
        here(run, connections)?
    } else {
        on_workers(run, &named, connections)?
    };
    let cluster = engine.cluster();
    let mut notes = named.fit(&cluster.versions).map_err(|problem| problem.to_string())?;
    notes.extend(named.adopt_times(cluster));
    let live = Live::new(Mode::detect(run.outputs.quiet));
    notes.iter().chain(&cluster.warnings).for_each(|note| live.note(note));
    let about = About::of(run, &named, &engine, bootstrap, began);
    let conductor = Conductor::new(named.scenario.clone(), settings(run, &named, began));
    let (scenario, give_up) = (named.name.clone(), run.conduct.give_up);
    let rules: Vec<Rule> =
        named.scenario.thresholds.iter().chain(&run.conduct.threshold).cloned().collect();
    let abort_after = named.scenario.abort_after.map(|after| after.0);
    let abort = run.conduct.abort_after.or(abort_after).map(|after| (after, rules.clone()));
    let tools = Tools {
        engine,
        conductor,
        clients: Clients::new(about.run.bootstrap.clone()),
        history,
        live,
        streams,
        server,
        scenario,
        about: about.run.clone(),
        give_up,
        abort,
    };
    let played = Session::begin(tools, run.conduct.seed)?.play();
    if let Some(why) = played.not_begun {
        return Err(why);
    }
    let (broken, by_signal) = (played.broken.clone(), played.by_signal);
    let lost_a_worker = played.lost_a_worker;
    let mut report = about.report(played);
    report.thresholds = thresholds::judge(&rules, &report);
    for phase in &named.scenario.phases {
        report.thresholds.extend(judge_phase(&phase.name, &phase.thresholds, &report));
    }
    Ok(Ended { report, by_signal, broken, lost_a_worker })
}

/// The resource of the pushed metrics.
fn resource(run: &Run, named: &Named, began: SystemTime) -> Resource {
    Resource {
        version: env!("CARGO_PKG_VERSION").into(),
        scenario: named.name.clone(),
        label: run.outputs.label.clone(),
        host: host(),
        began,
    }
}

/// The cores of this machine, and the servers to which they connect.
fn here(run: &Run, connections: usize) -> Result<(Engine, Vec<String>), String> {
    let target = target(&run.cluster, run.conduct.seed)?;
    let (cores, bootstrap) = (target.cores.clone(), target.bootstrap.clone());
    driver::ensure_descriptors(connections, cores.len())?;
    let driver = driver::start(target)?;
    driver::keep_off(&cores);
    Ok((Engine::Here(driver), bootstrap))
}

/// The cores of the workers, and the servers to which they connect.
fn on_workers(
    run: &Run,
    named: &Named,
    connections: usize,
) -> Result<(Engine, Vec<String>), String> {
    let groups = named.scenario.groups.iter();
    let members = groups.map(|group| u64::from(group.count) * u64::from(group.members)).sum();
    let whole = |number: u64| u32::try_from(number).map_err(|_| "there are too many members");
    let begin = Begin {
        seed: run.conduct.seed,
        members_per_connection: run.cluster.members_per_connection,
        members: whole(members)?,
        connections: whole(connections as u64)?,
    };
    let (fleet, bootstrap) = fleet::start(&run.conduct.workers, &begin)?;
    Ok((Engine::Workers(fleet), bootstrap))
}

/// Saves and prints the report.
fn finish(run: &Run, ended: Ended) -> Result<Verdict, String> {
    let report = &ended.report;
    let saved = run.outputs.save(report);
    let print =
        if run.outputs.takes_standard_output() { summary::print_aside } else { summary::print };
    let shown = print(report).and_then(|()| std::io::stdout().flush());
    let shown = shown.map_err(|error| format!("the summary can't be printed: {error}"));
    let written = saved.and(shown);
    if let Some(why) = ended.broken().filter(|_| ended.lost_a_worker) {
        eprintln!("muster-load: {why}");
        return Verdict::LostAWorker.despite(written);
    }
    ended.whole()?.verdict().despite(written)
}

/// The cluster and the way to connect to it, from the command line.
pub(crate) fn target(cluster: &args::Cluster, seed: u64) -> Result<Target, String> {
    static NOTED: Once = Once::new();
    let (security, notes) = cluster.security(Secrets::of_environment())?;
    // Notes are printed once, not in each of several runs.
    NOTED.call_once(|| notes.iter().for_each(|note| eprintln!("muster-load: {note}")));
    Ok(Target {
        bootstrap: cluster.bootstrap.clone(),
        client_id: Arc::from("muster-load"),
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

fn server_process(pid: u32) -> Result<loadgen::measure::process::Process, String> {
    loadgen::measure::process::Process::of(pid)
        .map_err(|error| format!("process {pid} (--server-pid) can't be measured: {error}"))
}

pub(crate) fn connections(named: &Named, limits: &Limits) -> usize {
    let members = named.scenario.groups.iter().map(|group| {
        let each = u64::from(group.members).div_ceil(limits.members_per_connection.into());
        u64::from(group.count) * each * connections_each(group)
    });
    members.sum::<u64>() as usize
}

/// The number of connections that each member needs. For a producer or reader it is an estimate,
/// because the number of brokers that lead its partitions is not known yet.
fn connections_each(group: &scenario::Group) -> u64 {
    if group.is_group() { 1 } else { 4 }
}

fn settings(run: &Run, named: &Named, began: SystemTime) -> Settings {
    Settings {
        run: run_id(began),
        seed: run.conduct.seed,
        duration: run.conduct.duration.unwrap_or(named.scenario.duration.0),
        began: began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
        keep: run.conduct.keep,
    }
}

/// A short id for the run, made from the time in seconds and the process id. So two runs hardly
/// ever get the same id.
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
    fn of(
        run: &Run,
        named: &Named,
        engine: &Engine,
        bootstrap: Vec<String>,
        began: SystemTime,
    ) -> Self {
        let (scenario, keep_up) = (&named.scenario, run.conduct.keep_up);
        let (cluster, workers) = (engine.cluster(), engine.workers());
        let hosts = workers.iter().map(|worker| worker.host.clone());
        let hosts = if workers.is_empty() { vec![host()] } else { hosts.collect() };
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
            bootstrap: bootstrap.join(","),
            cluster_id: cluster.cluster_id.clone(),
            brokers: cluster.brokers.len() as u32,
            label: run.outputs.label.clone(),
            host: hosts.join(", "),
            cores: engine.cores() as u32,
            groups: groups.clone().filter(|table| table.is_group()).map(|group| group.count).sum(),
            members: groups
                .clone()
                .filter(|table| table.is_group())
                .map(|it| it.count * it.members)
                .sum(),
            producers: groups.filter(|it| it.producer.is_some()).map(|it| it.members).sum(),
            partitions: scenario.topics.iter().map(|topic| topic.count * topic.partitions).sum(),
            repetition: run.conduct.repetition,
            configs: cluster.configs.clone(),
            group_configs: scenario.groups.iter().map(group_configs).collect(),
            workers: workers.iter().map(described).collect(),
        };
        Self { run, keep_up }
    }

    fn report(self, played: Played) -> model::Report {
        let Played { measured, found, phases, interrupted, length, .. } = played;
        let Measured {
            rebalances,
            disruptions,
            latencies,
            undelayed,
            uncorrected,
            phases: _,
            unanswered,
            pauses,
            unowned_partition_seconds,
            members,
            commits,
            transactions,
            shares,
            consumed,
            clients,
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
            disruptions,
            latencies,
            undelayed,
            uncorrected,
            unanswered,
            pauses,
            unowned_partition_seconds,
            members,
            commits,
            transactions,
            shares,
            consumed,
            clients,
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

fn described(worker: &fleet::Worker) -> model::Worker {
    model::Worker {
        address: worker.address.clone(),
        host: worker.host.clone(),
        cores: worker.cores as u32,
        clock_error: worker.clock_error.as_secs_f64() * 1e3,
    }
}

fn protocol_in_words(group: &scenario::Group) -> String {
    let version = group.producer.as_ref().filter(|it| it.transactional);
    let version = version.and_then(|producer| producer.transaction_version);
    let version = version.map(|version| format!(", transaction version {version}"));
    group.protocol.name().to_owned() + &version.unwrap_or_default()
}

fn group_configs(group: &scenario::Group) -> model::GroupConfigs {
    // Producers and readers have no session.
    let membership = if group.is_group() { 1.0 } else { 0.0 };
    let millis = |duration: Duration| duration.as_secs_f64() * 1e3 * membership;
    model::GroupConfigs {
        name: group.name.clone(),
        protocol: protocol_in_words(group),
        assignors: group.assignor.0.clone(),
        session_timeout: millis(group.session_timeout.0),
        heartbeat_interval: millis(group.heartbeat_interval.0),
    }
}

/// The arguments of the command line, without secrets.
pub(crate) fn command() -> Vec<String> {
    without_secrets(std::env::args_os().map(|word| word.to_string_lossy().into_owned()))
}

fn without_secrets(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut words: Vec<String> = words.collect();
    for at in 0..words.len() {
        let option = words[at].split('=').next().unwrap_or_default().to_owned();
        if !SECRETS.contains(&option.as_str()) {
            continue;
        }
        if option.len() < words[at].len() {
            words[at] = format!("{option}=...");
        } else if at + 1 < words.len() {
            words[at + 1] = "...".into();
        }
    }
    words
}

pub(crate) fn host() -> String {
    match rustix::system::uname().nodename().to_string_lossy() {
        name if name.is_empty() => "unknown".into(),
        name => name.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_in_the_report() {
        let line = "quick --password a --oauth-token=b --username password --oauth-client-secret c";
        let shown = without_secrets(line.split(' ').map(str::to_owned)).join(" ");
        assert_eq!(
            shown,
            "quick --password ... --oauth-token=... --username password --oauth-client-secret ..."
        );
    }
}
