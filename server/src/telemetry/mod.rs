//! Metrics that clients push (KIP-714). Decides, like Kafka's `ClientMetricsManager`, which clients
//! push which metrics, and handles the pushed metrics.
//!
//! - [`Telemetry`] is a shard's part: the subscriptions in the image, and the client instances seen
//!   here recently. An accepted push goes to a separate thread (`telemetry_thread.rs`), as
//!   unpacking may take milliseconds; its answer waits for the outcome.
//! - [`Receiver`] is that thread's part, without the thread: it unpacks pushes, and keeps each
//!   client's newest values for `/metrics`. `exporter.rs` forwards pushes by OTLP.
//!
//! A subscription id is computed only from the subscriptions and the client. So a client may get
//! its subscriptions from one shard and push to another, as in Kafka, and a shard that was loaded
//! again need not remember its clients.
//!
//! A shard passes a push to the thread by `Command::Telemetry`, and holds the connection until the
//! outcome comes (`Message::Pushed`). Each shard may have 256 pushes with 16 MiB on their way to
//! the thread. The queue to the exporter, a second thread, is bounded.

mod counters;
mod exporter;
mod instances;
mod limits;
mod otlp;
mod protobuf;
mod push;
mod receiver;
mod series;
mod subscriptions;
mod text;

#[cfg(test)]
mod tests;

pub(crate) use counters::{TelemetryCounters, TelemetryGauges};
pub(crate) use exporter::Exporter;
pub(crate) use push::Client;
pub use push::{Push, Pushed};
pub use receiver::{Forwarded, Receiver};
pub(crate) use text::{ClientsText, ROWS};

use crate::cluster::{CLIENT_METRICS_RESOURCE, ClusterImage};
use crate::config::Config;
use crate::limit_gauges::{Limit, LimitGauges};
use instances::{Instance, Instances};
use limits::{BYTES_UNDER_WAY_MAX, INSTANCES_MAX, METRICS_BYTES_MAX, PUSHES_UNDER_WAY_MAX};
use muster_codec::messages::{
    GetTelemetrySubscriptionsResponse, PushTelemetryRequest, PushTelemetryResponse,
};
use muster_codec::record_batch::Compression;
use muster_codec::{ErrorCode, Str, Uuid};
use muster_coordinator::{Ids, RequestId};
use muster_counters::Copies;
use subscriptions::Subscriptions;

/// The compression types that clients may use, in order of preference. Other known types are
/// accepted.
const COMPRESSIONS: [Compression; 4] =
    [Compression::Zstd, Compression::Lz4, Compression::Gzip, Compression::Snappy];

/// `Uuid.METADATA_TOPIC_ID`, which is not a valid client instance id.
const RESERVED: Uuid = Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

/// The subscriptions and client instances of a shard.
#[derive(Debug)]
pub(crate) struct Telemetry {
    subscriptions: Subscriptions,
    instances: Instances,
    /// `telemetry.max.bytes`
    metrics_bytes_max: usize,
    /// Whether pushed metrics have a destination.
    is_received: bool,
    /// Pushes without an outcome yet, and their bytes.
    under_way: UnderWay,
    counters: TelemetryCounters,
}

#[derive(Debug, Clone, Copy, Default)]
struct UnderWay {
    pushes: usize,
    bytes: usize,
}

/// The decision about a push.
#[derive(Debug)]
pub(crate) enum Verdict {
    Answer(PushTelemetryResponse),
    /// The push goes to the telemetry thread; [`Telemetry::pushed`] makes the answer.
    Pass(Push),
}

impl Telemetry {
    pub(crate) fn new(config: &Config, image: &ClusterImage) -> Self {
        Self {
            subscriptions: Subscriptions::of(image),
            instances: Instances::default(),
            metrics_bytes_max: metrics_bytes_max(config),
            is_received: config.receives_telemetry(),
            under_way: UnderWay::default(),
            counters: TelemetryCounters::default(),
        }
    }

    /// Reads the subscriptions of an image, if they have changed.
    pub(crate) fn image_changed(&mut self, before: &ClusterImage, image: &ClusterImage) {
        if !image.reconfigured(before, CLIENT_METRICS_RESOURCE).is_empty() {
            self.subscriptions.replace(image);
        }
    }

