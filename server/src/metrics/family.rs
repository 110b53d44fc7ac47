//! Metric families and their text, in Prometheus' text format 0.0.4 and in OpenMetrics 1.0.

use muster_counters::Histogram;
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// The two text formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Prometheus,
    OpenMetrics,
}

impl Form {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Counter,
    Gauge,
    Histogram,
    Summary,
    /// The type of some of Kafka's metrics: their names end like those of another type.
    Unknown,
}

impl Type {
    pub(super) fn name(self, form: Form) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
            Self::Unknown => match form {
                Form::Prometheus => "untyped",
                Form::OpenMetrics => "unknown",
            },
        }
    }
}

/// All samples of one metric name.
#[derive(Debug, Clone)]
pub(super) struct Family {
    pub(super) help: String,
    pub(super) of_type: Type,
    /// `seconds` or `bytes` if the metric's name ends with this unit.
    pub(super) unit: Option<&'static str>,
    samples: Vec<Sample>,
}

#[derive(Debug, Clone)]
struct Sample {
    /// A suffix of the name, such as `_total` or `_bucket`.
    suffix: &'static str,
    labels: Vec<(&'static str, String)>,
    value: f64,
}

/// The names and values of labels.
pub(super) type Labels = Vec<(&'static str, String)>;

/// Metric families by name.
#[derive(Debug, Default)]
pub(super) struct Families(BTreeMap<String, Family>);

impl Families {
    /// The family with this name; it is added if it is missing.
    pub(super) fn family(&mut self, name: &str, help: &str, of_type: Type) -> &mut Family {
        let family = self.0.entry(name.to_owned()).or_insert_with(|| {
            let unit = ["seconds", "bytes"].into_iter().find(|unit| {
                name.strip_suffix(unit).is_some_and(|beginning| beginning.ends_with('_'))
            });
            Family { help: help.to_owned(), of_type, unit, samples: Vec::new() }
        });
        debug_assert_eq!(family.of_type, of_type, "{name}");
        family
    }

    /// The text of all families. `others` has the text of further families, which is added at the
    /// end.
    pub(super) fn write(&self, form: Form, others: &str) -> String {
        let mut text = String::new();
        for (name, family) in &self.0 {
            // Writing to a string cannot fail.
            let _ = family.write(name, form, &mut text);
        }
        text.push_str(others);
        if form == Form::OpenMetrics {
            text.push_str("# EOF\n");
        }
        text
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &Family)> {
        self.0.iter()
    }
}

impl Family {
    /// Adds a sample. The name of a counter's sample gets the suffix `_total`.
    pub(super) fn add(&mut self, labels: Labels, value: f64) {
        let suffix = if self.of_type == Type::Counter { "_total" } else { "" };
        self.samples.push(Sample { suffix, labels, value });
    }

    /// Adds a sample whose name has this suffix.
    pub(super) fn add_as(&mut self, suffix: &'static str, labels: Labels, value: f64) {
        self.samples.push(Sample { suffix, labels, value });
    }

    /// Adds a histogram. Its values are divided by `divisor`.
    pub(super) fn add_histogram(&mut self, labels: Labels, histogram: &Histogram, divisor: f64) {
        let mut so_far = 0;
        for (largest, count) in histogram.buckets() {
            so_far += count;
            let le = largest.map_or("+Inf".to_owned(), |it| (it as f64 / divisor).to_string());
            let mut labels = labels.clone();
            labels.push(("le", le));
            self.add_as("_bucket", labels, so_far as f64);
        }
        self.add_as("_sum", labels.clone(), histogram.sum() as f64 / divisor);
        self.add_as("_count", labels, so_far as f64);
    }

    /// The label names of the first sample.
    #[cfg(test)]
    pub(super) fn labels(&self) -> Vec<&'static str> {
        let first = self.samples.first().into_iter().flat_map(|sample| &sample.labels);
        first.map(|(label, _)| *label).collect()
    }

    fn write(&self, name: &str, form: Form, out: &mut String) -> fmt::Result {
        let is_counter = form == Form::Prometheus && self.of_type == Type::Counter;
        let named = if is_counter { format!("{name}_total") } else { name.to_owned() };
        writeln!(out, "# HELP {named} {}", Escaped(&self.help, form == Form::OpenMetrics))?;
        writeln!(out, "# TYPE {named} {}", self.of_type.name(form))?;
        if let (Form::OpenMetrics, Some(unit)) = (form, self.unit) {
            writeln!(out, "# UNIT {named} {unit}")?;
        }
        self.samples.iter().try_for_each(|sample| sample.write(name, out))
    }
}

impl Sample {
    fn write(&self, name: &str, out: &mut String) -> fmt::Result {
        write!(out, "{name}{}", self.suffix)?;
        for (place, (label, value)) in self.labels.iter().enumerate() {
            let open = if place == 0 { '{' } else { ',' };
            write!(out, "{open}{label}=\"{}\"", Escaped(value, true))?;
        }
        if !self.labels.is_empty() {
            out.push('}');
        }
        writeln!(out, " {}", Number(self.value))
    }
}

/// A number in the notation of both formats.
struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_infinite() {
            return f.write_str(if self.0 > 0.0 { "+Inf" } else { "-Inf" });
        }
        write!(f, "{}", self.0)
    }
}

