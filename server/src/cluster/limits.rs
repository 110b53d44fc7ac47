//! Limits on the size of a cluster. Beyond one the answer is POLICY_VIOLATION, with the reason.

use muster_fairness::ShareLimits;

/// Partitions that one request may create (Kafka's `MAX_PARTITIONS_PER_BATCH`).
pub const PARTITIONS_PER_REQUEST_MAX: i64 = 10_000;

/// Partitions of one topic.
pub const PARTITIONS_PER_TOPIC_MAX: i64 = 20_000;

/// Partitions of all user topics.
pub const PARTITIONS_MAX: i64 = 300_000;

/// Topics, the internal one included.
pub const TOPICS_MAX: usize = 100_000;

/// Topics and partitions that clients may create by naming them: the rest is for CreateTopics.
/// Topics do not expire, even unused ones.
pub const AUTO_TOPICS_MAX: usize = TOPICS_MAX / 4 * 3;
pub const AUTO_PARTITIONS_MAX: i64 = PARTITIONS_MAX / 4 * 3;

/// Groups with configs of their own, whether or not the groups exist.
pub const GROUP_CONFIGS_MAX: usize = 100_000;

/// Bytes of the configs of one group.
pub const GROUP_CONFIG_BYTES_MAX: usize = 4_096;

/// Bytes of the configs of one broker, or of all brokers, that change nothing. Among them are names
/// that Kafka does not know.
pub const UNSERVED_CONFIG_BYTES_MAX: usize = 16_384;

/// Subscriptions to metrics of clients, and bytes of the names and configs of all of them.
pub const CLIENT_METRICS_MAX: usize = 256;
pub const CLIENT_METRICS_BYTES_MAX: usize = 65_536;

/// Instructions of the expressions of all subscriptions: a client's attributes are matched in at
/// most some milliseconds.
pub const CLIENT_METRICS_INSTRUCTIONS_MAX: usize = 4_096;

/// SCRAM credentials of all users, and bytes of the name and salt of one. All of them fit in one
/// answer.
pub const SCRAM_CREDENTIALS_MAX: usize = 10_000;
pub const SCRAM_CREDENTIAL_BYTES_MAX: usize = 1_024;

/// ACLs, and bytes of name, principal and host of one. All of them fit in one answer.
pub const ACLS_MAX: usize = 10_000;
pub const ACL_BYTES_MAX: usize = 1_024;

/// ACLs that the filters of one DeleteAcls may look at, each for itself: some 20 ms. Together they
/// may match [`ACLS_MAX`].
pub const ACLS_LOOKED_AT_MAX: usize = 2_000_000;

/// Entities with client quotas, and bytes of the names of one. All of them fit in one answer.
pub const QUOTA_ENTITIES_MAX: usize = 10_000;
pub const QUOTA_ENTITY_BYTES_MAX: usize = 1_024;

/// From these numbers on, each address has a share of the topics it may create by naming them, and
/// of groups with configs.
pub const AUTO_TOPICS_SHARED: usize = AUTO_TOPICS_MAX / 2;
pub const AUTO_PARTITIONS_SHARED: i64 = AUTO_PARTITIONS_MAX / 2;
pub const GROUP_CONFIGS_SHARED: usize = GROUP_CONFIGS_MAX / 2;

/// The share: a thousand at once, then one a minute.
pub const CREATOR_SHARE: ShareLimits = ShareLimits { burst: 1_000, every_ms: 60_000 };

/// Characters of a topic's name (Kafka's `Topic.MAX_NAME_LENGTH`): with a hyphen and five digits it
/// is still a valid file name.
pub const TOPIC_NAME_CHARS_MAX: usize = 249;

const _: () = assert!(PARTITIONS_PER_REQUEST_MAX <= PARTITIONS_PER_TOPIC_MAX);
const _: () = assert!(PARTITIONS_PER_TOPIC_MAX <= PARTITIONS_MAX);
// Every topic has a partition, so there are never more topics than partitions.
const _: () = assert!(TOPICS_MAX as i64 <= PARTITIONS_MAX);
const _: () = assert!(PARTITIONS_PER_TOPIC_MAX <= 99_999 && TOPIC_NAME_CHARS_MAX + 1 + 5 <= 255);
