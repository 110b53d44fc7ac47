//! The newest figures of each client, bounded in number and bytes. Those of clients that have not
//! pushed for longest give way.

use super::limits::{
    LABEL_BYTES_MAX, NAME_BYTES_MAX, PUSH_SERIES_MAX, SERIES_BYTES_MAX, SERIES_MAX,
};
use super::otlp::{self, Kind, Point};
use super::protobuf::Malformed;
use super::push::Push;
use muster_codec::Uuid;
use std::collections::{BTreeMap, HashMap};

/// Beginnings of names that are the server's own.
const RESERVED: [&str; 5] = ["muster_", "kafka_", "process_", "jvm_", "java_"];

/// The end of names that OpenMetrics has for another purpose.
const RESERVED_END: &str = "_created";

/// The labels of every series, which no attribute replaces.
pub(super) const LABELS: [&str; 3] = ["client_instance_id", "client_id", "group"];

/// Memory that a series takes beside its texts, about.
const SERIES_BYTES: usize = 96;

/// Figures are kept for so long after a push, at least.
const EXPIRY_MS_MIN: i64 = 60_000;

/// The name of a series, without `_total`, and its further labels in the form of the text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) name: Box<str>,
    pub(super) labels: Box<str>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Number {
    kind: Kind,
    /// Whether the client's name ends with `_total`.
    is_total: bool,
    pub(super) value: f64,
}

impl Number {
    pub(super) fn is_counter(&self) -> bool {
        self.kind != Kind::Gauge
    }

    /// The end of its name: counters have one, whether the client gives it to them or not.
    pub(super) fn suffix(&self) -> &'static str {
        if self.is_counter() || self.is_total { "_total" } else { "" }
    }

    /// The number after a push, where the former one is known.
    fn after(self, before: Option<&Self>) -> Self {
        match before {
            Some(before) if self.kind == Kind::Added => {
                Self { value: before.value + self.value, ..self }
            }
            _ => self,
        }
    }
}

/// The figures of one client instance.
#[derive(Debug)]
pub(super) struct OfClient {
    /// The labels that all its series have.
    pub(super) labels: String,
    pub(super) series: BTreeMap<Key, Number>,
    bytes: usize,
    used: u64,
    expires_at: i64,
}

/// The figures of all clients.
#[derive(Debug, Default)]
pub(super) struct Series {
    clients: HashMap<Uuid, OfClient>,
    by_use: BTreeMap<u64, Uuid>,
    next_use: u64,
    count: usize,
    bytes: usize,
    /// Series of pushes that had no room, or no name that can be shown.
    pub(super) left_out: u64,
    /// Series that gave way to others.
    pub(super) evicted: u64,
}

impl Series {
    /// Takes the figures of a push in place of the client's former ones.
    ///
    /// # Errors
    /// The push is malformed: the former ones stay.
    pub(super) fn take(&mut self, now: i64, push: &Push, metrics: &[u8]) -> Result<(), Malformed> {
        let mut gathered = Gathered::default();
        otlp::visit(metrics, &mut |point| gathered.add(&point))?;
        self.left_out += gathered.left_out;
        let before = self.remove(push.instance_id).unwrap_or_default();
        let Gathered { mut series, group, .. } = gathered;
        for (key, number) in &mut series {
            *number = number.after(before.get(key));
        }
        self.insert(now, push, &group, series);
        Ok(())
    }

    /// Forgets the figures of clients that have stopped to push.
    pub(super) fn expire(&mut self, now: i64) {
        let is_over = |client: &OfClient| client.expires_at <= now;
        let ended = self.clients.iter().filter(|(_, client)| is_over(client)).map(|(id, _)| *id);
        ended.collect::<Vec<_>>().into_iter().for_each(|id| drop(self.remove(id)));
    }

