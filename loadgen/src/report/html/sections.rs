//! The parts of a page that are text: the verdict, the figures and the tables.

use std::fmt::Write;

use super::markup::{Table, card, escape};
use crate::report::model::{Rebalance, Report, Run, Threshold, Usage, Violation};
use crate::report::pace::{Figure, Marked, could_not_keep_up, pace};
use crate::report::phases::columns;
use crate::report::rebalances::{Kind, by_kind, disruption_times, distribution, made_of};
use crate::report::text::{bytes, clock, count, members_in_words, millis, named, number};

/// The maximum number of phases that are shown. The result file has all.
const PHASES: usize = 50;
/// If there are more rebalances than this, they are summarised by trigger.
const REBALANCES_SINGLY: usize = 40;

pub(super) fn header(report: &Report) -> String {
    let run = &report.run;
    let label = run.label.as_ref().map_or(String::new(), |label| format!(" ({label})"));
    let title = format!("{}{label} against {}", run.scenario, run.bootstrap);
    let mut html = format!("<header><h1>{}</h1>", escape(&title));
    let scale = format!(
        "{} with {} partitions, {}{}.",
        members_in_words(run),
        count(run.partitions.into()),
        clock(run.duration_seconds),
        if run.interrupted { ", interrupted" } else { "" },
    );
    let description = escape(&run.description);
    let _ =
        write!(html, "<p>{description}</p><p>{}</p>{}</header>", escape(&scale), verdict(report));
    html + &tiles(report)
}

fn verdict(report: &Report) -> String {
    let violations = report.violation_count();
    let broken = report.broken_thresholds();
    let kept = match violations {
        0 => "The coordinator kept its guarantees".into(),
        1 => "The coordinator violated its guarantees once".into(),
        n => format!("The coordinator violated its guarantees {} times", count(n)),
    };
    let thresholds = match (broken, report.thresholds.len()) {
        (0, 0) => String::new(),
        (0, 1) => ", and the threshold held".into(),
        (0, all) => format!(", and all {all} thresholds held"),
        (broken, all) => format!("; {broken} of {all} thresholds broken"),
    };
    let problems = match report.problem_count() {
        0 => String::new(),
        1 => "; one phase had a problem".into(),
        n => format!("; {} phases had a problem", count(n)),
    };
    let (class, sign) = if report.failed() { ("bad", "✗") } else { ("good", "✓") };
    let own = if report.kept_up() {
        String::new()
    } else {
        let sentence = escape(&could_not_keep_up(report));
        format!("<div class=\"verdict bad\">✗ Worth little: {sentence}</div> ")
    };
    format!("{own}<div class=\"verdict {class}\">{sign} {kept}{thresholds}{problems}</div>")
}

/// The most important figures.
fn tiles(report: &Report) -> String {
    let mut tiles = String::from("<ul class=\"tiles\">");
    let mut tile = |name: &str, value: String| {
        let _ = write!(tiles, "<li><span>{}</span><b>{}</b></li>", escape(name), escape(&value));
    };
    let disruptions = distribution(&report.disruptions);
    if disruptions.count > 0 {
        let overlap = report.rebalances.iter().any(|rebalance| rebalance.superseded);
        let name = if overlap { "longest disruption" } else { "longest rebalance" };
        tile(name, millis(disruptions.max));
    }
    if report.pauses.count > 0 {
        tile("pause of a member, p99", millis(report.pauses.p99));
    }
    for name in ["heartbeat", "consumer-heartbeat", "commit", "delivery"] {
        if let Some(latency) = report.latencies.get(name).filter(|latency| latency.count > 0) {
            tile(&format!("{name}, p99"), Marked::new(report, name, latency).one(|l| l.p99));
        }
    }
    if let Some(server) = &report.server {
        tile("server memory, most", bytes(server.memory_bytes_max));
    }
    tile("errors", count(report.error_count()));
    tile("violations", count(report.violation_count()));
    tiles + "</ul>\n"
}

pub(super) fn rebalances(report: &Report) -> String {
    let rebalances = &report.disruptions;
    if rebalances.is_empty() {
        return String::new();
    }
    let (explanation, table) = if rebalances.len() > REBALANCES_SINGLY {
        ("By their triggers; from the trigger until the group was stable again.", kinds(rebalances))
    } else {
        let explanation = "Each from its trigger until every member of the group had its \
                           partitions again; those that overlap are one, from the first trigger \
                           on. After a crash the session timeout has to run out first: “since \
                           first sign” leaves it out.";
        (explanation, singly(rebalances, &report.run))
    };
    card("Rebalances", explanation, &table)
}

