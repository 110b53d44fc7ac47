//! Limits for client metrics.

/// The maximum number of client instances that a shard knows (Kafka's `CACHE_MAX_SIZE`). If there
/// are more, the least recently used instance is removed.
pub(super) const INSTANCES_MAX: usize = 16_384;

/// The maximum size of a push in bytes, even if `telemetry.max.bytes` is higher. The whole request
/// is always less than twice as long.
pub(super) const METRICS_BYTES_MAX: usize = 4 << 20;

/// The maximum number of a shard's pushes that the telemetry thread has yet to unpack, and of their
/// bytes. Further pushes get THROTTLING_QUOTA_EXCEEDED: clients push again after an interval.
pub(super) const PUSHES_UNDER_WAY_MAX: usize = 256;
pub(super) const BYTES_UNDER_WAY_MAX: usize = 16 << 20;

/// The unpacked size of a push may be `telemetry.max.bytes` times this number.
pub(super) const UNPACKED_FACTOR_MAX: usize = 8;

/// Bytes of a client attribute that subscriptions match. A longer attribute matches nothing.
pub(super) const ATTRIBUTE_BYTES_MAX: usize = 255;

/// The maximum number of series of one push, and of all clients together. If the second limit is
/// exceeded, the clients whose pushes are the oldest lose their series.
pub(super) const PUSH_SERIES_MAX: usize = 4_096;
pub(super) const SERIES_MAX: usize = 65_536;

/// Memory for the series of all clients, in bytes.
pub(super) const SERIES_BYTES_MAX: usize = 32 << 20;

/// The maximum size in bytes of a metric name or label name, and of a label value. A series with a
/// longer metric name is left out. Longer label names and values are cut.
pub(super) const NAME_BYTES_MAX: usize = 256;
pub(super) const LABEL_BYTES_MAX: usize = 256;

/// The maximum number of labels of one series in addition to those that every series has. Further
/// attributes of a data point are left out.
pub(super) const LABELS_MAX: usize = 16;

/// Bytes of the text of all series: once the text has this length, further series are left out.
pub(super) const TEXT_BYTES_MAX: usize = 48 << 20;

/// The maximum number of pushes that wait to be sent to the OTLP endpoint, and of their bytes.
/// Further pushes are dropped.
pub(super) const FORWARDS_MAX: usize = 256;
pub(super) const FORWARD_BYTES_MAX: usize = 32 << 20;

// Even the largest push must fit in the limits on pushes under way and on pushes to be forwarded.
const _: () = assert!(METRICS_BYTES_MAX <= BYTES_UNDER_WAY_MAX);
const _: () = assert!(METRICS_BYTES_MAX * UNPACKED_FACTOR_MAX <= FORWARD_BYTES_MAX);
