//! One io_uring per thread for sockets and files; or epoll and threads, if there is no io_uring.
//! This is muster's only crate with unsafe code, behind a safe API.
//!
//! # Contract
//!
//! This is the contract of [`Ring`]. A [`Poller`] follows it, too, except for statements about the
//! kernel's queues.
//!
//! - A [`Ring`] belongs to the thread that created it. The loop has three parts. Requests for
//!   operations ([`Ring::output`], [`Ring::write`], ...) only queue them. [`Ring::turn`] submits
//!   all of them and waits, in one system call. [`Ring::next_event`] is then called until it
//!   returns None. Completions are copied first and handled later, so any method may be called
//!   between two events.
//! - No input from a peer, the disk or the kernel makes this crate panic.
//! - Ids: a [`ConnId`] identifies one connection and is never reused. Calls with the id of a closed
//!   or closing connection do nothing.
//! - Connections: the first event is `Accepted` (from then on the connection receives). The last
//!   event is `Closed`, exactly once, and only after the caller's [`Ring::close`] or
//!   [`Ring::finish`]. The ring never closes a connection on its own, so the caller has to close it
//!   after `Ended` and `SendFailed`. A slot is reused only after all operations of its connection
//!   have ended and its descriptor is closed.
//! - Receiving: `Received` lends a buffer of the ring's pool. Dropping the received bytes returns
//!   the buffer. While all buffers are lent, nothing is received. [`Ring::pause_recv`] exerts
//!   back-pressure.
//! - Sending: output of a connection leaves in order. All output that is queued before a turn, or
//!   while a send is in flight, leaves in one send: many small responses cost one queue entry and
//!   no extra system call. The ring does not limit queued output; the caller has to check
//!   [`Ring::unsent`].
//! - Streaming: [`Ring::stream`] sends parts of files, slice by slice. It needs no more memory than
//!   that of the slices in progress, and some system calls for each slice: see `stream.rs`.
//!   [`Ring::read_slice`] reads the parts for the caller instead.
//! - Files: [`Ring::write`], [`Ring::read`] and [`Ring::sync`] own their [`AlignedBuf`] until the
//!   event with the caller's token returns it. Operations in flight at the same time have no order.
//!   `write.rs` describes durable writes, with measurements.
//! - [`Ring::turn`] fails only if the ring is unusable. A full submission or completion queue loses
//!   nothing. Dropping a ring cancels all operations in flight and waits for them; events that were
//!   not taken are dropped.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod accept;
mod aligned;
mod at_once;
mod buffers;
mod close;
mod config;
mod connection;
mod connection_budget;
mod disk;
mod driver;
mod event;
mod file;
mod ids;
mod map;
mod page_cache;
mod poller;
mod probe;
mod read;
mod recv;
mod ring;
mod send;
mod slice;
mod spare;
mod stream;
mod sync;
mod tag;
mod wake;
mod write;

pub use aligned::{ALIGNMENT, AlignedBuf};
pub use buffers::RecvBuf;
pub use config::{CONNECTIONS_LIMIT, Config, SPARE_SLICE_BYTES_MAX};
pub use connection_budget::ConnectionBudget;
pub use driver::Driver;
pub use event::Event;
pub use file::{File, is_open_only_here};
pub use ids::{ConnId, ListenerId};
pub use map::MappedFile;
pub use poller::{Poller, ReadBuf};
pub use probe::{OpenFiles, SetupError, file_size_limit, fit_rings, probe, raise_open_files};
pub use ring::Ring;
pub use slice::Slice;
pub use wake::Waker;
pub use write::Durability;
