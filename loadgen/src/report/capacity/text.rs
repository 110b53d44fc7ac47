//! The result of a search, for a terminal.

use std::io::{self, Write};

use comfy_table::{CellAlignment, ContentArrangement, Table, TableComponent, presets};

use super::{Capacity, End, Step, Used};
use crate::report::text::{Paint, bytes, clock, count, millis, number, plain};

/// Writes the answer and the curve to standard output.
///
/// # Errors
///
/// Writing to standard output fails.
pub fn print(capacity: &Capacity) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(render(capacity, Paint::of(&output)).as_bytes())
}

/// A line about a step that has ended.
pub fn step_in_words(by: &str, step: &Step) -> String {
    let size = count(step.size);
    if !step.kept_up {
        return format!("{size} {by}: this machine could not keep up");
    }
    if step.held {
        let shown = step
            .rules
            .iter()
            .filter_map(|figure| Some(format!("{} ({})", figure.rule, figure.shown.as_ref()?)));
        let shown: Vec<_> = shown.collect();
        return format!("{size} {by} held: {}", shown.join(", "));
    }
    format!("{size} {by} broke: {}", step.reasons().join(", "))
}

fn render(capacity: &Capacity, paint: Paint) -> String {
    let sentence = plain(&capacity.sentence());
    let sentence = match capacity.end {
        End::Found | End::AllHeld => paint.good(&sentence),
        End::Machine(_) | End::Interrupted => paint.warm(&sentence),
    };
    let place = format!(
        "{}: {} members against {}, from {}",
        plain(&capacity.tool),
        capacity.protocol,
        paint.bold(&plain(&capacity.bootstrap)),
        plain(&capacity.host)
    );
    format!("{place}\n\n{}\n\n{sentence}\n", curve(capacity))
}

/// A table with a row for each step, by size.
fn curve(capacity: &Capacity) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_style(TableComponent::HeaderLines, '─')
        .set_style(TableComponent::MiddleHeaderIntersections, '─')
        .set_content_arrangement(ContentArrangement::Disabled);
    let rules = capacity.steps.first().map(|step| &step.rules[..]).unwrap_or_default();
    let rules = rules.iter().map(|figure| plain(&figure.rule));
    let ends = ["server CPU", "server memory", "own CPU", "own memory", "own lateness", "took"];
    let head = [capacity.by.name().to_owned(), String::new()].into_iter().chain(rules);
    table.set_header(head.chain(ends.map(String::from)));
    let mut steps: Vec<&Step> = capacity.steps.iter().collect();
    steps.sort_by_key(|step| step.size);
    table.add_rows(steps.iter().map(|step| row(step)));
    table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

fn row(step: &Step) -> Vec<String> {
    let verdict = if step.held { "held" } else { "BROKE" };
    let mut row = vec![count(step.size), verdict.into()];
    row.extend(step.rules.iter().map(|figure| figure.shown.clone().unwrap_or("–".into())));
    let [cpu, memory] = step.server.map_or(["–".into(), "–".into()], used);
    let [own_cpu, own_memory] = used(step.load);
    let took = clock(step.seconds);
    row.extend([cpu, memory, own_cpu, own_memory, millis(step.lateness), took]);
    row
}

fn used(used: Used) -> [String; 2] {
    [format!("{} %", number(used.cores * 100.0)), bytes(used.memory_bytes)]
}

#[cfg(test)]
mod tests {
    use super::super::tests::{capacity, step};
    use super::*;

    #[test]
    fn the_curve_is_by_size_and_ends_with_the_answer() {
        let shown = render(&capacity(), Paint::PLAIN);
        let sizes = ["3,200", "6,400", "7,200", "12,800"].map(|size| shown.find(size).unwrap());
        assert!(sizes.is_sorted(), "{shown}");
        assert!(shown.contains("server CPU") && shown.contains("47.7 MiB"), "{shown}");
        assert!(shown.ends_with("breaks at 7,200: heartbeat.p99 < 50ms (81 ms)\n"), "{shown}");
    }

    #[test]
    fn a_step_is_a_line() {
        let words = |step| step_in_words("members", &step);
        assert_eq!(words(step(100, 3.0)), "100 members held: heartbeat.p99 < 50ms (3 ms)");
        assert_eq!(words(step(1_600, 81.0)), "1,600 members broke: heartbeat.p99 < 50ms (81 ms)");
        let late = Step { kept_up: false, ..step(200, 3.0) };
        assert_eq!(words(late), "200 members: this machine could not keep up");
    }
}
