//! Limits on what clients push.

/// Client instances that a shard knows (Kafka's `CACHE_MAX_SIZE`); the one that was used least
/// recently gives way.
pub(super) const INSTANCES_MAX: usize = 16_384;

/// Bytes of a push, whatever `telemetry.max.bytes` says: a request is longer by less than as much
/// again.
pub(super) const METRICS_BYTES_MAX: usize = 4 << 20;

/// Pushes of a shard on their way through the thread that unpacks them, and their bytes; further
/// ones get THROTTLING_QUOTA_EXCEEDED, with which clients push at the next interval.
pub(super) const PUSHES_UNDER_WAY_MAX: usize = 256;
pub(super) const BYTES_UNDER_WAY_MAX: usize = 16 << 20;

/// A push may be this many times as large when it is unpacked as `telemetry.max.bytes`.
pub(super) const UNPACKED_FACTOR_MAX: usize = 8;

/// Bytes of an attribute of a client that subscriptions look at: a longer one matches nothing.
pub(super) const ATTRIBUTE_BYTES_MAX: usize = 255;

/// Series of one push, and of all clients. With more than the latter the clients that have not
/// pushed for longest give way.
pub(super) const PUSH_SERIES_MAX: usize = 4_096;
pub(super) const SERIES_MAX: usize = 65_536;

/// Bytes of memory of the series of all clients.
pub(super) const SERIES_BYTES_MAX: usize = 32 << 20;

/// Bytes of a metric's name, and of the value of a label; longer ones are left out, or cut.
pub(super) const NAME_BYTES_MAX: usize = 256;
pub(super) const LABEL_BYTES_MAX: usize = 256;

/// Labels of a series.
pub(super) const LABELS_MAX: usize = 16;

/// Bytes of the text of all series.
pub(super) const TEXT_BYTES_MAX: usize = 48 << 20;

/// Pushes that wait for the OTLP endpoint, and their bytes; further ones are dropped.
pub(super) const FORWARDS_MAX: usize = 256;
pub(super) const FORWARD_BYTES_MAX: usize = 32 << 20;

// A push fits into what may be under way.
const _: () = assert!(METRICS_BYTES_MAX <= BYTES_UNDER_WAY_MAX);
const _: () = assert!(METRICS_BYTES_MAX * UNPACKED_FACTOR_MAX <= FORWARD_BYTES_MAX);
