//! Reads OTLP metrics in place (`opentelemetry/proto/metrics/v1/metrics.proto`): the values of
//! gauges and sums, which are all that Kafka's clients push. Also makes the copy to forward, with
//! attributes added to each resource. The messages `MetricsData` and `ExportMetricsServiceRequest`
//! have the same encoding.

use super::limits::LABELS_MAX;
use super::protobuf::{Content, Fields, Malformed, put, put_bytes};

/// A data point of a client.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point<'a> {
    pub(super) name: &'a [u8],
    pub(super) kind: Kind,
    pub(super) value: f64,
    /// The consumer's group.
    pub(super) group: Option<&'a str>,
    /// The attributes of the point, as encoded messages.
    pub(super) attributes: Vec<&'a [u8]>,
}

/// The value of a point, and its attributes.
type Valued<'a> = (f64, Vec<&'a [u8]>);

/// How to interpret a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Gauge,
    /// A counter's increase since the last push.
    Added,
    /// A counter's absolute value.
    Counted,
}

/// The field numbers of messages.
mod field {
    pub(super) const RESOURCE_METRICS: u32 = 1;
    pub(super) const RESOURCE: u32 = 1;
    pub(super) const SCOPE_METRICS: u32 = 2;
    pub(super) const METRICS: u32 = 2;
    pub(super) const NAME: u32 = 1;
    pub(super) const GAUGE: u32 = 5;
    pub(super) const SUM: u32 = 7;
    pub(super) const POINTS: u32 = 1;
    pub(super) const TEMPORALITY: u32 = 2;
    pub(super) const MONOTONIC: u32 = 3;
    pub(super) const DOUBLE: u32 = 4;
    pub(super) const INTEGER: u32 = 6;
    pub(super) const POINT_ATTRIBUTES: u32 = 7;
    pub(super) const RESOURCE_ATTRIBUTES: u32 = 1;
    pub(super) const KEY: u32 = 1;
    pub(super) const VALUE: u32 = 2;
    pub(super) const STRING: u32 = 1;
    pub(super) const BOOLEAN: u32 = 2;
    pub(super) const VALUE_INTEGER: u32 = 3;
    pub(super) const VALUE_DOUBLE: u32 = 4;
}

/// `AGGREGATION_TEMPORALITY_DELTA`
const DELTA: u64 = 1;

/// The attribute of a consumer's resource that names its group.
const GROUP_ID: &[u8] = b"group_id";

/// Visits all points of gauges and sums. Other metrics are skipped.
///
/// # Errors
/// The bytes are not valid metrics. Some points may have been visited.
pub(super) fn visit<'a>(
    metrics: &'a [u8],
    visit: &mut impl FnMut(Point<'a>),
) -> Result<(), Malformed> {
    for field in Fields::of(metrics) {
        if let (field::RESOURCE_METRICS, content) = field? {
            of_resource(content.bytes()?, visit)?;
        }
    }
    Ok(())
}

/// A copy of the metrics with attributes added to each resource. (Java's clients send one resource
/// for each metric.) None if the copy would exceed `bytes_max`.
///
/// # Errors
/// The bytes are not valid metrics.
pub(super) fn with_attributes(
    metrics: &[u8],
    attributes: &[(&str, String)],
    bytes_max: usize,
) -> Result<Option<Vec<u8>>, Malformed> {
    let mut added = Vec::new();
    for (name, value) in attributes {
        put_bytes(&mut added, field::RESOURCE_ATTRIBUTES, &attribute_of(name, value));
    }
    let mut out = Vec::new();
    for field in Fields::of(metrics) {
        if out.len() > bytes_max {
            return Ok(None);
        }
        match field? {
            (field::RESOURCE_METRICS, content) => {
                let resource = resource_with(content.bytes()?, &added)?;
                put_bytes(&mut out, field::RESOURCE_METRICS, &resource);
            }
            other => put(&mut out, other),
        }
    }
    Ok(Some(out).filter(|out| out.len() <= bytes_max))
}

/// The key of an attribute, and its value as text. A value such as a list has an empty text.
pub(super) fn attribute(message: &[u8]) -> Result<(&[u8], String), Malformed> {
    let (mut key, mut value) = (&[][..], String::new());
    for field in Fields::of(message) {
        match field? {
            (field::KEY, content) => key = content.bytes()?,
            (field::VALUE, content) => value = text_of(content.bytes()?)?,
            _ => {}
        }
    }
    Ok((key, value))
}

fn attribute_of(name: &str, value: &str) -> Vec<u8> {
    let (mut text, mut out) = (Vec::new(), Vec::new());
    put_bytes(&mut text, field::STRING, value.as_bytes());
    put_bytes(&mut out, field::KEY, name.as_bytes());
    put_bytes(&mut out, field::VALUE, &text);
    out
}

