//! Limits of connections and of the memory that is held for them.

use crate::config::{Config, ListenerIndex, ServedListener};
use crate::quotas::Bound;
use std::collections::HashMap;
use std::net::IpAddr;

/// The limit on the input of all connections together if `queued.max.request.bytes` is not set.
pub(crate) const INPUT_BYTES_DEFAULT: usize = 100 << 20;

/// The reserve beyond that limit for finished frames and for short frames (`inputs.rs`). So large
/// frames of some clients do not delay the short frames of others.
pub(crate) const SHORT_FRAMES_BYTES_MAX: usize = 32 << 20;

/// The reserve for bytes that arrive after a pause was requested, but before it takes effect. It is
/// larger than the receive buffers that a shard can fill in two turns (passes of its loop).
pub(crate) const BURST_BYTES_MAX: usize = 16 << 20;

/// The budget of unread answers; the answer that exceeds it is still sent.
pub(crate) const UNREAD_BYTES_MAX: usize = 64 << 20;

/// The limit on the bytes of refusals that wait until the rest of their answers is known. For
/// example, a Fetch with many denied topics may wait for records of the only topic that it may
/// read.
pub(crate) const AMENDMENTS_BYTES_MAX: usize = 32 << 20;

/// The number of bytes of a fetch answer that are read and sent at once. They are few, so that they
/// are still in the core's cache when they are sent.
pub(crate) const SLICE_BYTES: usize = 256 << 10;

/// The number of bytes of an encrypted slice. It is smaller because bytes that the socket does not
/// accept are held in memory instead of being read again.
pub(crate) const ENCRYPTED_SLICE_BYTES: usize = 64 << 10;

/// The maximum number of pieces in a slice: parts of files, and bytes between them.
pub(crate) const SLICE_PIECES_MAX: usize = 256;

/// The maximum number of bytes in the name and in the version of a client's software. Longer texts
/// are not kept.
pub(crate) const SOFTWARE_BYTES_MAX: usize = 128;

/// The maximum number of slices under way on all connections of a shard. Further slices wait for
/// their turn.
pub const SLICES_MAX: usize = 32;

/// The maximum number of bytes in all slices under way.
pub(crate) const SLICE_BYTES_MAX: usize = SLICES_MAX * SLICE_BYTES;

const _: () = assert!(SLICE_BYTES_MAX <= 16 << 20);

/// The maximum number of a shard's clients that are not authenticated. Beyond it the clients that
/// have waited longest are closed.
pub(crate) const UNAUTHENTICATED_MAX: usize = 4_096;

/// The maximum number of a listener's new connections that wait to be admitted. Further connections
/// are closed.
pub(super) const WAITING_AT_DOOR_MAX: usize = 4_096;

/// The time that a client may take to authenticate.
pub(crate) const AUTHENTICATION_PATIENCE_MS: i64 = 30_000;

/// The maximum number of requests in flight on a connection, and of answer bytes that its client
/// may leave unread.
const REQUESTS_IN_FLIGHT_MAX: usize = 1_000;
const OUTPUT_BYTES_MAX: usize = 4 << 20;

/// The limits on a shard's connections and on the memory of each.
#[derive(Debug, Clone)]
pub struct Limits {
    /// `max.connections`
    pub connections: usize,
    /// The limits of each listener, in order.
    pub doors: Vec<DoorLimits>,
    /// `max.connections.per.ip`
    pub connections_per_ip: usize,
    /// `max.connections.per.ip.overrides`
    pub per_ip_overrides: HashMap<IpAddr, usize>,
    /// New connections per second: `max.connection.creation.rate`.
    pub new_connections: Option<Bound>,
    /// Requests in flight on a connection before reading from it stops.
    pub requests_in_flight: usize,
    /// Bytes of answers that a client may leave unread before reading from its connection stops.
    pub output_bytes: usize,
    /// Bytes of input that is not handled, of all connections: `queued.max.request.bytes`.
    pub input_bytes: usize,
    /// Bytes of answers that all clients together may leave unread.
    pub unread_bytes: usize,
}

/// The limits on the connections of one listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DoorLimits {
    /// `listener.name.NAME.max.connections`
    pub connections: usize,
    /// New connections per second: `listener.name.NAME.max.connection.creation.rate`.
    pub new_connections: Option<Bound>,
    /// Whether the common limits of all listeners do not apply to this listener
    /// (`inter.broker.listener.name`).
    pub is_spared: bool,
}

impl Limits {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            connections: config.max_connections.unsigned_abs() as usize,
            doors: doors(config),
            connections_per_ip: config.max_connections_per_ip.unsigned_abs() as usize,
            per_ip_overrides: config.connections_per_ip_overrides(),
            new_connections: new_connections_max(config),
            requests_in_flight: REQUESTS_IN_FLIGHT_MAX,
            output_bytes: OUTPUT_BYTES_MAX,
            input_bytes: input_bytes_max(config),
            unread_bytes: config.of_memory(UNREAD_BYTES_MAX),
        }
    }
}

impl Limits {
    /// The limits of a listener.
    pub(super) fn of_door(&self, listener: ListenerIndex) -> DoorLimits {
        let any = DoorLimits {
            connections: self.connections,
            new_connections: self.new_connections,
            is_spared: false,
        };
        self.doors.get(listener.0).copied().unwrap_or(any)
    }

    /// The maximum number of connections of an address. `host` is the address as Kafka prints it:
    /// `/127.0.0.1`.
    pub(super) fn per_ip_max(&self, host: &str) -> usize {
        if self.per_ip_overrides.is_empty() {
            return self.connections_per_ip;
        }
        let address = host.trim_start_matches('/').parse().ok();
        let own = address.and_then(|address: IpAddr| self.per_ip_overrides.get(&address));
        own.copied().unwrap_or(self.connections_per_ip)
    }
}

/// The limits of each listener. If a listener has no limit of its own, the server's limit applies.
fn doors(config: &Config) -> Vec<DoorLimits> {
    let listeners: &[_] = config.served.as_ref().map_or(&[], |served| &served.listeners);
    let of = |listener: &ServedListener| {
        let own = config.of_listener(&listener.name);
        DoorLimits {
            connections: own.max_connections.unsigned_abs() as usize,
            new_connections: new_connections_max(&own),
            is_spared: listeners.len() > 1 && config.is_between_brokers(&listener.name),
        }
    };
    listeners.iter().map(of).collect()
}

/// The maximum number of new connections per second; None for Kafka's default, i32::MAX, which
/// means no limit.
fn new_connections_max(config: &Config) -> Option<Bound> {
    let rate = config.max_connection_creation_rate;
    (rate < i32::MAX).then(|| Bound::from(rate.unsigned_abs()))
}

/// `queued.max.request.bytes`. Kafka's default is no limit. The default here is a limit with room
/// for a request of the maximum size.
fn input_bytes_max(config: &Config) -> usize {
    let largest = config.socket_request_max_bytes.unsigned_abs() as usize;
    match usize::try_from(config.queued_max_request_bytes) {
        Ok(bytes) if bytes > 0 => bytes,
        _ => INPUT_BYTES_DEFAULT.max(largest),
    }
}
