//! The tables at the end of a run, in 100 columns.

use std::io::{self, Write};

use comfy_table::{CellAlignment, ContentArrangement, Table, TableComponent, presets};

use super::model::{Latency, Rebalance, Report, Threshold, Usage, Violation};
use super::rebalances::{Kind, by_kind, distribution};
use super::text::{
    Paint, bytes, clock, count, counted, group_name, millis, number, plain, shortened,
};

const WIDTH: usize = 100;
const LABEL: usize = 14;
/// More rebalances than these are told by what set them off.
const REBALANCES_SINGLY: usize = 12;
/// What is told of long lists; the result file has all.
const LIST: usize = 10;

/// Writes the summary to standard output.
///
/// # Errors
///
/// Those of standard output.
pub fn print(report: &Report) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(render(report, Paint::of(&output)).as_bytes())
}

pub(super) fn render(report: &Report, paint: Paint) -> String {
    let mut sections = vec![head(report, paint)];
    if !report.rebalances.is_empty() {
        sections.push(format!("{}\n{}", paint.bold("Rebalances"), rebalances(&report.rebalances)));
    }
    sections.push(format!("{}\n{}", paint.bold("Times"), times(report)));
    sections.push(facts(report, paint));
    if !report.thresholds.is_empty() {
        sections.push(thresholds(&report.thresholds, paint));
    }
    if !report.violations.is_empty() {
        sections.push(violations(report, paint));
    }
    sections.push(verdict(report, paint));
    sections.join("\n\n") + "\n"
}

