//! Bodies of requests and responses that the serializer of Apache Kafka 4.4.0 wrote.
#![allow(dead_code, reason = "each test uses a part")]

use flate2::read::GzDecoder;
use muster_codec::ApiKey;
use std::fmt;
use std::io::Read;

pub(crate) struct Vector {
    pub(crate) api: ApiKey,
    pub(crate) is_request: bool,
    pub(crate) version: i16,
    pub(crate) body: Vec<u8>,
}

impl fmt::Display for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_request { "request" } else { "response" };
        write!(f, "{} {kind} v{}", self.api.name(), self.version)
    }
}

/// The vectors of the APIs and versions that muster serves.
pub(crate) fn vectors() -> Vec<Vector> {
    text().lines().filter_map(served).collect()
}

/// The number of bodies that muster can read: a request and a response for each version that it
/// serves.
pub(crate) fn bodies() -> usize {
    let served: usize = ApiKey::ALL.iter().map(|api| api.versions().count()).sum();
    served * 2
}

/// All vectors, one per line: key, name, req or resp, version, hex.
pub(crate) fn text() -> String {
    let mut text = String::new();
    let file = std::fs::File::open("tests/data/message-vectors.tsv.gz").unwrap();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    text
}

fn served(line: &str) -> Option<Vector> {
    let columns: Vec<&str> = line.split('\t').collect();
    let api = ApiKey::from_key(columns[0].parse().unwrap())?;
    let version = columns[3].parse().unwrap();
    let body = unhex(columns.get(4).unwrap_or(&""));
    api.version(version).ok()?;
    Some(Vector { api, is_request: columns[2] == "req", version, body })
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}