    pub(super) fn clients(&self) -> impl Iterator<Item = &OfClient> {
        self.clients.values()
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    fn insert(&mut self, now: i64, push: &Push, group: &str, series: BTreeMap<Key, Number>) {
        let labels = common_labels(push, group);
        let of_key = |key: &Key| key.name.len() + key.labels.len() + SERIES_BYTES;
        let bytes = series.keys().map(of_key).sum::<usize>() + labels.len();
        self.make_room(series.len(), bytes);
        let used = self.next_use;
        self.next_use += 1;
        self.by_use.insert(used, push.instance_id);
        self.count += series.len();
        self.bytes += bytes;
        let expires_at = now + EXPIRY_MS_MIN.max(3 * i64::from(push.interval_ms));
        let client = OfClient { labels, series, bytes, used, expires_at };
        self.clients.insert(push.instance_id, client);
    }

    fn make_room(&mut self, count: usize, bytes: usize) {
        while self.count + count > SERIES_MAX || self.bytes + bytes > SERIES_BYTES_MAX {
            let Some((_, oldest)) = self.by_use.first_key_value() else { return };
            let evicted = self.remove(*oldest).map_or(0, |series| series.len());
            self.evicted += evicted as u64;
        }
    }

    fn remove(&mut self, id: Uuid) -> Option<BTreeMap<Key, Number>> {
        let client = self.clients.remove(&id)?;
        self.by_use.remove(&client.used);
        self.count -= client.series.len();
        self.bytes -= client.bytes;
        Some(client.series)
    }
}

/// The figures of one push.
#[derive(Default)]
struct Gathered {
    series: BTreeMap<Key, Number>,
    group: String,
    left_out: u64,
}

impl Gathered {
    fn add(&mut self, point: &Point<'_>) {
        if let Some(group) = point.group.filter(|_| self.group.is_empty()) {
            group.clone_into(&mut self.group);
        }
        let Some((key, is_total)) = key(point) else {
            self.left_out += 1;
            return;
        };
        if self.series.len() >= PUSH_SERIES_MAX && !self.series.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        self.series.insert(key, Number { kind: point.kind, is_total, value: point.value });
    }
}

/// The name and labels of a point, and whether the name ends with `_total`; None if it cannot be
/// shown.
fn key(point: &Point<'_>) -> Option<(Key, bool)> {
    let name = std::str::from_utf8(point.name).ok().filter(|it| it.len() <= NAME_BYTES_MAX)?;
    let name = sanitized(name);
    let is_reserved = RESERVED.iter().any(|beginning| name.starts_with(beginning));
    if name.is_empty() || is_reserved || name.ends_with(RESERVED_END) {
        return None;
    }
    let stem = name.strip_suffix("_total").filter(|it| !it.is_empty());
    let key = Key { name: stem.unwrap_or(&name).into(), labels: labels(point)?.into() };
    Some((key, stem.is_some()))
}

/// The attributes of a point in the order of their names; None if one is malformed.
fn labels(point: &Point<'_>) -> Option<String> {
    let mut labels = BTreeMap::new();
    for attribute in &point.attributes {
        let (name, value) = otlp::attribute(attribute).ok()?;
        let name =
            sanitized(std::str::from_utf8(name).ok()?.get(..NAME_BYTES_MAX.min(name.len()))?);
        // Names that begin with two underscores are those of Prometheus itself.
        if !name.is_empty() && !name.starts_with("__") && !LABELS.contains(&name.as_str()) {
            labels.insert(name, value);
        }
    }
    let mut text = String::new();
    labels.iter().for_each(|(name, value)| put_label(&mut text, name, value));
    Some(text)
}

fn common_labels(push: &Push, group: &str) -> String {
    let mut text = String::new();
    let [instance_id, client_id, of_group] = LABELS;
    put_label(&mut text, instance_id, &push.instance_id.to_string());
    put_label(&mut text, client_id, &push.client_id);
    if !group.is_empty() {
        put_label(&mut text, of_group, group);
    }
    text
}

/// Appends a label in the form of the text, with a comma before it if it is not the first.
fn put_label(text: &mut String, name: &str, value: &str) {
    let value = &value[..value.floor_char_boundary(LABEL_BYTES_MAX)];
    if !text.is_empty() {
        text.push(',');
    }
    text.push_str(name);
    text.push_str("=\"");
    value.chars().for_each(|c| match c {
        '\\' => text.push_str("\\\\"),
        '\n' => text.push_str("\\n"),
        '"' => text.push_str("\\\""),
        c => text.push(c),
    });
    text.push('"');
}

/// A name with underscores for all that Prometheus does not allow.
fn sanitized(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = name.chars().map(allowed).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
}
