//! Prints the lines of a dump. As text, lines are indented by segment, block and batch. As JSON,
//! each line is an object.

use crate::Verdict;
use crate::args::Dump;
use crate::describe::object;
use muster_server::Failure;
use muster_server::calendar::civil_time;
use muster_server::data_dir::Meta;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::Path;

/// Prints lines. If only the records of one group are wanted, it keeps a line about a block or
/// batch until such a record in it is printed.
pub(super) struct Printer<'o> {
    out: &'o mut dyn Write,
    json: bool,
    keys_only: bool,
    /// Lines held back until the next record. None if lines are printed immediately.
    waiting: Option<Vec<String>>,
    /// The wanted group, until a record of it is found.
    missing: Option<String>,
    is_damaged: bool,
}

/// A record with its place.
pub(super) struct RecordLine<'a> {
    pub(super) place: Map<String, Value>,
    /// Offset and timestamp of a record that comes from a log.
    pub(super) at: Option<(i64, i64)>,
    pub(super) name: Option<&'a str>,
    pub(super) key: Value,
    pub(super) value: Value,
}

impl<'o> Printer<'o> {
    pub(super) fn new(out: &'o mut dyn Write, arguments: &Dump) -> Self {
        Self {
            out,
            json: arguments.json,
            keys_only: arguments.keys_only,
            waiting: arguments.group.as_ref().map(|_| Vec::new()),
            missing: arguments.group.clone(),
            is_damaged: false,
        }
    }

    /// Ends the dump. Returns whether damage was found, or whether the requested group has no
    /// records.
    pub(super) fn finish(mut self) -> Result<Verdict, Failure> {
        if let Some(group) = self.missing.take() {
            self.note(&format!("no record of group {group} was found"))?;
            return Ok(if self.is_damaged { Verdict::Damaged } else { Verdict::Missing });
        }
        Ok(if self.is_damaged { Verdict::Damaged } else { Verdict::Good })
    }

    pub(super) fn meta(&mut self, meta: &Meta) -> Result<(), Failure> {
        let Meta { cluster_id, offsets_partitions, transactions_partitions, .. } = meta;
        let shards = meta.shards();
        let text = format!(
            "cluster {cluster_id}; shards: {shards}; partitions of __consumer_offsets: \
             {offsets_partitions}, of __transaction_state: {transactions_partitions}"
        );
        let fields = object([
            ("clusterId", json!(cluster_id)),
            ("shards", json!(shards)),
            ("offsetsPartitions", json!(offsets_partitions)),
            ("transactionsPartitions", json!(transactions_partitions)),
        ]);
        self.print("meta", fields, 0, text)
    }

    /// Prints a line about a segment.
    pub(super) fn segment(
        &mut self,
        path: &Path,
        mut fields: Map<String, Value>,
        text: &str,
    ) -> Result<(), Failure> {
        self.waiting.iter_mut().for_each(Vec::clear);
        fields.insert("file".to_owned(), json!(path.display().to_string()));
        self.print("segment", fields, 0, format!("{}: {text}", path.display()))
    }

    /// Prints a line about a block or a batch.
    pub(super) fn part(
        &mut self,
        kind: &str,
        fields: Map<String, Value>,
        depth: usize,
        text: String,
    ) -> Result<(), Failure> {
        if self.json {
            // In JSON, each record contains its place. If only one group is wanted, no lines about
            // blocks and batches are printed.
            return if self.waiting.is_some() { Ok(()) } else { self.print(kind, fields, 0, text) };
        }
        let line = indented(depth, &text);
        match &mut self.waiting {
            Some(waiting) => {
                waiting.retain(|it| indent(it) < indent(&line));
                waiting.push(line);
                Ok(())
            }
            None => Ok(writeln!(self.out, "{line}")?),
        }
    }

    pub(super) fn record(&mut self, line: RecordLine<'_>, depth: usize) -> Result<(), Failure> {
        let RecordLine { place, at, name, key, value } = line;
        self.missing = None;
        for waiting in self.waiting.iter_mut().flat_map(|waiting| waiting.drain(..)) {
            writeln!(self.out, "{waiting}")?;
        }
        let mut text = at.map_or(String::new(), |(offset, timestamp)| {
            format!("offset {offset}, time {}: ", civil_time(timestamp))
        });
        text.extend(name.map(|name| format!("{name} ")));
        text += &key.to_string();
        if !self.keys_only {
            text += " = ";
            text += &if value.is_null() {
                "<DELETE>".to_owned()
            } else {
                with_readable_times(value.clone()).to_string()
            };
        }
        let mut fields = place;
        if let Some((offset, timestamp)) = at {
            fields.extend(object([("offset", json!(offset)), ("timestamp", json!(timestamp))]));
        }
        fields.extend(name.map(|name| ("record".to_owned(), json!(name))));
        fields.insert("key".to_owned(), key);
        if !self.keys_only {
            fields.insert("payload".to_owned(), value);
        }
        self.print("record", fields, depth, text)
    }

    /// Prints a line about something that is not damage.
    pub(super) fn note(&mut self, text: &str) -> Result<(), Failure> {
        self.print("note", object([("what", json!(text))]), 0, format!("note: {text}"))
    }

    pub(super) fn damage(&mut self, path: &Path, at: u64, what: &str) -> Result<(), Failure> {
        self.is_damaged = true;
        let file = path.display().to_string();
        let text = format!("DAMAGED {file}: byte {at}: {what}");
        let fields = [("file", json!(file)), ("byte", json!(at)), ("what", json!(what))];
        self.print("damage", object(fields), 0, text)
    }

    fn print(
        &mut self,
        kind: &str,
        mut fields: Map<String, Value>,
        depth: usize,
        text: String,
    ) -> Result<(), Failure> {
        if self.json {
            fields.insert("kind".to_owned(), json!(kind));
            writeln!(self.out, "{}", Value::Object(fields))?;
        } else {
            writeln!(self.out, "{}", indented(depth, &text))?;
        }
        Ok(())
    }
}

/// Makes timestamps readable. (In JSON output they are numbers, as in Kafka's tools.)
fn with_readable_times(value: Value) -> Value {
    let field = |(name, value): (String, Value)| {
        let is_time = name.ends_with("imestamp");
        let ms = value.as_i64().filter(|ms| is_time && *ms > 0);
        let value = ms.map_or_else(|| with_readable_times(value), |ms| json!(civil_time(ms)));
        (name, value)
    };
    match value {
        Value::Object(fields) => Value::Object(fields.into_iter().map(field).collect()),
        Value::Array(values) => Value::Array(values.into_iter().map(with_readable_times).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

fn indented(depth: usize, text: &str) -> String {
    format!("{:1$}{text}", "", 2 * depth)
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}
