//! The limits of a shard, whatever clients ask for; its coordinators share a [`crate::Budget`]. Of
//! these Kafka has only `group.max.size`; past a limit a client gets the nearest error of the
//! protocol.

use muster_codec::limits::{ANSWER_BYTES_MAX, STRING_BYTES_MAX};
use muster_fairness::ShareLimits;

/// Groups of a shard. Past it a JoinGroup or OffsetCommit that would create one gets
/// COORDINATOR_NOT_AVAILABLE.
pub const GROUPS_MAX: usize = 1_000_000;

/// A shard with one in this many of its possible groups is short of groups: from then on each
/// address may only create its share. Past that: COORDINATOR_NOT_AVAILABLE.
pub const GROUPS_SHORT_PART: usize = 2;

/// The share, of a million: 10,000 groups at once, and then one in two seconds. So one address
/// needs more than a week to fill a shard, and by then groups with offsets only begin to expire.
pub(crate) const fn groups_share(groups_max: usize) -> ShareLimits {
    ShareLimits { burst: (groups_max / 100) as u32, every_ms: 2_000 }
}

/// Members of a group, whatever `group.max.size` says. Past it: GROUP_MAX_SIZE_REACHED.
pub const GROUP_MEMBERS_MAX: usize = 100_000;

/// Member ids of a group that were handed out and not used yet. Past it: GROUP_MAX_SIZE_REACHED.
pub const GROUP_PENDING_MEMBERS_MAX: usize = GROUP_MEMBERS_MAX;

/// Protocols that a member offers. Past it: INCONSISTENT_GROUP_PROTOCOL.
pub const MEMBER_PROTOCOLS_MAX: usize = 64;

/// Bytes of names and metadata that a member offers in JoinGroup. Past it: UNKNOWN_SERVER_ERROR,
/// which Kafka answers when the record of the group does not fit into `max.message.bytes`.
pub const MEMBER_PROTOCOLS_BYTES_MAX: usize = 1 << 20;

/// Bytes of the profile of a consumer group's member, such as names of topics. Past it:
/// UNKNOWN_SERVER_ERROR, as above.
pub const MEMBER_PROFILE_BYTES_MAX: usize = MEMBER_PROTOCOLS_BYTES_MAX;

/// Bytes of the topology of a streams group. Past it: UNKNOWN_SERVER_ERROR, as above.
pub const TOPOLOGY_BYTES_MAX: usize = MEMBER_PROTOCOLS_BYTES_MAX;

/// Bytes of the description of a topology. Past it: STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, and
/// the group is not asked for it again.
pub const TOPOLOGY_DESCRIPTION_BYTES_MAX: usize = MEMBER_PROTOCOLS_BYTES_MAX;

/// Names of topics that are looked at to decide the partitions of repartition topics, where these
/// depend on each other: some tenths of a second. Past it: STREAMS_INVALID_TOPOLOGY.
pub const STREAMS_TOPOLOGY_STEPS_MAX: usize = 1 << 20;

/// Tasks of a streams group. Past it: STREAMS_INVALID_TOPOLOGY.
pub const STREAMS_TASKS_MAX: i64 = 1 << 20;

/// Offsets of tasks in one list of a StreamsGroupHeartbeat. Past it: UNKNOWN_SERVER_ERROR, as
/// above.
pub const TASK_OFFSETS_MAX: usize = 1 << 17;

/// Bytes of the protocols or profiles of all members of a group, and of their reports; their ids
/// count, as clients choose them too. Past it: UNKNOWN_SERVER_ERROR, as above.
pub const GROUP_PROTOCOLS_BYTES_MAX: usize = 64 << 20;

/// Bytes of the protocols or profiles of the members of all groups. Past it a request that would
/// add to them gets COORDINATOR_NOT_AVAILABLE, and is retried.
pub const MEMBERS_BYTES_MAX: usize = 128 << 20;

/// Bytes of the members in a GroupMetadata record: twenty thousand of the usual size. Past it the
/// rebalance starts again with UNKNOWN_SERVER_ERROR, as in Kafka when the record exceeds the
/// `max.message.bytes` of `__consumer_offsets`, which is an eighth of it.
pub const GROUP_RECORD_BYTES_MAX: usize = 8 << 20;

/// Offsets of a group, pending ones included. Past it a new one gets INVALID_COMMIT_OFFSET_SIZE.
pub const GROUP_OFFSETS_MAX: usize = 1_000_000;

/// Bytes of the pending offsets of all open transactions, with the memory around them. Past it a
/// TxnOffsetCommit gets COORDINATOR_NOT_AVAILABLE, and is retried. It is also the most work of one
/// marker: a hundred thousand offsets.
pub const PENDING_BYTES_MAX: usize = 32 << 20;

/// Bytes of a client or instance id in a member id: with its UUID it must still be a valid string.
pub const MEMBER_NAME_BYTES_MAX: usize =
    STRING_BYTES_MAX - "-00000000-0000-0000-0000-000000000000".len();

/// The least time of a join phase that is repeated because no member has joined, in ms: rebalance
/// timeouts may be 0, and sessions may last for half an hour.
pub const JOIN_AGAIN_MS_MIN: i64 = 100;

/// Timers served, and records written, by one call of `expire`; the next call does the rest, so
/// that clients do not wait for long. A group's records are never split.
pub const EXPIRE_TIMERS_MAX: usize = 1_024;
pub const EXPIRE_RECORDS_MAX: usize = 16_384;

/// Offsets loaded by one call, for a group with more than [`EXPIRE_RECORDS_MAX`]: some tenths of a
/// millisecond. Its requests get COORDINATOR_LOAD_IN_PROGRESS until all are loaded.
pub const LOADED_OFFSETS_MAX: usize = 4_096;

/// The most offsets of a group that an operator is shown, and that are read at once for it.
pub const SURVEYED_OFFSETS_MAX: usize = 16_384;

const _: () = assert!(GROUP_MEMBERS_MAX <= u32::MAX as usize);
const _: () = assert!(MEMBER_PROTOCOLS_BYTES_MAX <= GROUP_RECORD_BYTES_MAX);
const _: () = assert!(GROUP_RECORD_BYTES_MAX <= GROUP_PROTOCOLS_BYTES_MAX);
const _: () = assert!(GROUP_PROTOCOLS_BYTES_MAX <= MEMBERS_BYTES_MAX);
// A group of the largest size can be described, and its leader's answer can list its members.
const _: () = assert!(2 * GROUP_PROTOCOLS_BYTES_MAX <= ANSWER_BYTES_MAX);
const _: () = assert!(EXPIRE_TIMERS_MAX <= EXPIRE_RECORDS_MAX);
const _: () = assert!(EXPIRE_RECORDS_MAX <= GROUP_OFFSETS_MAX);
