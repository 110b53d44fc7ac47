//! The partitions of user topics that a shard leads: produce, fetch, offsets, retention.
