//! Limits on the size of a cluster. Most requests that would exceed a limit get POLICY_VIOLATION,
//! with the reason.

use muster_fairness::ShareLimits;

/// Partitions that one request may create (Kafka's `MAX_PARTITIONS_PER_BATCH`).
pub const PARTITIONS_PER_REQUEST_MAX: i64 = 10_000;

/// Partitions of one topic.
pub const PARTITIONS_PER_TOPIC_MAX: i64 = 20_000;

/// Partitions of all user topics.
pub const PARTITIONS_MAX: i64 = 300_000;

/// Topics, including internal ones.
pub const TOPICS_MAX: usize = 100_000;

/// With this number of topics, or of partitions of user topics, clients can no longer create topics
/// by naming them. CreateTopics can create further topics, up to the maximum. Unused topics do not
/// expire.
pub const AUTO_TOPICS_MAX: usize = TOPICS_MAX / 4 * 3;
pub const AUTO_PARTITIONS_MAX: i64 = PARTITIONS_MAX / 4 * 3;

/// Groups with config overrides. The groups need not exist.
pub const GROUP_CONFIGS_MAX: usize = 100_000;

/// Bytes of the configs of one group.
pub const GROUP_CONFIG_BYTES_MAX: usize = 4_096;

/// Bytes of the stored configs without effect, of one broker or of the cluster-wide default. Their
/// names may be unknown to Kafka, too.
pub const UNSERVED_CONFIG_BYTES_MAX: usize = 16_384;

/// Client metrics subscriptions, and the bytes of all their names and configs.
pub const CLIENT_METRICS_MAX: usize = 256;
pub const CLIENT_METRICS_BYTES_MAX: usize = 65_536;

/// Instructions of the regular expressions of all subscriptions. Matching one client takes at most
/// a few milliseconds.
pub const CLIENT_METRICS_INSTRUCTIONS_MAX: usize = 4_096;

/// SCRAM credentials of all users, and the bytes of the name and salt of one credential. One answer
/// can hold all credentials.
pub const SCRAM_CREDENTIALS_MAX: usize = 10_000;
pub const SCRAM_CREDENTIAL_BYTES_MAX: usize = 1_024;

/// ACLs, and the bytes of name, principal and host of one ACL. One answer can hold all ACLs.
pub const ACLS_MAX: usize = 10_000;
pub const ACL_BYTES_MAX: usize = 1_024;

/// ACLs that the filters of one DeleteAcls may compare, summed over the filters: about 20 ms of
/// work. The filters may match [`ACLS_MAX`] ACLs in total.
pub const ACLS_LOOKED_AT_MAX: usize = 2_000_000;

/// Entities with client quotas, and the bytes of one entity's names. One answer can hold all
/// entities.
pub const QUOTA_ENTITIES_MAX: usize = 10_000;
pub const QUOTA_ENTITY_BYTES_MAX: usize = 1_024;

/// From these numbers on, each address may only create items from its [`CREATOR_SHARE`]: topics
/// that it creates by naming them, and groups for which it sets configs.
pub const AUTO_TOPICS_SHARED: usize = AUTO_TOPICS_MAX / 2;
pub const AUTO_PARTITIONS_SHARED: i64 = AUTO_PARTITIONS_MAX / 2;
pub const GROUP_CONFIGS_SHARED: usize = GROUP_CONFIGS_MAX / 2;

/// The share of an address: 1,000 topics or groups with configs at once, then one more each minute.
pub const CREATOR_SHARE: ShareLimits = ShareLimits { burst: 1_000, every_ms: 60_000 };

/// Characters of a topic name (Kafka's `Topic.MAX_NAME_LENGTH`). With a hyphen and five digits at
/// its end, such a name is still a valid name of a file.
pub const TOPIC_NAME_CHARS_MAX: usize = 249;

const _: () = assert!(PARTITIONS_PER_REQUEST_MAX <= PARTITIONS_PER_TOPIC_MAX);
const _: () = assert!(PARTITIONS_PER_TOPIC_MAX <= PARTITIONS_MAX);
// Every topic has at least one partition.
const _: () = assert!(TOPICS_MAX as i64 <= PARTITIONS_MAX);
const _: () = assert!(PARTITIONS_PER_TOPIC_MAX <= 99_999 && TOPIC_NAME_CHARS_MAX + 1 + 5 <= 255);
