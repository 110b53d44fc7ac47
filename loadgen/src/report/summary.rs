//! The tables at the end of a run. They are as wide as the terminal.

mod tables;

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use self::tables::{table, trimmed};
use super::model::{Latency, Phase, Rebalance, Report, Threshold, Transactions, Usage, Violation};
use super::pace::{BLURRED, Figure, Marked, could_not_keep_up, pace};
use super::phases;
use super::rebalances::{Kind, by_kind, disruption_times, distribution, made_of};
use super::text::{
    Paint, bytes, clock, columns, count, counted, group_name, members_in_words, millis, named,
    number, plain, shortened, wrapped,
};

const LABEL: usize = 14;
/// If there are more rebalances than this, they are summarised by trigger.
const REBALANCES_SINGLY: usize = 12;
/// The maximum number of sentences about waits that are shown.
const WAITS: usize = 6;
/// The maximum number of entries that are shown of a long list. The result file has all.
const LIST: usize = 10;

/// Writes the summary to standard output.
///
/// # Errors
///
/// Writing to standard output fails.
pub fn print(report: &Report) -> io::Result<()> {
    print_to(&mut io::stdout().lock(), report)
}

/// Writes the summary to standard error.
///
/// # Errors
///
/// Writing to standard error fails.
pub fn print_aside(report: &Report) -> io::Result<()> {
    print_to(&mut io::stderr().lock(), report)
}

fn print_to(output: &mut (impl Write + IsTerminal + AsFd), report: &Report) -> io::Result<()> {
    let width = columns(output);
    output.write_all(render(report, Paint::of(output), width).as_bytes())
}

pub(super) fn render(report: &Report, paint: Paint, width: usize) -> String {
    let mut sections = vec![head(report, paint, width)];
    if !report.disruptions.is_empty() {
        let rebalances = rebalances(report, width);
        sections.push(format!("{}\n{rebalances}", paint.bold("Rebalances")));
    }
    sections.push(format!("{}\n{}", paint.bold("Times"), times(report, width)));
    if let Some(phases) = phases_in_lines(report, width) {
        sections.push(format!("{}\n{phases}", paint.bold("Phases")));
    }
    sections.push(facts(report, paint, width));
    if !report.thresholds.is_empty() {
        sections.push(thresholds(&report.thresholds, paint));
    }
    if !report.violations.is_empty() {
        sections.push(violations(report, paint, width));
    }
    sections.push(verdict(report, paint, width));
    sections.join("\n\n") + "\n"
}

fn head(report: &Report, paint: Paint, width: usize) -> String {
    let run = &report.run;
    let name = run.label.as_ref().map_or(String::new(), |label| format!(" ({})", plain(label)));
    let cluster =
        run.cluster_id.as_ref().map_or(String::new(), |id| format!(", cluster {}", plain(id)));
    let title = format!("{}{name}", plain(&run.scenario));
    let interrupted = if run.interrupted { ", interrupted" } else { "" };
    let facts = [
        plain(&run.description),
        format!(
            "{}, {} partitions; {}{cluster}",
            members_in_words(run),
            count(run.partitions.into()),
            counted(run.brokers.into(), "broker"),
        ),
        format!(
            "{}, took {}{interrupted}; seed {}; {} of {}",
            plain(&run.started_at),
            clock(run.duration_seconds),
            run.seed,
            counted(run.cores.into(), "core"),
            plain(&run.host),
        ),
    ];
    let first =
        format!("{}: {} against {}", plain(&run.tool), paint.bold(&title), plain(&run.bootstrap));
    let facts = facts.iter().flat_map(|fact| wrapped(fact, width));
    [first].into_iter().chain(facts).collect::<Vec<_>>().join("\n")
}