    /// The metrics that a client must push. A client without an instance id gets a new id.
    pub(crate) fn subscriptions_of(
        &mut self,
        now: i64,
        client: &Client<'_>,
        ids: &mut dyn Ids,
    ) -> GetTelemetrySubscriptionsResponse<'static> {
        let id = if client.instance_id.is_zero() { self.new_id(ids) } else { client.instance_id };
        let client = Client { instance_id: id, ..*client };
        let metrics_bytes_max = self.metrics_bytes_max;
        let instance = Self::instance(&self.subscriptions, &mut self.instances, now, &client);
        if !instance.may_ask(now) {
            self.counters.throttled += 1;
            let error_code = ErrorCode::ThrottlingQuotaExceeded.code();
            return GetTelemetrySubscriptionsResponse { error_code, ..Default::default() };
        }
        instance.last_error = ErrorCode::None;
        let requested = self.subscriptions.metrics(&instance.matched);
        GetTelemetrySubscriptionsResponse {
            client_instance_id: id,
            subscription_id: instance.subscription_id,
            accepted_compression_types: COMPRESSIONS.map(|it| it as i8).to_vec(),
            push_interval_ms: instance.interval_ms,
            telemetry_max_bytes: metrics_bytes_max as i32,
            delta_temporality: true,
            requested_metrics: requested.map(|it| Str::Owned(it.to_owned())).collect(),
            ..Default::default()
        }
    }

    /// Decides about a push; `request` identifies the answer.
    pub(crate) fn push(
        &mut self,
        now: i64,
        client: &Client<'_>,
        request: RequestId,
        body: &PushTelemetryRequest<'_>,
    ) -> Verdict {
        if client.instance_id.is_zero() || client.instance_id == RESERVED {
            return answer(ErrorCode::InvalidRequest);
        }
        let instance = Self::instance(&self.subscriptions, &mut self.instances, now, client);
        let checked = check(instance, now, body, self.metrics_bytes_max);
        instance.is_terminating = body.terminating;
        let interval_ms = instance.interval_ms;
        let compression = match checked {
            Ok(compression) => compression,
            Err(error) => {
                instance.last_error = error;
                self.counters.refused(error);
                return answer(error);
            }
        };
        instance.last_error = ErrorCode::None;
        if body.metrics.is_empty() || !self.is_received {
            return answer(ErrorCode::None);
        }
        if self.under_way.is_full(body.metrics.len()) {
            self.counters.dropped += 1;
            return answer(ErrorCode::ThrottlingQuotaExceeded);
        }
        self.under_way.pushes += 1;
        self.under_way.bytes += body.metrics.len();
        self.counters.pushes += 1;
        self.counters.pushed_bytes += body.metrics.len() as u64;
        let metrics = body.metrics.to_vec();
        let unpacked_bytes_max = self.metrics_bytes_max * limits::UNPACKED_FACTOR_MAX;
        Verdict::Pass(Push::new(
            client,
            request,
            compression,
            metrics,
            interval_ms,
            unpacked_bytes_max,
        ))
    }

    /// Makes the answer from the outcome of a push.
    pub(crate) fn pushed(&mut self, outcome: &Pushed) -> PushTelemetryResponse {
        self.under_way.pushes = self.under_way.pushes.saturating_sub(1);
        self.under_way.bytes = self.under_way.bytes.saturating_sub(outcome.bytes);
        if outcome.error != ErrorCode::None {
            self.counters.refused(outcome.error);
            self.instances.failed(outcome.instance_id, outcome.error);
        }
        PushTelemetryResponse { error_code: outcome.error.code(), ..Default::default() }
    }

    /// Removes the client instance that was first seen on a closed connection, as Kafka does.
    pub(crate) fn connection_closed(&mut self, connection: u64) {
        self.instances.connection_closed(connection);
    }

    /// Removes client instances that were silent for three of their push intervals, and for at
    /// least a minute.
    pub(crate) fn expire(&mut self, now: i64) {
        self.instances.expire(now);
    }

    pub(crate) fn deadline(&self) -> Option<i64> {
        self.instances.deadline()
    }

    pub(crate) fn numbers(&self) -> Copies {
        let gauges = TelemetryGauges { instances: self.instances.len() as u64 };
        vec![Box::new(self.counters), Box::new(gauges)]
    }

    pub(crate) fn add_limits(&self, gauges: &mut LimitGauges) {
        gauges.set(Limit::ClientInstances, self.instances.len(), INSTANCES_MAX);
        gauges.set(Limit::Pushes, self.under_way.pushes, PUSHES_UNDER_WAY_MAX);
        gauges.set(Limit::PushBytes, self.under_way.bytes, BYTES_UNDER_WAY_MAX);
    }

    /// The bytes of pushes without an outcome yet.
    pub(crate) fn held_bytes(&self) -> usize {
        self.under_way.bytes
    }

    fn new_id(&self, ids: &mut dyn Ids) -> Uuid {
        loop {
            let id = ids.next_id();
            if !id.is_zero() && id != RESERVED && !self.instances.has(id) {
                return id;
            }
        }
    }

    /// The instance of a client. If the client is not known, or the subscriptions have changed,
    /// this is a new instance.
    fn instance<'i>(
        subscriptions: &Subscriptions,
        instances: &'i mut Instances,
        now: i64,
        client: &Client<'_>,
    ) -> &'i mut Instance {
        instances.of(now, client.instance_id, client.connection, subscriptions.version(), || {
            let matched = subscriptions.matched(client);
            let interval_ms = subscriptions.interval_ms(&matched);
            let subscription_id = subscriptions.id_of(&matched, interval_ms, client.instance_id);
            Instance::new(matched, interval_ms, subscription_id)
        })
    }
}

impl UnderWay {
    fn is_full(self, bytes: usize) -> bool {
        self.pushes >= PUSHES_UNDER_WAY_MAX || self.bytes + bytes > BYTES_UNDER_WAY_MAX
    }
}

/// Checks a push. The order of the checks is Kafka's.
fn check(
    instance: &mut Instance,
    now: i64,
    body: &PushTelemetryRequest<'_>,
    bytes_max: usize,
) -> Result<Compression, ErrorCode> {
    if instance.is_terminating {
        return Err(ErrorCode::InvalidRequest);
    }
    if !instance.may_push(now) && !body.terminating {
        return Err(ErrorCode::ThrottlingQuotaExceeded);
    }
    if body.subscription_id != instance.subscription_id {
        return Err(ErrorCode::UnknownSubscriptionId);
    }
    let compression = Compression::of(body.compression_type.into());
    let compression = compression.ok_or(ErrorCode::UnsupportedCompressionType)?;
    if body.metrics.len() > bytes_max {
        return Err(ErrorCode::TelemetryTooLarge);
    }
    Ok(compression)
}

fn answer(error: ErrorCode) -> Verdict {
    Verdict::Answer(PushTelemetryResponse { error_code: error.code(), ..Default::default() })
}

/// The maximum size of a push: `telemetry.max.bytes`, but never more than [`METRICS_BYTES_MAX`].
fn metrics_bytes_max(config: &Config) -> usize {
    usize::try_from(config.telemetry_max_bytes).unwrap_or(0).min(METRICS_BYTES_MAX)
}
