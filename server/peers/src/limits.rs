//! The limits of connections between nodes. Those of frames and hellos are in `frame` and `hello`.

use crate::frame::FRAME_BYTES_MAX;

/// No entries are added to an output of this many bytes. The message with which it exceeds the
/// limit was added: otherwise an entry of more bytes could never be sent.
pub const OUTPUT_BYTES_MAX: usize = 8 << 20;

/// The most bytes of entries in a message, except that each message has an entry. raft joins
/// further entries to a message without a look at its size. One of more bytes than a frame would be
/// dropped again and again, and heartbeats would wait for one that is a little shorter.
pub const APPEND_BYTES_MAX: usize = 1 << 20;

/// No message at all is added to an output of this many bytes. Entries leave 1 MiB of it to other
/// messages. Heartbeats, votes and acknowledgements of other groups do not wait for a follower that
/// catches up.
pub const OUTPUT_BYTES_FULL: usize = OUTPUT_BYTES_MAX + FRAME_BYTES_MAX + (1 << 20);

/// The most accepted connections whose hello has not arrived, or was refused. For another one, the
/// oldest refused one is closed, or else the oldest one: a node says hello at once, so strangers
/// that say nothing do not keep it out. After the start of a node, all shards of the others dial
/// its shard 0 together.
pub const GREETINGS_MAX: usize = 256;

/// The time in which a hello has to arrive, its answer, and the first frame.
pub const GREETING_MS: i64 = 2_000;

/// The time in which a connection has to be opened, with the lookup of the name. A lookup may have
/// no limit of its own.
pub const DIALLING_MS: i64 = 5_000;

/// The time after which a frame is sent though there is no message.
pub const IDLE_MS: i64 = 1_000;

/// The time without any bytes after which an accepted connection is closed.
pub const SILENT_MS: i64 = 5_000;

/// The time without progress after which a connection with unsent bytes is closed.
pub const STUCK_MS: i64 = 5_000;

/// If no time was given for longer than this, this process stood still, and the others are not to
/// blame for the rest of that time. [`Peers::deadline`](crate::Peers::deadline) is at most half of
/// it ahead.
pub const PAUSE_MS: i64 = 1_000;

/// A notice is written again if it was not due for this time.
pub const QUIET_MS: i64 = 60_000;

/// The most different notices about a node, or about strangers, that are written in this time.
pub const NOTICED_MAX: usize = 16;

/// The time after which the kernel ends a dialled connection whose bytes are not acknowledged
/// (`TCP_USER_TIMEOUT`). Otherwise it would wait after a cut as long again as the cut has lasted,
/// up to two minutes, until it sends the bytes again. Accepted connections end by [`SILENT_MS`].
pub const UNACKNOWLEDGED_MS: i64 = STUCK_MS;

/// The time between the first two attempts to dial. It doubles with each further one.
pub const RETRY_MS_MIN: i64 = 50;
pub const RETRY_MS_MAX: i64 = 1_000;

/// A connection that has lasted this long is dialled again at once. Otherwise two nodes that close
/// each connection would do nothing else.
pub const LASTING_MS: i64 = 1_000;