fn rebalances(report: &Report, width: usize) -> String {
    let rebalances = &report.disruptions;
    if rebalances.len() > REBALANCES_SINGLY {
        return rebalance_kinds(rebalances, width);
    }
    let mut table =
        table(&["group", "trigger", "at", "took", "since sign", "members", "moved", "revoked"], 2);
    for rebalance in rebalances {
        table.add_row([
            group_name(&rebalance.group, 24),
            shortened(&plain(&rebalance.trigger), 24),
            clock(rebalance.began),
            took(rebalance.took),
            rebalance.took_since_detected.map_or(String::new(), millis),
            count(rebalance.members.into()),
            count(rebalance.moved.into()),
            count(rebalance.revoked.into()),
        ]);
    }
    let mut shown = trimmed(table, &["revoked", "moved", "members"], width);
    shown += &notes(&waits(report), width);
    if rebalances.iter().any(|r| r.took_since_detected.is_some()) {
        let note = "since sign: from the coordinator's first sign of the loss; before it the \
                    session timeout runs";
        shown +=
            &wrapped(note, width - 2).iter().map(|line| format!("\n  {line}")).collect::<String>();
    }
    shown
}

/// Sentences that explain which waits the configuration adds to the times of disruptions. Each
/// sentence is returned once, and at most [`WAITS`] are.
fn waits(report: &Report) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for rebalance in &report.disruptions {
        let role = named(&rebalance.group);
        let sentence = made_of(rebalance, &report.run);
        let sentence = sentence.map(|wait| format!("{} of {}: {wait}", rebalance.trigger, role));
        let sentence = sentence.map(|sentence| plain(&sentence));
        all.extend(sentence.filter(|sentence| !all.contains(sentence)));
    }
    all.truncate(WAITS);
    all
}

fn notes(notes: &[String], width: usize) -> String {
    let lines = notes.iter().flat_map(|note| wrapped(note, width - 2));
    lines.map(|line| format!("\n  {line}")).collect()
}

fn took(took: Option<f64>) -> String {
    took.map_or("not settled".into(), millis)
}

fn rebalance_kinds(rebalances: &[Rebalance], width: usize) -> String {
    let head =
        ["trigger", "rebalances", "groups", "p50", "p90", "p99", "max", "not settled", "moved"];
    let mut table = table(&head, 1);
    let kinds = by_kind(rebalances);
    for kind in kinds.iter().take(LIST) {
        let Kind { name, count: rebalances, groups, unsettled, moved, .. } = kind;
        let [p50, p90, p99, max] = kind.times();
        table.add_row([
            shortened(&plain(name), 24),
            count(*rebalances),
            count(*groups),
            p50,
            p90,
            p99,
            max,
            count(*unsettled),
            count(*moved),
        ]);
    }
    let more = kinds.len().saturating_sub(LIST);
    let shown = trimmed(table, &["moved", "p90", "groups", "p99"], width);
    if more > 0 { format!("{shown}\n  and {more} other kinds") } else { shown }
}

/// All distributions in one table, for comparison.
fn times(report: &Report, width: usize) -> String {
    let head = ["", "count", "mean", "p50", "p90", "p99", "p99.9", "max", "sent p50", "sent p99"];
    let mut table = table(&head, 1);
    let rebalances = distribution(&report.rebalances);
    let disruptions = disruption_times(report);
    let rows = [
        ("rebalance", &rebalances),
        ("disruption", &disruptions),
        ("pause of a member", &report.pauses),
    ];
    let round_trips = report.latencies.iter().map(|(name, latency)| (name.as_str(), latency));
    for (name, latency) in rows.into_iter().chain(round_trips).filter(|(_, l)| l.count > 0) {
        table.add_row(time_row(report, name, latency));
    }
    let shown = trimmed(table, &["p90", "mean", "p99.9", "sent p50", "count", "sent p99"], width);
    let sent = "sent: from the sending of a request that was answered; the others count from when \
                it was due, answered or not";
    let own = format!("{BLURRED}: a tenth or more can be this machine's own, which was late");
    let notes = [(shown.contains("sent p99"), sent), (shown.contains(BLURRED), &own)];
    let notes = notes.into_iter().filter(|(is_there, _)| *is_there);
    let lines = notes.flat_map(|(_, note)| wrapped(note, width - 2));
    shown + &lines.map(|line| format!("\n  {line}")).collect::<String>()
}

