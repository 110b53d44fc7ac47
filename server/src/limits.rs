//! The sum of all limits on the memory that a shard uses for its clients, with default configs.
//! Each limit is defined next to the code that it applies to.

use crate::config::{REQUEST_BYTES_DEFAULT, SHARD_BYTES_MAX};
use crate::groups::{ASKED_BYTES_MAX, HISTORY_BYTES_MAX};
use crate::net::limits::SLICE_BYTES_MAX;
use crate::net::{
    AMENDMENTS_BYTES_MAX, BURST_BYTES_MAX, INPUT_BYTES_DEFAULT, SHORT_FRAMES_BYTES_MAX,
    UNREAD_BYTES_MAX,
};
use crate::partitions::{
    DECOMPRESSED_BYTES_MAX, PARTITION_OF_FETCH_BYTES, READ_BYTES_IN_FLIGHT_MAX,
    UNWRITTEN_BYTES_MAX, WAITING_PARTITIONS_MAX,
};
use crate::reactor::handshakes::{HANDSHAKES_BYTES_MAX, HANDSHAKES_MAX, SESSION_BYTES};
use crate::transactions::LETTER_BYTES_MAX;
use muster_codec::limits::{ANSWER_BYTES_MAX, REQUEST_ARRAY_BYTES_MAX, STATE_REQUEST_BYTES_MAX};
use muster_coordinator::limits::{GROUP_PROTOCOLS_BYTES_MAX, MEMBERS_BYTES_MAX, PENDING_BYTES_MAX};
use muster_transactions::limits::WAITING_BYTES_MAX;

/// Requests that are not received completely. One request may exceed the limit, and is included.
const INPUT: usize =
    INPUT_BYTES_DEFAULT + SHORT_FRAMES_BYTES_MAX + BURST_BYTES_MAX + REQUEST_BYTES_DEFAULT as usize;

/// TLS handshakes in progress: the bytes that clients have sent, and the sessions' state.
const HANDSHAKES: usize = HANDSHAKES_BYTES_MAX + HANDSHAKES_MAX * SESSION_BYTES;

/// The long request in progress, with the answer so far.
const LONG: usize = ANSWER_BYTES_MAX;

/// The request that is being handled, its decoded answer and its encoded answer. The largest
/// answers are the metadata of all members for a group's leader, and a part of a long answer.
const HANDLED: usize = REQUEST_ARRAY_BYTES_MAX + ANSWER_BYTES_MAX;

const _: () = assert!(2 * GROUP_PROTOCOLS_BYTES_MAX <= ANSWER_BYTES_MAX);

/// A produce needs no more than that, because its answer is short. For a compressed batch it needs
/// a buffer and the decoder's window. Both grow by doubling, and the window is at most as large as
/// the content may be.
const _: () = assert!(4 * DECOMPRESSED_BYTES_MAX <= HANDLED);

/// Metadata of members, offsets in open transactions, and the last rebalances.
const GROUPS: usize = MEMBERS_BYTES_MAX + PENDING_BYTES_MAX + HISTORY_BYTES_MAX;

/// Parked fetches, and reads for fetches and for offset look-ups.
const FETCHES: usize =
    PARTITION_OF_FETCH_BYTES * WAITING_PARTITIONS_MAX + READ_BYTES_IN_FLIGHT_MAX + SLICE_BYTES_MAX;

/// Requests that wait for the end of a transaction (one shard may have all coordinators), letters
/// from other shards in the mailbox, and offsets that wait for a verdict. One request with offsets
/// may exceed the limit, and is included.
const TRANSACTIONS: usize = SLOTS_DEFAULT * WAITING_BYTES_MAX
    + LETTER_BYTES_MAX
    + ASKED_BYTES_MAX
    + STATE_REQUEST_BYTES_MAX;

/// The default of `offsets.topic.num.partitions`.
const SLOTS_DEFAULT: usize = 50;

const _: () = assert!(
    INPUT
        + HANDSHAKES
        + AMENDMENTS_BYTES_MAX
        + LONG
        + HANDLED
        + UNREAD_BYTES_MAX
        + GROUPS
        + UNWRITTEN_BYTES_MAX
        + FETCHES
        + TRANSACTIONS
        <= SHARD_BYTES_MAX
);
