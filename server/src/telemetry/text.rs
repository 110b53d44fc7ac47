//! Formats the clients' values as text for `/metrics`.

use super::limits::TEXT_BYTES_MAX;
use super::receiver::Numbers;
use super::series::{Key, Number, OfClient, Series};
use std::fmt::Write;

/// The server's own metrics about pushed metrics: name, help, and whether it is a counter.
pub(crate) const ROWS: &[(&str, &str, bool)] = &[
    (
        "muster_client_metrics_series",
        "Series that clients have pushed and that are shown, at most 65,536. Beyond this, the \
         series of clients that have not pushed for longest are removed.",
        false,
    ),
    (
        "muster_client_metrics_left_out",
        "Series that are not shown: beyond 4,096 in a push, or with an invalid name.",
        true,
    ),
    ("muster_client_metrics_evicted", "Series that were removed for those of other clients.", true),
    ("muster_client_metrics_unwritten", "Series that do not fit into this answer.", false),
    ("muster_client_metrics_forwarded", "Pushes that the OTLP endpoint has taken.", true),
    (
        "muster_client_metrics_not_forwarded",
        "Pushes that were dropped because the OTLP endpoint is too slow, or refuses them.",
        true,
    ),
];

/// The text with the metric families that clients push. In addition the values of [`ROWS`], the
/// server's own metrics about pushed metrics.
#[derive(Debug, Default)]
pub(crate) struct ClientsText {
    pub(crate) text: String,
    /// In the order of [`ROWS`].
    pub(crate) numbers: Vec<f64>,
}

/// A series of one client.
type Row<'s> = (&'s Key, &'s Number, &'s OfClient);

/// Writes all series, with the names and types of the requested format.
pub(super) fn write(series: &Series, numbers: &Numbers, is_open_metrics: bool) -> ClientsText {
    let mut rows: Vec<Row<'_>> = Vec::with_capacity(series.count());
    for client in series.clients() {
        rows.extend(client.series.iter().map(|(key, number)| (key, number, client)));
    }
    rows.sort_unstable_by(|(key, _, client), (other, _, other_client)| {
        key.cmp(other).then_with(|| client.labels.cmp(&other_client.labels))
    });
    let (mut text, mut unwritten) = (String::new(), 0);
    for family in rows.chunk_by(|(one, ..), (other, ..)| one.name == other.name) {
        unwritten += write_family(family, is_open_metrics, &mut text);
    }
    let numbers = vec![
        series.count() as f64,
        series.left_out as f64,
        series.evicted as f64,
        unwritten as f64,
        numbers.forwarded as f64,
        numbers.not_forwarded as f64,
    ];
    ClientsText { text, numbers }
}

/// Writes the series of one name. Skips series whose kind or suffix differs from that of the first
/// one, and all series once the text is too long. Returns how many were skipped.
fn write_family(family: &[Row<'_>], is_open_metrics: bool, text: &mut String) -> usize {
    let Some((key, first, _)) = family.first() else { return 0 };
    let suffix = first.suffix();
    let of_type = if first.is_counter() { "counter" } else { "gauge" };
    let is_stem = first.is_counter() && is_open_metrics;
    let named = if is_stem { key.name.to_string() } else { format!("{}{suffix}", key.name) };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# HELP {named} Pushed by clients.\n# TYPE {named} {of_type}");
    let is_alike =
        |number: &Number| number.is_counter() == first.is_counter() && number.suffix() == suffix;
    let mut unwritten = 0;
    for (key, number, client) in family {
        let has_room = text.len() < TEXT_BYTES_MAX;
        if !has_room || !is_alike(number) {
            unwritten += 1;
            continue;
        }
        let comma = if key.labels.is_empty() { "" } else { "," };
        let labels = format_args!("{}{comma}{}", client.labels, key.labels);
        let _ = writeln!(text, "{}{suffix}{{{labels}}} {}", key.name, Value(number.value));
    }
    unwritten
}

/// A number in the notation of both formats.
struct Value(f64);

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_infinite() {
            return f.write_str(if self.0 > 0.0 { "+Inf" } else { "-Inf" });
        }
        write!(f, "{}", self.0)
    }
}