/// A text with escaped backslashes and line breaks, and with escaped quotes if the flag is set.
struct Escaped<'t>(&'t str, bool);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\\' => f.write_str("\\\\"),
            '\n' => f.write_str("\\n"),
            '"' if self.1 => f.write_str("\\\""),
            c => f.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn families() -> Families {
        let mut families = Families::default();
        let counter = families.family("a_bytes", "Bytes,\nof \"a\".", Type::Counter);
        counter.add(vec![("g", "x\\\"y\n".to_owned())], 3.0);
        families.family("b", "Odd.", Type::Unknown).add(Vec::new(), f64::NAN);
        let mut histogram = Histogram::default();
        [0, 3, u64::MAX].into_iter().for_each(|it| histogram.record(it));
        let family = families.family("c_seconds", "Times.", Type::Histogram);
        family.add_histogram(vec![("s", "0".to_owned())], &histogram, 1e6);
        families
    }

    #[test]
    fn both_forms_have_the_names_and_types_that_they_ask_for() {
        let text = families().write(Form::Prometheus, "");
        let beginning = "# HELP a_bytes_total Bytes,\\nof \"a\".\n\
             # TYPE a_bytes_total counter\n\
             a_bytes_total{g=\"x\\\\\\\"y\\n\"} 3\n\
             # HELP b Odd.\n\
             # TYPE b untyped\n\
             b NaN\n";
        assert!(text.starts_with(beginning), "{text}");
        let text = families().write(Form::OpenMetrics, "");
        let beginning = "# HELP a_bytes Bytes,\\nof \\\"a\\\".\n\
             # TYPE a_bytes counter\n\
             # UNIT a_bytes bytes\n\
             a_bytes_total{g=\"x\\\\\\\"y\\n\"} 3\n\
             # HELP b Odd.\n\
             # TYPE b unknown\n";
        assert!(text.starts_with(beginning) && text.ends_with("\n# EOF\n"), "{text}");
    }

    #[test]
    fn a_histogram_adds_up_to_its_last_bucket() {
        let text = families().write(Form::Prometheus, "");
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("c_seconds")).collect();
        assert_eq!(lines.len(), 32 + 2);
        assert_eq!(lines[0], "c_seconds_bucket{s=\"0\",le=\"0\"} 1");
        assert_eq!(lines[2], "c_seconds_bucket{s=\"0\",le=\"0.000003\"} 2");
        assert_eq!(lines[31], "c_seconds_bucket{s=\"0\",le=\"+Inf\"} 3");
        assert_eq!(lines[33], "c_seconds_count{s=\"0\"} 3");
    }
}
