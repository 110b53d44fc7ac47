//! Limits for client metrics.

/// Client instances that a shard knows (Kafka's `CACHE_MAX_SIZE`). Beyond it the least recently
/// used one is removed.
pub(super) const INSTANCES_MAX: usize = 16_384;

/// Bytes of a push, even if `telemetry.max.bytes` is higher. The whole request is less than twice
/// as long.
pub(super) const METRICS_BYTES_MAX: usize = 4 << 20;

/// A shard's pushes that the telemetry thread has not unpacked yet, and their bytes. Further pushes
/// get THROTTLING_QUOTA_EXCEEDED, after which clients push again at the next interval.
pub(super) const PUSHES_UNDER_WAY_MAX: usize = 256;
pub(super) const BYTES_UNDER_WAY_MAX: usize = 16 << 20;

/// The unpacked size of a push may be `telemetry.max.bytes` times this number.
pub(super) const UNPACKED_FACTOR_MAX: usize = 8;

/// Bytes of a client attribute that subscriptions match. A longer attribute matches nothing.
pub(super) const ATTRIBUTE_BYTES_MAX: usize = 255;

/// Series of one push, and of all clients. Beyond the second limit, the clients with the oldest
/// pushes lose their series.
pub(super) const PUSH_SERIES_MAX: usize = 4_096;
pub(super) const SERIES_MAX: usize = 65_536;

/// Memory for the series of all clients, in bytes.
pub(super) const SERIES_BYTES_MAX: usize = 32 << 20;

/// Bytes of a metric name, and of a label value. Longer names are left out, longer values are cut.
pub(super) const NAME_BYTES_MAX: usize = 256;
pub(super) const LABEL_BYTES_MAX: usize = 256;

/// Labels of one series.
pub(super) const LABELS_MAX: usize = 16;

/// Bytes of the text of all series.
pub(super) const TEXT_BYTES_MAX: usize = 48 << 20;

/// Pushes waiting to be sent to the OTLP endpoint, and their bytes. Further pushes are dropped.
pub(super) const FORWARDS_MAX: usize = 256;
pub(super) const FORWARD_BYTES_MAX: usize = 32 << 20;

// The largest push must fit in these limits.
const _: () = assert!(METRICS_BYTES_MAX <= BYTES_UNDER_WAY_MAX);
const _: () = assert!(METRICS_BYTES_MAX * UNPACKED_FACTOR_MAX <= FORWARD_BYTES_MAX);
