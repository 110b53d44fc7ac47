//! The page of a search for the capacity: the answer, a curve for each rule, and all steps.

use std::fmt::Write;

use super::markup::{Table, card, escape};
use super::page;
use super::plot::{Band, Plot, Series, Style};
use super::scale::{Scale, Unit};
use crate::report::capacity::{Capacity, End, Step, Used};
use crate::report::text::{bytes, clock, count, millis, number};

pub(super) fn render(found: &Capacity) -> String {
    let mut steps: Vec<&Step> = found.steps.iter().collect();
    steps.sort_by_key(|step| step.size);
    let mut body = header(found);
    let rules = steps.first().map(|step| step.rules.len()).unwrap_or_default();
    let decisive = last_tries(&steps);
    for rule in 0..rules {
        body += &curve(found, &decisive, rule).render();
    }
    body += &resources(found, &decisive).render();
    body += &table(found, &steps);
    page(&format!("Capacity of {}", found.bootstrap), &body)
}

/// For each size, the last step with this size, because it decided whether the size held. The table
/// shows all steps.
fn last_tries<'a>(steps: &[&'a Step]) -> Vec<&'a Step> {
    let sizes = steps.chunk_by(|one, other| one.size == other.size);
    sizes.filter_map(|tries| tries.last().copied()).collect()
}

fn header(found: &Capacity) -> String {
    let label = found.label.as_ref().map_or(String::new(), |label| format!(" ({label})"));
    let title = format!("Capacity of {}{label}", found.bootstrap);
    let class = match (&found.end, found.holds) {
        (End::Found | End::AllHeld, Some(_)) => "good",
        _ => "bad",
    };
    let facts = format!(
        "Groups of the {} protocol; {} steps from {}, {}.",
        found.protocol,
        found.steps.len(),
        found.host,
        found.started_at
    );
    let mut html = String::from("<header>");
    let _ = writeln!(
        html,
        "<h1>{}</h1><p>{}</p><div class=\"verdict {class}\">{}</div></header>",
        escape(&title),
        escape(&facts),
        escape(&found.sentence())
    );
    html
}

/// A figure by size. The strip above it names the sizes that held.
fn curve(found: &Capacity, steps: &[&Step], rule: usize) -> Plot {
    let value = |step: &&&Step| step.rules.get(rule).and_then(|figure| figure.value);
    let finite = |value: &f64| value.is_finite();
    let values: Vec<_> = steps.iter().map(|step| value(&step).filter(finite)).collect();
    let first = steps.first().and_then(|step| step.rules.get(rule));
    let is_duration = first.is_some_and(|figure| figure.is_duration);
    let unit = if is_duration { Unit::Duration } else { Unit::Count };
    let series = Series {
        name: first.map_or(String::new(), |figure| figure.rule.clone()),
        hint: "",
        class: "line-1".into(),
        values: values.clone(),
    };
    Plot {
        title: series.name.clone(),
        explanation: format!(
            "The figure of this rule by {}; of several tries the last.",
            found.by.name()
        ),
        y: Scale::log(unit, values.into_iter().flatten()),
        y_name: if is_duration { "milliseconds".into() } else { String::new() },
        series: vec![series],
        ..axes(found, steps)
    }
}

fn resources(found: &Capacity, steps: &[&Step]) -> Plot {
    let server = steps.iter().map(|step| step.server.map(|used| used.cores)).collect();
    let own = steps.iter().map(|step| Some(step.load.cores)).collect();
    let line = |name: &str, class: &str, values: Vec<Option<f64>>| Series {
        name: name.into(),
        hint: "",
        class: class.into(),
        values,
    };
    let series = [line("server", "line-1", server), line("muster-load", "line-2", own)];
    let used = series.iter().flat_map(|one| &one.values).flatten();
    let most = used.copied().fold(0.0, f64::max);
    let is_known = |one: &Series| one.values.iter().any(Option::is_some);
    Plot {
        title: "CPU".into(),
        explanation: "Cores in use in each step: 1 is one core all the time.".into(),
        y: Scale::from_zero(Unit::Count, most),
        y_name: "cores".into(),
        series: series.into_iter().filter(is_known).collect(),
        ..axes(found, steps)
    }
}

/// A plot without series, whose x axis is the size.
fn axes(found: &Capacity, steps: &[&Step]) -> Plot {
    let at: Vec<f64> = steps.iter().map(|step| step.size as f64).collect();
    let most = at.iter().copied().fold(0.0, f64::max);
    let band = |name: &str, from: u64, to: f64, problem| {
        let (name, from) = (name.to_owned(), from as f64);
        Band { name, from, to, problem }
    };
    let held = found.holds.map(|holds| band("held", 0, holds as f64, false));
    let broke = found.breaks.map(|breaks| band("broke", breaks, most, true));
    Plot {
        title: String::new(),
        explanation: String::new(),
        x: Scale::from_zero(Unit::Count, most),
        y: Scale::from_zero(Unit::Count, 1.0),
        y_name: String::new(),
        x_name: found.by.name().into(),
        at,
        series: Vec::new(),
        style: Style::Lines,
        bands: held.into_iter().chain(broke).collect(),
        marks: Vec::new(),
    }
}

fn table(found: &Capacity, steps: &[&Step]) -> String {
    let rules = steps.first().map(|step| &step.rules[..]).unwrap_or_default();
    let rules = rules.iter().map(|figure| figure.rule.as_str());
    let ends = ["server CPU", "server memory", "own CPU", "own memory", "own lateness", "took"];
    let head = [found.by.name(), "", "why"].into_iter().chain(rules).chain(ends);
    let mut table = Table::new(&Vec::from_iter(head), 3);
    for step in steps {
        table.row(row(step));
    }
    let explanation = "By size; a size that broke was tried again. Rules on requests count while \
                       the groups are at rest, the others from the start of a step.";
    card("Steps", explanation, &table.end())
}

fn row(step: &Step) -> Vec<String> {
    let (class, verdict) = if step.held { ("good", "✓ held") } else { ("bad", "✗ broke") };
    let mut row = vec![count(step.size), format!("<span class=\"{class}\">{verdict}</span>")];
    row.push(escape(&step.problems.join(", ")));
    let shown = step.rules.iter().map(|figure| figure.shown.as_deref().unwrap_or("–"));
    row.extend(shown.map(escape));
    let [cpu, memory] = step.server.map_or(["–".into(), "–".into()], used);
    let [own_cpu, own_memory] = used(step.load);
    row.extend([cpu, memory, own_cpu, own_memory, millis(step.lateness), clock(step.seconds)]);
    row
}

fn used(used: Used) -> [String; 2] {
    [format!("{} %", number(used.cores * 100.0)), bytes(used.memory_bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::capacity::tests::step;

    #[test]
    fn a_size_that_was_tried_twice_is_one_point() {
        let [small, broke, held] = [step(100, 3.0), step(200, 80.0), step(200, 4.0)];
        let tries = last_tries(&[&small, &broke, &held]);
        let shown = tries.iter().map(|step| (step.size, step.rules[0].value));
        assert_eq!(Vec::from_iter(shown), [(100, Some(3.0)), (200, Some(4.0))]);
    }
}
