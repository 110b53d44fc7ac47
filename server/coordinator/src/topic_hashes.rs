//! The hash of the topics that a group subscribes to (KIP-1101). The hash changes when a topic is
//! created, extended, moved to other racks or deleted. Records contain it, so it must equal
//! Kafka's.

use crate::context::Topics;
use crate::text::Text;
use alloc::vec::Vec;
use hashbrown::HashMap;
use muster_codec::Uuid;
use xxhash_rust::xxh3::xxh3_64;

/// The first byte of the hashed bytes of a topic: the version of their format.
const MAGIC: u8 = 0;

/// The hashes of topics, computed once per version of the topics.
#[derive(Debug, Default)]
pub(crate) struct TopicHashes {
    version: Option<i64>,
    by_name: HashMap<Text, u64>,
}

impl TopicHashes {
    /// The combined hash of several topics. `names` are sorted; topics that do not exist are
    /// skipped.
    pub(crate) fn of_group<'n>(
        &mut self,
        topics: &dyn Topics,
        names: impl Iterator<Item = &'n Text>,
    ) -> i64 {
        let hashes = names.filter_map(|name| self.of_topic(topics, name));
        let bytes: Vec<u8> = hashes.flat_map(u64::to_le_bytes).collect();
        if bytes.is_empty() { 0 } else { xxh3_64(&bytes).cast_signed() }
    }

    fn of_topic(&mut self, topics: &dyn Topics, name: &Text) -> Option<u64> {
        let version = Some(topics.version());
        if self.version != version {
            self.by_name.clear();
            self.version = version;
        }
        if let Some(hash) = self.by_name.get(name) {
            return Some(*hash);
        }
        let hash = hash_topic(topics, name, topics.id(name)?, topics.partitions(name)?);
        self.by_name.insert(name.clone(), hash);
        Some(hash)
    }
}

/// The hash of a topic. The hashed bytes are Kafka's: numbers are little endian. A string is in
/// UTF-16, followed by its length; the length of a rack also precedes it.
fn hash_topic(topics: &dyn Topics, name: &str, id: Uuid, partitions: i32) -> u64 {
    let mut bytes = Vec::from([MAGIC]);
    bytes.extend(id.0[..8].iter().rev());
    bytes.extend(id.0[8..].iter().rev());
    put_string(&mut bytes, name);
    bytes.extend(partitions.to_le_bytes());
    for partition in 0..partitions {
        bytes.extend(partition.to_le_bytes());
        for rack in topics.racks(name, partition) {
            put_length(&mut bytes, rack);
            put_string(&mut bytes, rack);
        }
    }
    xxh3_64(&bytes)
}

fn put_string(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
    put_length(bytes, text);
}

fn put_length(bytes: &mut Vec<u8>, text: &str) {
    let length = text.encode_utf16().count();
    bytes.extend((length as u32).to_le_bytes());
}
