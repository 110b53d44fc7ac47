//! The limits of a shard, which hold for all requests. The coordinators of a shard share them by a
//! [`crate::Budget`]. Of these limits Kafka has only the maximum sizes of groups and of records.
//! Beyond a limit a client gets the nearest error of the protocol.

use muster_codec::limits::{ANSWER_BYTES_MAX, STRING_BYTES_MAX};
use muster_fairness::ShareLimits;

/// Groups of a shard. Beyond this limit, a request that would create a group gets
/// COORDINATOR_NOT_AVAILABLE.
pub const GROUPS_MAX: usize = 1_000_000;

/// From [`GROUPS_MAX`] divided by this number on, each address may create only its share of groups.
/// Beyond the share: COORDINATOR_NOT_AVAILABLE.
pub const GROUPS_SHORT_PART: usize = 2;

/// The share of an address. Of 1,000,000 groups it is 10,000 at once, then one every two seconds.
/// One address needs more than a week to fill a shard; by then its first groups expire.
pub(crate) const fn groups_share(groups_max: usize) -> ShareLimits {
    ShareLimits { burst: (groups_max / 100) as u32, every_ms: 2_000 }
}

/// Members of a group, even if `group.max.size` is larger. Beyond this limit:
/// GROUP_MAX_SIZE_REACHED.
pub const GROUP_MEMBERS_MAX: usize = 100_000;

/// Member ids of a group that were assigned and not used yet. Beyond this limit:
/// GROUP_MAX_SIZE_REACHED.
pub const GROUP_PENDING_MEMBERS_MAX: usize = GROUP_MEMBERS_MAX;

/// Protocols that a member offers. Beyond this limit: INCONSISTENT_GROUP_PROTOCOL.
pub const MEMBER_PROTOCOLS_MAX: usize = 64;

/// Bytes of the protocol names and metadata in a JoinGroup. Beyond this limit:
/// UNKNOWN_SERVER_ERROR, as Kafka answers when the group's record does not fit into
/// `max.message.bytes`.
pub const MEMBER_PROTOCOLS_BYTES_MAX: usize = 1 << 20;

/// Bytes of the profile of a member of a consumer, share or streams group, such as names of topics.
/// Beyond this limit: UNKNOWN_SERVER_ERROR, as for [`MEMBER_PROTOCOLS_BYTES_MAX`].
pub const MEMBER_PROFILE_BYTES_MAX: usize = MEMBER_PROTOCOLS_BYTES_MAX;

/// Bytes of the topology of a streams group. Beyond this limit: UNKNOWN_SERVER_ERROR.
pub const TOPOLOGY_BYTES_MAX: usize = MEMBER_PROTOCOLS_BYTES_MAX;

/// Bytes of the description of a topology. Beyond this limit:
/// STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, and the coordinator does not request the description
/// again.
pub const TOPOLOGY_DESCRIPTION_BYTES_MAX: usize = MEMBER_PROTOCOLS_BYTES_MAX;

/// Steps that decide the partitions of repartition topics which depend on each other, counted in
/// names of topics: some tenths of a second. Beyond this limit: STREAMS_INVALID_TOPOLOGY.
pub const STREAMS_TOPOLOGY_STEPS_MAX: usize = 1 << 20;

/// Tasks of a streams group. Beyond this limit: STREAMS_INVALID_TOPOLOGY.
pub const STREAMS_TASKS_MAX: i64 = 1 << 20;

/// Offsets of tasks in one list of a StreamsGroupHeartbeat. Beyond this limit:
/// UNKNOWN_SERVER_ERROR.
pub const TASK_OFFSETS_MAX: usize = 1 << 17;

/// Bytes of the protocols, profiles and reports of all members of a group. The ids count too,
/// because clients choose them. Beyond this limit: UNKNOWN_SERVER_ERROR.
pub const GROUP_PROTOCOLS_BYTES_MAX: usize = 64 << 20;

/// Bytes of the protocols or profiles of the members of all groups. Beyond this limit, a request
/// that would add bytes gets COORDINATOR_NOT_AVAILABLE, which clients retry.
pub const MEMBERS_BYTES_MAX: usize = 128 << 20;

/// Bytes of the members in a GroupMetadata record, enough for 20,000 members of the usual size.
/// Beyond this limit, members get UNKNOWN_SERVER_ERROR, and the rebalance starts again. Kafka does
/// the same when the record exceeds the `max.message.bytes` of `__consumer_offsets`, which is an
/// eighth of this limit.
pub const GROUP_RECORD_BYTES_MAX: usize = 8 << 20;

/// Offsets of a group, with the pending ones. Beyond this limit, a new offset gets
/// INVALID_COMMIT_OFFSET_SIZE.
pub const GROUP_OFFSETS_MAX: usize = 1_000_000;

/// Bytes of the pending offsets of all open transactions, in memory. Beyond this limit, a
/// TxnOffsetCommit gets COORDINATOR_NOT_AVAILABLE, which clients retry. The limit also bounds the
/// work of one marker: 100,000 offsets.
pub const PENDING_BYTES_MAX: usize = 32 << 20;

/// Bytes of the client id or instance id with which a member id begins. After it comes a UUID, and
/// the member id must still be a valid string.
pub const MEMBER_NAME_BYTES_MAX: usize =
    STRING_BYTES_MAX - "-00000000-0000-0000-0000-000000000000".len();

/// If no member has joined, the join phase starts again, and lasts at least this long. Otherwise it
/// could start again and again without a pause for half an hour: rebalance timeouts may be 0, and
/// sessions may last that long.
pub const JOIN_AGAIN_MS_MIN: i64 = 100;

/// The maximum number of timers that one call of `expire` serves, and about the maximum number of
/// records that it writes. The next call continues, so that clients do not wait. Only tombstones of
/// offsets are divided between calls, not other records of a group.
pub const EXPIRE_TIMERS_MAX: usize = 1_024;
pub const EXPIRE_RECORDS_MAX: usize = 16_384;

/// If a group has more than [`EXPIRE_RECORDS_MAX`] offsets, each call loads this number of them, in
/// some tenths of a millisecond. Requests get COORDINATOR_LOAD_IN_PROGRESS until all are loaded.
pub const LOADED_OFFSETS_MAX: usize = 4_096;

/// The most offsets of a group that an operator sees. They are read in one call.
pub const SURVEYED_OFFSETS_MAX: usize = 16_384;

const _: () = assert!(GROUP_MEMBERS_MAX <= u32::MAX as usize);
const _: () = assert!(MEMBER_PROTOCOLS_BYTES_MAX <= GROUP_RECORD_BYTES_MAX);
const _: () = assert!(GROUP_RECORD_BYTES_MAX <= GROUP_PROTOCOLS_BYTES_MAX);
const _: () = assert!(GROUP_PROTOCOLS_BYTES_MAX <= MEMBERS_BYTES_MAX);
// The answers that describe the largest group, and that list its members to the leader, must fit.
const _: () = assert!(2 * GROUP_PROTOCOLS_BYTES_MAX <= ANSWER_BYTES_MAX);
const _: () = assert!(EXPIRE_TIMERS_MAX <= EXPIRE_RECORDS_MAX);
const _: () = assert!(EXPIRE_RECORDS_MAX <= GROUP_OFFSETS_MAX);