fn time_row(report: &Report, name: &str, latency: &Latency) -> [String; 10] {
    let [mean, p50, p90, p99, p999, max] = Marked::new(report, name, latency).all();
    let sent = Marked::as_sent(report, name);
    let as_sent = |figure: Figure| sent.as_ref().map_or(String::new(), |sent| sent.one(figure));
    let [sent_p50, sent_p99] = [as_sent(|l| l.p50), as_sent(|l| l.p99)];
    let (name, count) = (shortened(&plain(name), 24), count(latency.count));
    [name, count, mean, p50, p90, p99, p999, max, sent_p50, sent_p99]
}

/// The table of phases: for each phase, its costs for the members.
fn phases_in_lines(report: &Report, width: usize) -> Option<String> {
    let columns = phases::columns(report);
    if report.phases.is_empty() {
        return None;
    }
    let heads = columns.iter().map(|column| column.head);
    let mut table = table(&Vec::from_iter([""].into_iter().chain(heads)), 1);
    for phase in report.phases.iter().take(LIST) {
        let name = shortened(&plain(&phase.name), 24);
        table.add_row([name].into_iter().chain(columns.iter().map(|it| it.shown(report, phase))));
    }
    let shown = trimmed(table, phases::SPARE, width);
    let more = report.phases.len().saturating_sub(LIST);
    Some(if more > 0 { format!("{shown}\n  and {more} more") } else { shown })
}

/// A labelled fact of the summary.
struct Fact {
    label: &'static str,
    text: String,
    /// Whether the fact is highlighted.
    warm: bool,
}

impl Fact {
    fn new(label: &'static str, text: String) -> Self {
        Self { label, text, warm: false }
    }

    fn warm(label: &'static str, text: String) -> Self {
        Self { label, text, warm: true }
    }
}

fn facts(report: &Report, paint: Paint, width: usize) -> String {
    let unowned = format!("{} partition-seconds", number(report.unowned_partition_seconds));
    let mut facts = vec![
        Fact::new("without owner", unowned),
        Fact::new("members", members(report)),
        Fact::new("commits", commits(report)),
    ];
    facts.extend(transactions(report).map(|text| Fact::new("transactions", text)));
    facts.extend(shares(report).map(|text| Fact::new("records", text)));
    facts.extend(consumed(report).map(|text| Fact::new("records", text)));
    facts.extend(clients(report).into_iter().map(|client| Fact::new("clients", client)));
    facts.extend(unanswered(report).map(|text| Fact::warm("never answered", text)));
    facts.extend(errors(report).into_iter().map(|error| Fact::new("errors", error)));
    let failed = failed(report).into_iter();
    facts.extend(failed.map(|member| Fact::warm("failed", member)));
    facts.push(Fact::new(
        "traffic",
        format!("{} sent, {} received", bytes(report.bytes_sent), bytes(report.bytes_received)),
    ));
    let seconds = report.run.duration_seconds;
    let each = match report.members.memory_bytes_each {
        0 => String::new(),
        each => format!(", {} a member", bytes(each)),
    };
    facts.push(Fact::new("muster-load", usage(&report.load_generator, seconds) + &each));
    facts.extend(pace(report).into_iter().map(|text| Fact::new("own pace", text)));
    facts.extend(report.server.as_ref().map(|server| Fact::new("server", usage(server, seconds))));
    facts.extend(of_phases("problem", report, |phase| phase.problem.as_slice()));
    facts.extend(of_phases("warning", report, |phase| &phase.warnings));
    labelled(&facts, paint, width)
}

/// Turns the first [`LIST`] sentences about phases into facts. If there are more, a last fact says
/// how many.
fn of_phases(label: &'static str, report: &Report, of: fn(&Phase) -> &[String]) -> Vec<Fact> {
    let said = report.phases.iter().flat_map(|phase| of(phase).iter().map(move |s| (phase, s)));
    let shown = said
        .clone()
        .take(LIST)
        .map(|(phase, sentence)| format!("phase {}: {}", plain(&phase.name), plain(sentence)));
    let more = said.count().saturating_sub(LIST);
    let rest = (more > 0).then(|| format!("and {more} more"));
    shown.chain(rest).map(|text| Fact::warm(label, text)).collect()
}