/// The table with the costs of each phase for the members.
pub(super) fn cost_of_phases(report: &Report) -> String {
    if report.phases.is_empty() {
        return String::new();
    }
    let columns = columns(report);
    let heads = columns.iter().map(|column| column.head);
    let mut table = Table::new(&Vec::from_iter(["phase"].into_iter().chain(heads)), 1);
    for phase in report.phases.iter().take(PHASES) {
        let cells = columns.iter().map(|column| column.shown(report, phase));
        table.row([escape(&phase.name)].into_iter().chain(cells));
    }
    card(
        "Phases",
        "Pauses that ended in the phase, and partition-seconds without an owner. A disruption is \
         of the phase in which it began.",
        &table.end(),
    )
}

fn kinds(rebalances: &[Rebalance]) -> String {
    let head = [
        "trigger",
        "rebalances",
        "groups",
        "p50",
        "p90",
        "p99",
        "max",
        "not stable again",
        "moved",
    ];
    let mut table = Table::new(&head, 1);
    for kind in by_kind(rebalances) {
        let [p50, p90, p99, max] = kind.times();
        let Kind { name, count: rebalances, groups, unsettled, moved, .. } = kind;
        let open = count(unsettled);
        let open = if unsettled > 0 { format!("<span class=\"bad\">{open}</span>") } else { open };
        let cells = [escape(&name), count(rebalances), count(groups), p50, p90, p99, max, open];
        table.row(cells.into_iter().chain([count(moved)]));
    }
    table.end()
}

fn singly(rebalances: &[Rebalance], run: &Run) -> String {
    let duration = run.duration_seconds;
    let head =
        ["group", "trigger", "took", "when", "since first sign", "members", "moved", "revoked"];
    let mut table = Table::new(&head, 2);
    for rebalance in rebalances {
        let took = match rebalance.took {
            Some(took) => millis(took),
            None => "<span class=\"bad\">not stable again</span>".into(),
        };
        table.row([
            escape(named(&rebalance.group)),
            escape(&rebalance.trigger) + &reason(rebalance, run),
            took,
            when(rebalance, duration),
            rebalance.took_since_detected.map_or(String::new(), millis),
            count(rebalance.members.into()),
            count(rebalance.moved.into()),
            count(rebalance.revoked.into()),
        ]);
    }
    table.end()
}

/// The waits of which a rebalance's time consists. They are shown below the trigger, because they
/// would be cut off in a column of their own.
fn reason(rebalance: &Rebalance, run: &Run) -> String {
    let reason = made_of(rebalance, run);
    let shown = |reason: String| format!("<span class=\"reason\">{}</span>", escape(&reason));
    reason.map_or(String::new(), shown)
}

/// A bar that shows a rebalance's place and length in the run.
fn when(rebalance: &Rebalance, duration: f64) -> String {
    let share = |seconds: f64| (seconds / duration.max(1e-9) * 100.0).clamp(0.0, 100.0);
    let left = share(rebalance.began);
    let width = share(rebalance.took.map_or(duration, |took| took / 1e3)).min(100.0 - left);
    let class = if rebalance.took.is_none() { " class=\"open\"" } else { "" };
    let title = format!("began at {}", clock(rebalance.began));
    format!(
        "<span class=\"when\" title=\"{title}\"><i{class} \
         style=\"left:{left:.2}%;width:{width:.2}%\"></i></span>"
    )
}

