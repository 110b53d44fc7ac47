//! The newest values of each client, limited in number and bytes. If a limit is exceeded, the
//! clients whose pushes are the oldest lose their values.

use super::limits::{
    LABEL_BYTES_MAX, NAME_BYTES_MAX, PUSH_SERIES_MAX, SERIES_BYTES_MAX, SERIES_MAX,
};
use super::otlp::{self, Kind, Point};
use super::protobuf::Malformed;
use super::push::Push;
use muster_codec::Uuid;
use std::collections::{BTreeMap, HashMap};

/// Prefixes of metric names that the server itself uses.
const RESERVED: [&str; 5] = ["muster_", "kafka_", "process_", "jvm_", "java_"];

/// The end of metric names that OpenMetrics uses for the time at which a counter was created.
const RESERVED_END: &str = "_created";

/// The labels of every series. Attributes cannot override them.
pub(super) const LABELS: [&str; 3] = ["client_instance_id", "client_id", "group"];

/// The approximate memory of a series apart from its texts.
const SERIES_BYTES: usize = 96;

/// Values are kept for at least this long after a push.
const EXPIRY_MS_MIN: i64 = 60_000;

/// A series within a client: its name without `_total`, and its own labels in text form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) name: Box<str>,
    pub(super) labels: Box<str>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Number {
    kind: Kind,
    /// Whether the name that the client pushed ends with `_total`.
    is_total: bool,
    pub(super) value: f64,
}

impl Number {
    pub(super) fn is_counter(&self) -> bool {
        self.kind != Kind::Gauge
    }

    /// The suffix of the name that is shown. It is `_total` for each counter, whether or not the
    /// client sent this suffix.
    pub(super) fn suffix(&self) -> &'static str {
        if self.is_counter() || self.is_total { "_total" } else { "" }
    }

    /// The value after a push, given the value before.
    fn after(self, before: Option<&Self>) -> Self {
        match before {
            Some(before) if self.kind == Kind::Added => {
                Self { value: before.value + self.value, ..self }
            }
            _ => self,
        }
    }
}

/// The values of one client instance.
#[derive(Debug)]
pub(super) struct OfClient {
    /// The labels of all its series.
    pub(super) labels: String,
    pub(super) series: BTreeMap<Key, Number>,
    bytes: usize,
    used: u64,
    expires_at: i64,
}

/// The values of all clients.
#[derive(Debug, Default)]
pub(super) struct Series {
    clients: HashMap<Uuid, OfClient>,
    by_use: BTreeMap<u64, Uuid>,
    next_use: u64,
    count: usize,
    bytes: usize,
    /// How many pushed series were not taken: they exceeded a limit, or their name cannot be shown.
    pub(super) left_out: u64,
    /// How many series were removed in favor of others.
    pub(super) evicted: u64,
}

impl Series {
    /// Replaces the values of a client by the values of a push. But a value that is the increase of
    /// a counter is added to the old value.
    ///
    /// # Errors
    /// The push is malformed. The old values stay.
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

    /// Removes the values of clients that have stopped pushing.
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

/// The values of one push.
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

/// The name and labels of a point, and whether the name ends with `_total`. None if the point
/// cannot be shown.
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

/// The attributes of a point, sorted by name, in text form; None if an attribute is malformed.
fn labels(point: &Point<'_>) -> Option<String> {
    let mut labels = BTreeMap::new();
    for attribute in &point.attributes {
        let (name, value) = otlp::attribute(attribute).ok()?;
        let name =
            sanitized(std::str::from_utf8(name).ok()?.get(..NAME_BYTES_MAX.min(name.len()))?);
        // Names with two leading underscores are reserved for Prometheus.
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

/// Appends a label in text form, preceded by a comma if it is not the first.
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

/// A name in which `_` replaces all characters that Prometheus does not allow.
fn sanitized(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = name.chars().map(allowed).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
}