/// A copy of resource metrics with attributes added to the resource. If the field of the resource
/// occurs several times, joins its parts, as every reader of protocol buffers does.
fn resource_with(message: &[u8], added: &[u8]) -> Result<Vec<u8>, Malformed> {
    let (mut resource, mut rest) = (Vec::new(), Vec::new());
    for field in Fields::of(message) {
        match field? {
            (field::RESOURCE, content) => resource.extend_from_slice(content.bytes()?),
            other => put(&mut rest, other),
        }
    }
    resource.extend_from_slice(added);
    let mut out = Vec::with_capacity(resource.len() + rest.len() + 16);
    put_bytes(&mut out, field::RESOURCE, &resource);
    out.extend(rest);
    Ok(out)
}

fn of_resource<'a>(message: &'a [u8], visit: &mut impl FnMut(Point<'a>)) -> Result<(), Malformed> {
    let group = group_of(message)?;
    for field in Fields::of(message) {
        if let (field::SCOPE_METRICS, content) = field? {
            of_scope(content.bytes()?, group, visit)?;
        }
    }
    Ok(())
}

fn group_of(resource_metrics: &[u8]) -> Result<Option<&str>, Malformed> {
    let mut group = None;
    for field in Fields::of(resource_metrics) {
        let (field::RESOURCE, content) = field? else { continue };
        for field in Fields::of(content.bytes()?) {
            let (field::RESOURCE_ATTRIBUTES, content) = field? else { continue };
            if let Some(found) = group_in(content.bytes()?)? {
                group = Some(found);
            }
        }
    }
    Ok(group)
}

fn group_in(attribute: &[u8]) -> Result<Option<&str>, Malformed> {
    let (mut is_group, mut group) = (false, None);
    for field in Fields::of(attribute) {
        match field? {
            (field::KEY, content) => is_group = content.bytes()? == GROUP_ID,
            (field::VALUE, content) => {
                for field in Fields::of(content.bytes()?) {
                    if let (field::STRING, text) = field? {
                        group = std::str::from_utf8(text.bytes()?).ok();
                    }
                }
            }
            _ => {}
        }
    }
    Ok(group.filter(|_| is_group))
}

fn of_scope<'a>(
    message: &'a [u8],
    group: Option<&'a str>,
    visit: &mut impl FnMut(Point<'a>),
) -> Result<(), Malformed> {
    for field in Fields::of(message) {
        if let (field::METRICS, content) = field? {
            of_metric(content.bytes()?, group, visit)?;
        }
    }
    Ok(())
}

fn of_metric<'a>(
    message: &'a [u8],
    group: Option<&'a str>,
    visit: &mut impl FnMut(Point<'a>),
) -> Result<(), Malformed> {
    let (mut name, mut data) = (&[][..], None);
    for field in Fields::of(message) {
        match field? {
            (field::NAME, content) => name = content.bytes()?,
            (number @ (field::GAUGE | field::SUM), content) => {
                data = Some((number, content.bytes()?));
            }
            _ => {}
        }
    }
    let Some((number, data)) = data else { return Ok(()) };
    let kind = if number == field::SUM { kind_of_sum(data)? } else { Kind::Gauge };
    for field in Fields::of(data) {
        if let (field::POINTS, content) = field?
            && let Some((value, attributes)) = point(content.bytes()?)?
        {
            visit(Point { name, kind, value, group, attributes });
        }
    }
    Ok(())
}

/// The kind of a sum: a counter, or a gauge if the sum may also decrease.
fn kind_of_sum(sum: &[u8]) -> Result<Kind, Malformed> {
    let (mut temporality, mut is_monotonic) = (0, false);
    for field in Fields::of(sum) {
        match field? {
            (field::TEMPORALITY, content) => temporality = content.number()?,
            (field::MONOTONIC, content) => is_monotonic = content.number()? != 0,
            _ => {}
        }
    }
    Ok(match (is_monotonic, temporality) {
        (false, _) => Kind::Gauge,
        (true, DELTA) => Kind::Added,
        (true, _) => Kind::Counted,
    })
}

/// The value of a point and its attributes; None if the point has no value.
fn point(message: &[u8]) -> Result<Option<Valued<'_>>, Malformed> {
    let (mut value, mut attributes) = (None, Vec::new());
    for field in Fields::of(message) {
        match field? {
            (field::DOUBLE, content) => value = Some(f64::from_bits(content.number()?)),
            (field::INTEGER, content) => value = Some(content.number()?.cast_signed() as f64),
            (field::POINT_ATTRIBUTES, content) if attributes.len() < LABELS_MAX => {
                attributes.push(content.bytes()?);
            }
            _ => {}
        }
    }
    Ok(value.map(|value| (value, attributes)))
}

fn text_of(value: &[u8]) -> Result<String, Malformed> {
    let mut text = String::new();
    for field in Fields::of(value) {
        text = match field? {
            (field::STRING, content) => content.text()?,
            (field::BOOLEAN, content) => (content.number()? != 0).to_string(),
            (field::VALUE_INTEGER, content) => content.number()?.cast_signed().to_string(),
            (field::VALUE_DOUBLE, Content::Fixed64(bits)) => f64::from_bits(bits).to_string(),
            _ => continue,
        };
    }
    Ok(text)
}