pub(super) fn members(report: &Report) -> String {
    let (m, c) = (&report.members, &report.commits);
    let mut facts = vec![
        ("Started", count(m.started)),
        ("Stopped", count(m.stopped)),
        ("Crashed", count(m.crashed)),
        ("Fenced", format!("{}, of which {} rejoined", count(m.fenced), count(m.rejoined))),
        ("Connections lost", count(m.disconnected)),
        (
            "Revocations",
            format!(
                "{}, at most {} of one member",
                count(m.revocations),
                count(m.revocations_per_member_max)
            ),
        ),
        ("Commits accepted", count(c.accepted)),
        ("Commits refused", count(c.refused)),
        ("Commits never answered", count(c.unknown)),
        ("Requests never answered", count(report.unanswered_count())),
        (
            "Offsets read back",
            format!("{}, and compared with what was acknowledged", count(c.read_back)),
        ),
    ];
    if !report.transactions.are_none() {
        let ended = &report.transactions;
        facts.push(("Transactions committed", count(ended.committed)));
        facts.push(("Transactions aborted", count(ended.aborted)));
    }
    if !report.consumed.are_none() {
        facts.push(("Records consumed", count(report.consumed.delivered)));
        facts.push(("Records consumed twice", count(report.consumed.redelivered)));
    }
    let s = &report.shares;
    if let Some(least) = s.least_fair() {
        facts.push(("Records delivered", count(s.delivered)));
        facts.push(("Records delivered again", count(s.redelivered)));
        facts.push(("Records accepted", count(s.accepted)));
        facts.push(("Records released", count(s.released)));
        facts.push(("Records rejected", count(s.rejected)));
        facts.push(("Acknowledgements refused", count(s.refused)));
        let spread = format!(
            "{} to {} a member, median {}, fairness {:.3}, in the least even group",
            count(least.min),
            count(least.max),
            count(least.median),
            least.fairness
        );
        facts.push(("Spread of records", spread));
    }
    if m.failed_count > 0 {
        facts.push(("Failed permanently", count(m.failed_count)));
    }
    card(
        "Members and commits",
        "A fenced member was refused by the coordinator and joins again; a revocation is \
         partitions given up by a live member. Fewer of both is better.",
        &list(&facts),
    )
}

fn list(facts: &[(&str, String)]) -> String {
    let items = facts
        .iter()
        .map(|(name, value)| format!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(value)));
    format!("<dl>{}</dl>", items.collect::<String>())
}

pub(super) fn times(report: &Report) -> String {
    let head = ["", "count", "mean", "min", "p50", "p90", "p99", "p99.9", "max"];
    let sent = ["p50 as sent", "p99 as sent", "max as sent"];
    let mut table = Table::new(&[&head[..], &sent].concat(), 1);
    let rebalances = distribution(&report.rebalances);
    let disruptions = disruption_times(report);
    let rows = [
        ("rebalance", &rebalances),
        ("disruption", &disruptions),
        ("pause of a member", &report.pauses),
    ];
    let round_trips = report.latencies.iter().map(|(name, latency)| (name.as_str(), latency));
    for (name, latency) in rows.into_iter().chain(round_trips).filter(|(_, l)| l.count > 0) {
        let figures = Marked::new(report, name, latency);
        let ([mean, p50, p90, p99, p999, max], min) = (figures.all(), figures.one(|l| l.min));
        let values = [mean, min, p50, p90, p99, p999, max];
        let sent: [Figure; 3] = [|l| l.p50, |l| l.p99, |l| l.max];
        let as_sent = Marked::as_sent(report, name);
        let as_sent = sent
            .map(|figure| as_sent.as_ref().map_or(String::new(), |as_sent| as_sent.one(figure)));
        let row = [escape(name), count(latency.count)].into_iter().chain(values);
        table.row(row.chain(as_sent));
    }
    card(
        "All times",
        "p99 is what 99 of 100 stayed below. Round trips count from when a request was due, so \
         that a stalled server cannot hide behind requests that were not sent or not answered; \
         “as sent” is without that correction. A ~ marks figures \
         of which a tenth or more can be this machine's own, which was late (below: Own pace).",
        &table.end(),
    )
}

/// The checks that decide the exit status.
pub(super) fn checks(report: &Report) -> String {
    [violations(report), thresholds(&report.thresholds), phases(report)].concat()
}

/// The tables of errors and of failed members. Causes other than the coordinator are possible.
pub(super) fn errors_and_failures(report: &Report) -> String {
    errors(report) + &failed(report)
}

fn thresholds(thresholds: &[Threshold]) -> String {
    if thresholds.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["rule", "measured", ""], 3);
    for threshold in thresholds {
        let (class, verdict) =
            if threshold.held { ("good", "✓ held") } else { ("bad", "✗ broken") };
        let measured = threshold.measured.as_deref().unwrap_or("nothing to measure");
        table.row([
            format!("<code>{}</code>", escape(&threshold.rule)),
            escape(measured),
            format!("<span class=\"{class}\">{verdict}</span>"),
        ]);
    }
    card(
        "Thresholds",
        "Rules of the scenario or of --threshold. If one is broken, the run fails.",
        &table.end(),
    )
}

