//! How large a cluster may grow. Past a limit the answer is POLICY_VIOLATION.

/// Partitions that one request may create (Kafka's `MAX_PARTITIONS_PER_BATCH`).
pub const PARTITIONS_PER_REQUEST_MAX: i64 = 10_000;

/// Partitions of one topic.
pub const PARTITIONS_PER_TOPIC_MAX: i64 = 20_000;

/// Partitions of all topics that were created.
pub const PARTITIONS_MAX: i64 = 300_000;

/// Topics, the internal one included.
pub const TOPICS_MAX: usize = 100_000;

/// Characters of a topic's name (Kafka's `Topic.MAX_NAME_LENGTH`): with a hyphen and a number of
/// five digits it still is a name that file systems take.
pub const TOPIC_NAME_CHARS_MAX: usize = 249;

const _: () = assert!(PARTITIONS_PER_REQUEST_MAX <= PARTITIONS_PER_TOPIC_MAX);
const _: () = assert!(PARTITIONS_PER_TOPIC_MAX <= PARTITIONS_MAX);
// Every topic has a partition: more topics than partitions cannot be reached.
const _: () = assert!(TOPICS_MAX as i64 <= PARTITIONS_MAX);
const _: () = assert!(PARTITIONS_PER_TOPIC_MAX <= 99_999 && TOPIC_NAME_CHARS_MAX + 1 + 5 <= 255);
