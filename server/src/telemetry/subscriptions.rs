//! The subscriptions in an image: which clients they match, and which metrics these clients push.

use super::limits::ATTRIBUTE_BYTES_MAX;
use super::push::Client;
use crate::cluster::{CLIENT_METRICS_RESOURCE, ClusterImage};
use crate::config::{
    ClientAttribute, ClientMetricsConfig, ClientPatterns, PUSH_INTERVAL_MS_DEFAULT,
};
use muster_codec::Uuid;
use std::collections::{BTreeMap, BTreeSet};

/// The entry in a subscription's list of metrics that selects all metrics.
const ALL_METRICS: &str = "*";

/// All subscriptions, by name.
#[derive(Debug)]
pub(super) struct Subscriptions {
    all: Vec<(ClientMetricsConfig, ClientPatterns)>,
    /// Increases with each change.
    version: u64,
}

impl Subscriptions {
    pub(super) fn of(image: &ClusterImage) -> Self {
        Self { all: all(image), version: 0 }
    }

    pub(super) fn replace(&mut self, image: &ClusterImage) {
        self.all = all(image);
        self.version += 1;
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The indexes of the subscriptions that match a client.
    pub(super) fn matched(&self, client: &Client<'_>) -> Box<[u16]> {
        let texts: BTreeMap<ClientAttribute, String> =
            ClientAttribute::ALL.iter().map(|(_, it)| (*it, client.attribute(*it))).collect();
        let of = |attribute| {
            let is_known = |text: &&String| {
                let is_null = attribute == ClientAttribute::ClientId && text.is_empty();
                !is_null && text.len() <= ATTRIBUTE_BYTES_MAX
            };
            texts.get(&attribute).filter(is_known).map(String::as_str)
        };
        let places = self.all.iter().zip(0..);
        places.filter(|((_, it), _)| it.match_all(of)).map(|(_, place)| place).collect()
    }

    /// The shortest interval among the matched subscriptions and the default, in ms.
    pub(super) fn interval_ms(&self, matched: &[u16]) -> i32 {
        let intervals = self.those(matched).map(|it| it.interval_ms);
        intervals.chain([PUSH_INTERVAL_MS_DEFAULT]).min().unwrap_or(PUSH_INTERVAL_MS_DEFAULT)
    }

    /// The prefixes of metric names that the subscriptions select, in order and without repetition.
    pub(super) fn metrics(&self, matched: &[u16]) -> impl Iterator<Item = &str> {
        let asked = || self.those(matched).flat_map(|it| &it.metrics).map(String::as_str);
        let set: BTreeSet<&str> = if asked().any(|it| it == ALL_METRICS) {
            [ALL_METRICS].into()
        } else {
            asked().collect()
        };
        set.into_iter()
    }

    /// Kafka's id of a client's subscriptions: a CRC-32C of metrics and interval, combined with the
    /// client's id. If there are several metrics, the id may differ from Kafka's, because Kafka
    /// takes them in the order of a hash set.
    pub(super) fn id_of(&self, matched: &[u16], interval_ms: i32, client: Uuid) -> i32 {
        let metrics: Vec<&str> = self.metrics(matched).collect();
        let text = format!("[{}]{interval_ms}", metrics.join(", "));
        crc32c::crc32c(text.as_bytes()).cast_signed() ^ hash(client)
    }

    fn those(&self, matched: &[u16]) -> impl Iterator<Item = &ClientMetricsConfig> {
        matched.iter().filter_map(|at| self.all.get(usize::from(*at))).map(|(config, _)| config)
    }
}

/// Parses all subscriptions. Invalid subscriptions, for example after an upgrade, are left out.
fn all(image: &ClusterImage) -> Vec<(ClientMetricsConfig, ClientPatterns)> {
    let configs = image.configured(CLIENT_METRICS_RESOURCE, "");
    let configs = configs.filter_map(|name| image.configs(CLIENT_METRICS_RESOURCE, name));
    configs.filter_map(|configs| ClientMetricsConfig::parse(configs).ok()).collect()
}

/// Java's hash code of a UUID.
fn hash(id: Uuid) -> i32 {
    let words =
        id.0.chunks_exact(4).map(|it| it.iter().fold(0u32, |sum, b| sum << 8 | u32::from(*b)));
    words.fold(0, |sum, word| sum ^ word).cast_signed()
}
