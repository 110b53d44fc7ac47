//! What all shards know alike: topics, configs, producer ids. One immutable image, changed on
//! shard 0 through its log and handed to the others.

mod image;

pub use image::{BROKER_RESOURCE, ClusterImage, Overrides, TOPIC_RESOURCE, Topic};
