//! The sum of the limits on the memory that a shard holds for its clients, with the default
//! configs. Each limit is defined beside the code that it applies to.

use crate::net::limits::SLICE_BYTES_MAX;
use crate::net::{BURST_BYTES_MAX, INPUT_BYTES_DEFAULT, SHORT_FRAMES_BYTES_MAX, UNREAD_BYTES_MAX};
use crate::partitions::{READ_BYTES_IN_FLIGHT_MAX, UNWRITTEN_BYTES_MAX, WAITING_PARTITIONS_MAX};
use muster_codec::limits::{ANSWER_BYTES_MAX, REQUEST_ARRAY_BYTES_MAX};
use muster_coordinator::limits::{GROUP_PROTOCOLS_BYTES_MAX, MEMBERS_BYTES_MAX};

/// The bound on the sum.
const SHARD_BYTES_MAX: usize = 1 << 30;

/// `socket.request.max.bytes`
const REQUEST_BYTES_MAX: usize = 100 << 20;

/// Unfinished requests, and the one that is still received over the limit.
const INPUT: usize =
    INPUT_BYTES_DEFAULT + SHORT_FRAMES_BYTES_MAX + BURST_BYTES_MAX + REQUEST_BYTES_MAX;

/// The long request under way, and its answer so far.
const LONG: usize = ANSWER_BYTES_MAX;

/// The request that is being handled, and its answer as values and as bytes: at most that of a
/// group's leader, with the metadata of all members, or the next part of a long one.
const HANDLED: usize = REQUEST_ARRAY_BYTES_MAX + ANSWER_BYTES_MAX;

const _: () = assert!(2 * GROUP_PROTOCOLS_BYTES_MAX <= ANSWER_BYTES_MAX);

/// Parked fetches, with some 400 bytes for each partition, and the reads for fetches and look-ups.
const FETCHES: usize = 400 * WAITING_PARTITIONS_MAX + READ_BYTES_IN_FLIGHT_MAX + SLICE_BYTES_MAX;

const _: () = assert!(
    INPUT + LONG + HANDLED + UNREAD_BYTES_MAX + MEMBERS_BYTES_MAX + UNWRITTEN_BYTES_MAX + FETCHES
        <= SHARD_BYTES_MAX
);