fn violations(report: &Report) -> String {
    let shown = report.violations.iter().map(violation).collect::<String>();
    let omitted = match report.violations_omitted {
        0 => String::new(),
        more => format!("<p>And {} more.</p>", count(more)),
    };
    let explanation = match report.violation_count() {
        0 => {
            "None: no partition had two owners, no epoch went back, no acknowledged commit was \
             lost, no commit of a fenced member was accepted."
        }
        _ => {
            "What the coordinator must never do, with the events that prove it, oldest first. \
             Times in events are microseconds since the start."
        }
    };
    card("Violations", explanation, &(shown + &omitted))
}

fn violation(violation: &Violation) -> String {
    let events = violation.events.iter().map(|event| escape(&event.to_string()) + "\n");
    let events = match violation.events.len() {
        0 => String::new(),
        _ => format!("<pre>{}</pre>", events.collect::<String>()),
    };
    format!(
        "<details open=\"open\"><summary><span class=\"bad\">{}</span> at {:.6} s in group {}: {}\
         </summary>{events}</details>",
        escape(&violation.rule),
        violation.at,
        escape(&violation.group),
        escape(&violation.what),
    )
}

fn errors(report: &Report) -> String {
    if report.errors.is_empty() {
        return card("Errors", "None: no answer had an error code.", "");
    }
    let mut errors: Vec<_> = report.errors.iter().collect();
    errors.sort_by_key(|error| std::cmp::Reverse(error.count));
    let mut table = Table::new(&["error", "code", "answer to", "count"], 3);
    for error in errors {
        let code = error.code.to_string();
        table.row([escape(&error.name), code, escape(&error.api), count(error.count)]);
    }
    card(
        "Errors",
        "Error codes in answers. Some belong to a rebalance: REBALANCE_IN_PROGRESS asks members \
         to join. MEMBER_ID_REQUIRED hands out an id and is not counted above.",
        &table.end(),
    )
}

fn failed(report: &Report) -> String {
    let members = &report.members;
    if members.failed_count == 0 {
        return String::new();
    }
    let mut table = Table::new(&["group", "member", "at", "reason"], 4);
    for member in &members.failed {
        let (number, at) = (member.member.to_string(), clock(member.at));
        table.row([escape(&member.group), number, at, escape(&member.reason)]);
    }
    let more = members.failed_count.saturating_sub(members.failed.len() as u64);
    let more = if more > 0 { format!("<p>And {} more.</p>", count(more)) } else { String::new() };
    card(
        "Failed members",
        "They could not continue; the run continued without them.",
        &(table.end() + &more),
    )
}

fn phases(report: &Report) -> String {
    let problems = report.phases.iter().flat_map(|phase| {
        phase.problem.iter().chain(&phase.warnings).map(|problem| {
            let (name, problem) = (escape(&phase.name), escape(problem));
            format!("<dt>{name}</dt><dd class=\"warm\">{problem}</dd>")
        })
    });
    let problems: String = problems.collect();
    if problems.is_empty() {
        return String::new();
    }
    card(
        "Problems of phases",
        "The run continued with the next phase.",
        &format!("<dl>{problems}</dl>"),
    )
}

pub(super) fn facts(report: &Report) -> String {
    let run = &report.run;
    let cluster = run.cluster_id.as_deref().unwrap_or("without an id");
    let mut facts = vec![
        ("Command", run.command.join(" ")),
        ("Scenario", format!("{}: {}", run.scenario, run.description)),
        ("Seed", run.seed.to_string()),
        ("Started", run.started_at.clone()),
        ("Cluster", format!("{cluster}, {} brokers, reached at {}", run.brokers, run.bootstrap)),
        ("Load from", format!("{} cores of {}", run.cores, run.host)),
        ("Load generator", usage(&report.load_generator, run.duration_seconds)),
    ];
    facts.extend(pace(report).into_iter().map(|text| ("Own pace", text)));
    facts.extend(report.server.as_ref().map(|u| ("Server", usage(u, run.duration_seconds))));
    facts.push(("Memory of a member", bytes(report.members.memory_bytes_each)));
    facts.push((
        "Traffic",
        format!("{} sent, {} received", bytes(report.bytes_sent), bytes(report.bytes_received)),
    ));
    let footer = format!("<footer>Written by {}.</footer>\n", escape(&run.tool));
    card("The run", "The facts that are needed to repeat it.", &list(&facts)) + &footer
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