fn head(report: &Report, paint: Paint) -> String {
    let run = &report.run;
    let name = run.label.as_ref().map_or(String::new(), |label| format!(" ({})", plain(label)));
    let cluster =
        run.cluster_id.as_ref().map_or(String::new(), |id| format!(", cluster {}", plain(id)));
    let title = format!("{}{name}", plain(&run.scenario));
    let interrupted = if run.interrupted { paint.warm(", interrupted") } else { String::new() };
    [
        format!("{}: {} against {}", plain(&run.tool), paint.bold(&title), plain(&run.bootstrap)),
        plain(&run.description),
        format!(
            "{} members in {}, {} partitions; {}{cluster}",
            count(run.members.into()),
            counted(run.groups.into(), "group"),
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
    ]
    .join("\n")
}

fn rebalances(rebalances: &[Rebalance]) -> String {
    if rebalances.len() > REBALANCES_SINGLY {
        return rebalance_kinds(rebalances);
    }
    let mut table = table(
        &["group", "set off by", "at", "took", "since sign", "members", "moved", "revoked"],
        2,
    );
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
    let detected = rebalances.iter().any(|r| r.took_since_detected.is_some());
    let note = "\n  since sign: from the coordinator's first sign of the loss; \
                before it the session timeout runs";
    format!("{}{}", trimmed(&table), if detected { note } else { "" })
}

fn took(took: Option<f64>) -> String {
    took.map_or("not settled".into(), millis)
}

fn rebalance_kinds(rebalances: &[Rebalance]) -> String {
    let head =
        ["set off by", "rebalances", "groups", "p50", "p90", "p99", "max", "not settled", "moved"];
    let mut table = table(&head, 1);
    let kinds = by_kind(rebalances);
    for Kind { name, count: rebalances, groups, took, unsettled, moved } in kinds.iter().take(LIST)
    {
        table.add_row([
            shortened(&plain(name), 24),
            count(*rebalances),
            count(*groups),
            millis(took.p50),
            millis(took.p90),
            millis(took.p99),
            millis(took.max),
            count(*unsettled),
            count(*moved),
        ]);
    }
    let more = kinds.len().saturating_sub(LIST);
    let shown = trimmed(&table);
    if more > 0 { format!("{shown}\n  and {more} other kinds") } else { shown }
}

/// All distributions in one table, so that they can be compared.
fn times(report: &Report) -> String {
    let mut table = table(&["", "count", "mean", "p50", "p90", "p99", "p99.9", "max"], 1);
    let rebalances = distribution(&report.rebalances);
    let rows = [("rebalance", &rebalances), ("pause of a member", &report.pauses)];
    let round_trips = report.latencies.iter().map(|(name, latency)| (name.as_str(), latency));
    for (name, latency) in rows.into_iter().chain(round_trips).filter(|(_, l)| l.count > 0) {
        table.add_row(time_row(name, latency));
    }
    trimmed(&table)
}

fn time_row(name: &str, latency: &Latency) -> [String; 8] {
    let Latency { mean, p50, p90, p99, p999, max, .. } = *latency;
    let [mean, p50, p90, p99, p999, max] = [mean, p50, p90, p99, p999, max].map(millis);
    [shortened(&plain(name), 24), count(latency.count), mean, p50, p90, p99, p999, max]
}

fn facts(report: &Report, paint: Paint) -> String {
    let unowned = format!("{} partition-seconds", number(report.unowned_partition_seconds));
    let mut facts = vec![("without owner", unowned), ("members", members(report))];
    facts.push(("commits", commits(report)));
    facts.extend(errors(report).into_iter().map(|error| ("errors", error)));
    facts.extend(failed(report).into_iter().map(|member| ("failed", paint.warm(&member))));
    facts.push((
        "traffic",
        format!("{} sent, {} received", bytes(report.bytes_sent), bytes(report.bytes_received)),
    ));
    let seconds = report.run.duration_seconds;
    let each = match report.members.memory_bytes_each {
        0 => String::new(),
        each => format!(", {} a member", bytes(each)),
    };
    facts.push(("muster-load", usage(&report.load_generator, seconds) + &each));
    facts.extend(report.server.as_ref().map(|server| ("server", usage(server, seconds))));
    let problems = report.phases.iter().filter_map(|phase| Some((phase, phase.problem.as_ref()?)));
    facts.extend(problems.map(|(phase, problem)| {
        ("problem", paint.warm(&format!("phase {}: {}", plain(&phase.name), plain(problem))))
    }));
    labelled(&facts)
}

/// The label of lines that follow one of the same is left out.
fn labelled(facts: &[(&str, String)]) -> String {
    let mut before = "";
    let mut lines = Vec::with_capacity(facts.len());
    for (label, text) in facts {
        let shown = if *label == before { "" } else { label };
        lines.push(format!("{shown:LABEL$} {text}"));
        before = label;
    }
    lines.join("\n")
}

fn members(report: &Report) -> String {
    let m = &report.members;
    format!(
        "{} started, {} stopped, {} crashed; {} fenced, {} rejoined, {} disconnected;\n{:LABEL$} \
         {}, at most {} of one member",
        count(m.started),
        count(m.stopped),
        count(m.crashed),
        count(m.fenced),
        count(m.rejoined),
        count(m.disconnected),
        "",
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

fn errors(report: &Report) -> Vec<String> {
    if report.errors.is_empty() {
        return vec!["none".into()];
    }
    let mut errors: Vec<_> = report.errors.iter().collect();
    errors.sort_by_key(|error| std::cmp::Reverse(error.count));
    let shown = errors.iter().take(LIST).map(|error| {
        let (api, name) = (plain(&error.api), plain(&error.name));
        format!("{:>10}  {name} ({}) from {api}", count(error.count), error.code)
    });
    let more = errors.len().saturating_sub(LIST);
    shown.chain((more > 0).then(|| format!("and {more} other kinds"))).collect()
}

fn failed(report: &Report) -> Vec<String> {
    let members = &report.members.failed;
    let shown = members.iter().take(LIST).map(|member| {
        let (group, reason) = (group_name(&member.group, 24), plain(&member.reason));
        let at = clock(member.at);
        shortened(
            &format!("member {} of {group} at {at}: {reason}", member.member),
            WIDTH - LABEL - 1,
        )
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

fn violations(report: &Report, paint: Paint) -> String {
    let shown = report.violations.iter().take(LIST).map(|v| violation(v, paint));
    let mut lines: Vec<_> = [paint.bold("Violations")].into_iter().chain(shown).collect();
    let more = report.violations.len().saturating_sub(LIST) as u64 + report.violations_untold;
    if more > 0 {
        lines.push(format!("  and {} more", count(more)));
    }
    lines.join("\n")
}

fn violation(violation: &Violation, paint: Paint) -> String {
    let group = group_name(&violation.group, 24);
    let rule = paint.bad(&plain(&violation.rule));
    let mut lines = vec![format!("  {rule}  group {group}, at {:.6} s", violation.at)];
    lines.push(format!("    {}", plain(&violation.what)));
    let events = violation.events.iter().take(LIST);
    lines.extend(events.map(|event| {
        paint.dim(&format!("    {}", shortened(&plain(&event.to_string()), WIDTH - 4)))
    }));
    let more = violation.events.len().saturating_sub(LIST);
    if more > 0 {
        lines.push(paint.dim(&format!("    and {more} more events")));
    }
    lines.join("\n")
}

/// The last line: what decides the exit code.
fn verdict(report: &Report, paint: Paint) -> String {
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
    let text = counted(violations, "violation") + &thresholds + &problems;
    if report.failed() { paint.bad(&text) } else { paint.good(&text) }
}

/// The first `texts` columns hold text, the others numbers.
fn table(head: &[&str], texts: usize) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_style(TableComponent::HeaderLines, '─')
        .set_style(TableComponent::MiddleHeaderIntersections, '─')
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH as u16)
        .set_header(head.iter().copied());
    for column in table.column_iter_mut().skip(texts) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn trimmed(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}
