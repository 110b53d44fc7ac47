//! A compacted partition whose keys and values are text.

use super::compacting::Compacting;
use super::partition::{World, small_config};
use muster_storage::TopicConfig;

/// Offset, key and value of a record.
pub type TextRead = (i64, String, Option<String>);

/// A log whose segments are sealed only by the test.
pub fn world() -> World {
    World::new(TopicConfig { segment_bytes: 4_000, ..small_config() })
}

/// Offsets, keys and values, as a consumer reads them from the beginning.
pub fn records(world: &mut World) -> Vec<TextRead> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes.trim_ascii_end()).into_owned();
    let all = world.all_records().into_iter();
    all.map(|(offset, key, value)| (offset, text(&key), value.map(|value| text(&value)))).collect()
}

pub fn read(offset: i64, key: &str, value: &str) -> TextRead {
    (offset, key.to_owned(), Some(value.to_owned()))
}