/// The lines of the facts, with their labels. Only the first of several lines with the same label
/// shows it.
fn labelled(facts: &[Fact], paint: Paint, width: usize) -> String {
    let mut before = "";
    let mut lines = Vec::with_capacity(facts.len());
    for Fact { label, text, warm } in facts {
        for line in wrapped(text, width - LABEL - 1) {
            let shown = if *label == before { "" } else { *label };
            let line = if *warm { paint.warm(&line) } else { line };
            lines.push(format!("{shown:LABEL$} {line}"));
            before = label;
        }
    }
    lines.join("\n")
}

fn members(report: &Report) -> String {
    let m = &report.members;
    format!(
        "{} started, {} stopped, {} crashed; {} fenced, {} rejoined, {} disconnected; {}, at most \
         {} of one member",
        count(m.started),
        count(m.stopped),
        count(m.crashed),
        count(m.fenced),
        count(m.rejoined),
        count(m.disconnected),
        counted(m.revocations, "revocation"),
        count(m.revocations_per_member_max),
    )
}

fn commits(report: &Report) -> String {
    let c = &report.commits;
    format!(
        "{} accepted, {} refused, {} never answered; {} read back and compared",
        count(c.accepted),
        count(c.refused),
        count(c.unknown),
        count(c.read_back),
    )
}

fn transactions(report: &Report) -> Option<String> {
    let Transactions { committed, aborted } = &report.transactions;
    let shown = format!("{} committed, {} aborted", count(*committed), count(*aborted));
    (!report.transactions.are_none()).then_some(shown)
}

fn shares(report: &Report) -> Option<String> {
    let s = &report.shares;
    let least = s.least_fair()?;
    Some(format!(
        "{} delivered, {} of them again; {} accepted, {} released, {} rejected, {} refused, {} \
         never answered; {} to {} a member, median {}, fairness {:.3} (in {})",
        count(s.delivered),
        count(s.redelivered),
        count(s.accepted),
        count(s.released),
        count(s.rejected),
        count(s.refused),
        count(s.unknown),
        count(least.min),
        count(least.max),
        count(least.median),
        least.fairness,
        group_name(&least.group, 24),
    ))
}

fn consumed(report: &Report) -> Option<String> {
    let c = &report.consumed;
    let shown =
        || format!("{} consumed, {} of them twice", count(c.delivered), count(c.redelivered));
    (!c.are_none()).then(shown)
}

fn clients(report: &Report) -> Vec<String> {
    let shown = report.clients.iter().take(LIST).map(|client| {
        let (name, group) = (plain(&client.name), group_name(&client.group, 24));
        let most = counted(client.partitions_max.into(), "partition");
        let callbacks = counted(client.callbacks_count, "callback");
        let how = client.how.as_deref().map_or("its end was not seen".into(), plain);
        format!("{name} of {group}: {callbacks}, at most {most}; {how}")
    });
    let more = report.clients.len().saturating_sub(LIST);
    shown.chain((more > 0).then(|| format!("and {more} more"))).collect()
}

/// The number of requests without an answer, by kind.
fn unanswered(report: &Report) -> Option<String> {
    let each = report.unanswered.iter().filter(|(_, requests)| **requests > 0);
    let each: Vec<_> = each.map(|(of, n)| format!("{} {}", count(*n), plain(of))).collect();
    (!each.is_empty()).then(|| each.join(", "))
}

fn errors(report: &Report) -> Vec<String> {
    if report.errors.is_empty() {
        return vec!["none".into()];
    }
    let mut errors: Vec<_> = report.errors.iter().collect();
    errors.sort_by_key(|error| std::cmp::Reverse(error.count));
    let shown = errors.iter().take(LIST).map(|error| {
        let (api, name) = (plain(&error.api), plain(&error.name));
        let note = if error.is_expected() { ": no error, it hands out an id" } else { "" };
        format!("{:>10}  {name} ({}) from {api}{note}", count(error.count), error.code)
    });
    let more = errors.len().saturating_sub(LIST);
    shown.chain((more > 0).then(|| format!("and {more} other kinds"))).collect()
}

