//! What a shard takes at most, whatever clients ask for. Kafka has no such limits but for
//! `group.max.size`; past one of them a client gets the error that is nearest in the protocol.

use crate::shares::ShareLimits;
use muster_codec::limits::{ANSWER_BYTES_MAX, STRING_BYTES_MAX};

/// Groups of a shard. Past it a JoinGroup or OffsetCommit that would create one gets
/// COORDINATOR_NOT_AVAILABLE.
pub const GROUPS_MAX: usize = 1_000_000;

/// A shard that has one group for so many that it may have is short of room: from then on each address
/// may only create its share of what is left. Past that: COORDINATOR_NOT_AVAILABLE.
pub const GROUPS_SHORT_PART: usize = 2;

/// The share, of a million: 10,000 groups at once, and then one in two seconds. So one address needs
/// more than a week to fill a shard, and by then groups that have but offsets begin to expire.
pub(crate) const fn groups_share(groups_max: usize) -> ShareLimits {
    ShareLimits { burst: (groups_max / 100) as u32, every_ms: 2_000 }
}

/// Members of a group, whatever `group.max.size` says. Past it: GROUP_MAX_SIZE_REACHED.
pub const GROUP_MEMBERS_MAX: usize = 100_000;

/// Members of a group that got an id and have yet to join with it. Past it: GROUP_MAX_SIZE_REACHED.
pub const GROUP_PENDING_MEMBERS_MAX: usize = GROUP_MEMBERS_MAX;

/// Protocols that a member offers. Past it: INCONSISTENT_GROUP_PROTOCOL.
pub const MEMBER_PROTOCOLS_MAX: usize = 64;

/// Bytes of names and metadata that a member offers in JoinGroup. Past it: UNKNOWN_SERVER_ERROR,
/// which Kafka gives when the record of the group does not fit into `max.message.bytes`.
pub const MEMBER_PROTOCOLS_BYTES_MAX: usize = 1 << 20;

/// Bytes of what a member of a consumer group says of itself, such as names of topics. Past it:
/// UNKNOWN_SERVER_ERROR, as above.
pub const MEMBER_PROFILE_BYTES_MAX: usize = MEMBER_PROTOCOLS_BYTES_MAX;

/// Bytes that the members of a group offer, or say of themselves, together; their ids count, as they
/// are chosen by clients as well. Past it:
/// UNKNOWN_SERVER_ERROR, as above.
pub const GROUP_PROTOCOLS_BYTES_MAX: usize = 64 << 20;

/// Bytes that the members of all groups offer, or say of themselves, together. Past it who would add to
/// them gets COORDINATOR_NOT_AVAILABLE, and tries again.
pub const MEMBERS_BYTES_MAX: usize = 128 << 20;

/// Bytes of the members in a GroupMetadata record: twenty thousand of the usual size. Past it the
/// rebalance starts anew with UNKNOWN_SERVER_ERROR, as in Kafka when the record exceeds the
/// `max.message.bytes` of `__consumer_offsets`, which is an eighth of it.
pub const GROUP_RECORD_BYTES_MAX: usize = 8 << 20;

/// Offsets of a group. Past it a new one gets INVALID_COMMIT_OFFSET_SIZE.
pub const GROUP_OFFSETS_MAX: usize = 1_000_000;

/// Bytes of a client or instance id that go into a member id: with its UUID it is still a string.
pub const MEMBER_NAME_BYTES_MAX: usize =
    STRING_BYTES_MAX - "-00000000-0000-0000-0000-000000000000".len();

/// How long a join phase at least takes that begins again as nobody has joined, in ms: members may say
/// that they need no time at all, and their sessions may last for half an hour.
pub const JOIN_AGAIN_MS_MIN: i64 = 100;

/// Timers served, and records written, by one call of `expire`; the rest comes with the next call,
/// so that no client waits for long. A group's records are never split.
pub const EXPIRE_TIMERS_MAX: usize = 1_024;
pub const EXPIRE_RECORDS_MAX: usize = 16_384;

const _: () = assert!(GROUP_MEMBERS_MAX <= u32::MAX as usize);
const _: () = assert!(MEMBER_PROTOCOLS_BYTES_MAX <= GROUP_RECORD_BYTES_MAX);
const _: () = assert!(GROUP_RECORD_BYTES_MAX <= GROUP_PROTOCOLS_BYTES_MAX);
const _: () = assert!(GROUP_PROTOCOLS_BYTES_MAX <= MEMBERS_BYTES_MAX);
// A group of the largest size can be described, and its leader told of its members.
const _: () = assert!(2 * GROUP_PROTOCOLS_BYTES_MAX <= ANSWER_BYTES_MAX);
const _: () = assert!(EXPIRE_TIMERS_MAX <= EXPIRE_RECORDS_MAX);
const _: () = assert!(EXPIRE_RECORDS_MAX <= GROUP_OFFSETS_MAX);
