//! Real clients beside the members: their partitions over time and their callbacks.

use super::charts::lines_over_time;
use super::markup::{Table, card, escape};
use super::plot::{Plot, Style};
use crate::report::model::{Callback, Client, Report};
use crate::report::text::{clock, count, named};

pub(super) fn clients(report: &Report) -> String {
    if report.clients.is_empty() {
        return String::new();
    }
    let mut table = Table::new(
        &["client", "group", "started", "ended", "how", "most partitions", "callbacks"],
        5,
    );
    for client in &report.clients {
        table.row([
            escape(&client.name),
            escape(named(&client.group)),
            clock(client.started),
            client.ended.map_or("–".into(), clock),
            escape(client.how.as_deref().unwrap_or("–")),
            count(client.partitions_max.into()),
            count(client.callbacks_count),
        ]);
    }
    let table = card(
        "Real clients",
        "Commands that consumed beside the members. The checks compare what they were assigned \
         with what members own.",
        &(table.end() + &report.clients.iter().map(callbacks).collect::<String>()),
    );
    over_time(report).render() + &table
}

fn over_time(report: &Report) -> Plot {
    let of_clients = |point: &crate::report::model::Point| point.client_partitions.map(f64::from);
    let mut plot = lines_over_time(&[(String::new(), report)], of_clients);
    if let [one] = &mut plot.series[..] {
        one.name = "partitions of real clients".into();
        one.class = "line-1 soft".into();
    }
    Plot {
        title: "Partitions of real clients".into(),
        explanation: "As their own rebalance callbacks say, on the same time as the members above."
            .into(),
        y_name: "partitions".into(),
        style: Style::Area,
        ..plot
    }
}

/// The callbacks of a client, folded.
fn callbacks(client: &Client) -> String {
    let mut table = Table::new(&["at", "callback", "partitions"], 2);
    for Callback { at, event, partitions } in &client.callbacks {
        table.row([format!("{at:.3} s"), escape(event), count((*partitions).into())]);
    }
    let more = client.callbacks_count.saturating_sub(client.callbacks.len() as u64);
    let more = if more > 0 { format!("<p>And {} more.</p>", count(more)) } else { String::new() };
    let name = escape(&client.name);
    format!("<details><summary>Callbacks of {name}</summary>{}{more}</details>", table.end())
}
