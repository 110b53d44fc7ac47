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

/// Unfinished requests, including the one request that may exceed the limit.
const INPUT: usize =
    INPUT_BYTES_DEFAULT + SHORT_FRAMES_BYTES_MAX + BURST_BYTES_MAX + REQUEST_BYTES_DEFAULT as usize;

/// TLS handshakes in progress: the bytes that clients have sent, and the sessions' state.
const HANDSHAKES: usize = HANDSHAKES_BYTES_MAX + HANDSHAKES_MAX * SESSION_BYTES;

/// The long request in progress, with the answer so far.
const LONG: usize = ANSWER_BYTES_MAX;

/// The request that is being handled, with its answer as values and as bytes. The largest answer
/// goes to a group's leader (the metadata of all members), or is a part of a long answer.
const HANDLED: usize = REQUEST_ARRAY_BYTES_MAX + ANSWER_BYTES_MAX;

const _: () = assert!(2 * GROUP_PROTOCOLS_BYTES_MAX <= ANSWER_BYTES_MAX);

/// A produce has a short answer. The buffer of a batch that it decompresses grows by doubling, and
/// so does the decoder's window, which is at most as large as the content may be.
const _: () = assert!(4 * DECOMPRESSED_BYTES_MAX <= HANDLED);

/// Metadata of members, offsets in open transactions, and the last rebalances.
const GROUPS: usize = MEMBERS_BYTES_MAX + PENDING_BYTES_MAX + HISTORY_BYTES_MAX;

/// Parked fetches, and reads for fetches and for offset look-ups.
const FETCHES: usize =
    PARTITION_OF_FETCH_BYTES * WAITING_PARTITIONS_MAX + READ_BYTES_IN_FLIGHT_MAX + SLICE_BYTES_MAX;

/// Requests that wait for the end of a transaction (one shard may have all coordinators), letters
/// from another shard in the mailbox, and offsets that wait for a verdict.
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