fn failed(report: &Report) -> Vec<String> {
    let members = &report.members.failed;
    let shown = members.iter().take(LIST).map(|member| {
        let (group, reason) = (group_name(&member.group, 24), plain(&member.reason));
        let at = clock(member.at);
        format!("member {} of {group} at {at}: {reason}", member.member)
    });
    let more = report.members.failed_count.saturating_sub(members.len().min(LIST) as u64);
    shown.chain((more > 0).then(|| format!("and {} more", count(more)))).collect()
}

fn usage(usage: &Usage, seconds: f64) -> String {
    let share = if seconds > 0.0 { usage.cpu_seconds / seconds * 100.0 } else { 0.0 };
    format!(
        "{} CPU-seconds ({} % of a core), {} of memory at most",
        number(usage.cpu_seconds),
        number(share),
        bytes(usage.memory_bytes_max)
    )
}

fn thresholds(thresholds: &[Threshold], paint: Paint) -> String {
    let width = thresholds.iter().map(|t| plain(&t.rule).chars().count()).max().unwrap_or(0);
    let lines = thresholds.iter().map(|threshold| {
        let verdict = if threshold.held { paint.good("held  ") } else { paint.bad("BROKEN") };
        let measured = threshold.measured.as_deref().unwrap_or("nothing to measure");
        format!("  {verdict}  {:width$}  {}", plain(&threshold.rule), plain(measured))
    });
    [paint.bold("Thresholds")].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}

fn violations(report: &Report, paint: Paint, width: usize) -> String {
    let shown = report.violations.iter().take(LIST).map(|v| violation(v, paint, width));
    let mut lines: Vec<_> = [paint.bold("Violations")].into_iter().chain(shown).collect();
    let more = report.violations.len().saturating_sub(LIST) as u64 + report.violations_omitted;
    if more > 0 {
        lines.push(format!("  and {} more", count(more)));
    }
    lines.join("\n")
}

fn violation(violation: &Violation, paint: Paint, width: usize) -> String {
    // Apart from the names of the rule and the group, the line has at most 30 columns.
    let rest = width.saturating_sub(violation.rule.chars().count() + 30);
    let group = group_name(&violation.group, rest.min(24));
    let rule = paint.bad(&plain(&violation.rule));
    let mut lines = vec![format!("  {rule}  group {group}, at {:.6} s", violation.at)];
    let what = wrapped(&plain(&violation.what), width - 4);
    lines.extend(what.iter().map(|line| format!("    {line}")));
    let events = violation.events.iter().take(LIST);
    lines.extend(events.map(|event| {
        paint.dim(&format!("    {}", shortened(&plain(&event.to_string()), width - 4)))
    }));
    let more = violation.events.len().saturating_sub(LIST);
    if more > 0 {
        lines.push(paint.dim(&format!("    and {more} more events")));
    }
    lines.join("\n")
}

/// The last line: the counts that decide the exit status.
fn verdict(report: &Report, paint: Paint, width: usize) -> String {
    let (violations, broken) = (report.violation_count(), report.broken_thresholds());
    let thresholds = match (broken, report.thresholds.len() as u64) {
        (0, 0) => String::new(),
        (0, all) => format!(", {} held", counted(all, "threshold")),
        (broken, all) => format!(", {broken} of {} broken", counted(all, "threshold")),
    };
    let problems = match report.problem_count() {
        0 => String::new(),
        problems => format!(", {} with a problem", counted(problems, "phase")),
    };
    let kept_up =
        if report.kept_up() { String::new() } else { format!("; {}", could_not_keep_up(report)) };
    let text = counted(violations, "violation") + &thresholds + &problems + &kept_up;
    let good = report.kept_up() && !report.failed();
    let painted = |line: &String| if good { paint.good(line) } else { paint.bad(line) };
    wrapped(&text, width).iter().map(painted).collect::<Vec<_>>().join("\n")
}
