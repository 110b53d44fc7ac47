//! Refuses topics and partitions that do not exist, in OffsetCommit, TxnOffsetCommit and
//! OffsetDelete. The coordinator gets only topics and partitions that exist.

use muster_codec::Uuid;
use std::collections::HashMap;

/// Whether a topic with `count` partitions has this partition.
pub(super) fn has(count: i32, partition: i32) -> bool {
    (0..count).contains(&partition)
}

/// The part of an answer about one topic.
pub(in crate::dispatch) trait OfTopic {
    type Partition;

    fn topic(&self) -> (Uuid, &str);
    fn partitions(&mut self) -> &mut Vec<Self::Partition>;
}

/// Joins the lists. If a topic occurs several times, all its partitions move to its first entry.
pub(in crate::dispatch) fn gather<T: OfTopic>(refused: Vec<T>, others: Vec<T>) -> Vec<T> {
    let mut places = HashMap::with_capacity(refused.len());
    let mut gathered: Vec<T> = Vec::with_capacity(refused.len() + others.len());
    for mut topic in refused.into_iter().chain(others) {
        let (id, name) = topic.topic();
        let place = *places.entry((id, name.to_owned())).or_insert(gathered.len());
        match gathered.get_mut(place) {
            Some(first) => first.partitions().append(topic.partitions()),
            None => gathered.push(topic),
        }
    }
    gathered
}
