//! The share partitions of a group, as the shards that lead them report.

use super::answer::{Answer, Refused};
use crate::cluster::ClusterImage;
use crate::inquiry::{About, Finding, ShareStart};
use crate::operator::shards::{PATIENCE, Shards};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;

/// The maximum number of share partitions in an answer.
const ROWS_MAX: usize = 1_000;

/// # Errors
/// A shard does not answer in time.
pub(super) fn partitions(
    shards: &Shards,
    image: &ClusterImage,
    group: &str,
) -> Result<(Vec<Value>, bool), Refused> {
    let group: Arc<str> = group.into();
    let mut all: Vec<ShareStart> = Vec::new();
    let take = |_, found| {
        if let Finding::Shares(rows, _) = found {
            all.extend(rows);
        }
        None
    };
    let about = || About::SharesOf(Arc::clone(&group));
    if !shards.ask_all(about, take, Instant::now() + PATIENCE) {
        return Err(Answer::unavailable("a shard does not answer in time: see /readyz"));
    }
    let named =
        all.iter().filter_map(|it| Some((&image.topic_by_id(it.partition.topic)?.name, it)));
    let mut named: Vec<_> = named.collect();
    named.sort_unstable_by_key(|(name, it)| (Arc::clone(name), it.partition.index));
    let rows = named.iter().take(ROWS_MAX).map(|(name, it)| row(name, it));
    Ok((rows.collect(), named.len() > ROWS_MAX))
}

fn row(topic: &str, of_group: &ShareStart) -> Value {
    let ShareStart { partition, start, end, lag, .. } = of_group;
    json!({ "topic": topic, "partition": partition.index, "start": start, "end": end, "lag": lag })
}
