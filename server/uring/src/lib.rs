//! One io_uring per thread, for sockets and files, or epoll and threads where there is none: the
//! only crate of muster with unsafe code, behind a safe API.
//!
//! # Contract
//!
//! That of [`Ring`]. A [`Poller`] keeps it, too, but for what names the kernel's queues.
//!
//! - A [`Ring`] belongs to the thread that created it. The loop is: request operations
//!   ([`Ring::output`], [`Ring::write`], ...), which only queues them; [`Ring::turn`], which
//!   submits them all and waits, in one system call; then [`Ring::next_event`] until None.
//!   Completions are copied first and handled later: any method may be called between two events.
//! - No input from the peer, the disk or the kernel makes this crate panic.
//! - Ids: a [`ConnId`] identifies one connection and is never reused. Calls with an id whose
//!   connection is closed, or closing, do nothing.
//! - Connections: `Accepted` first (they receive at once), `Closed` last, exactly once, and only
//!   after the caller's [`Ring::close`] or [`Ring::finish`]: the ring never closes a connection on
//!   its own, so the caller has to close it after `Ended` and `SendFailed`. A slot is reused only
//!   after every operation of its connection has ended and its descriptor is closed.
//! - Receiving: `Received` lends a buffer of the ring's pool; dropping it returns it. While all are
//!   lent, nothing is received. [`Ring::pause_recv`] is the back-pressure.
//! - Sending: output of a connection leaves in order. Output that is queued when a turn begins, or
//!   while a send is in flight, leaves in one send: many small responses cost one entry and no
//!   system call. The ring does not limit the queue: the caller has to check [`Ring::unsent`].
//! - Streaming: [`Ring::stream`] sends parts of files, a slice at a time, with no more memory than
//!   that of the slices under way, and with some system calls for each slice: see `stream.rs`.
//!   [`Ring::read_slice`] reads them for the caller instead.
//! - Files: [`Ring::write`], [`Ring::read`] and [`Ring::sync`] own their [`AlignedBuf`] until the
//!   event with the caller's token returns it. Operations in flight together have no order.
//!   `write.rs` describes durable writes, with measurements.
//! - [`Ring::turn`] fails only when the ring is unusable; a full submission or completion queue
//!   loses nothing. Dropping a ring cancels and awaits all operations in flight; events that were
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
