//! The logic of the telemetry thread, without the thread. It takes pushes. For each push it returns
//! the outcome and, if it is to be forwarded, the metrics.

use super::limits::{FORWARD_BYTES_MAX, SERIES_MAX};
use super::otlp;
use super::push::{Push, Pushed};
use super::series::Series;
use super::text::{self, ClientsText};
use muster_codec::ErrorCode;
use muster_compression::{decompress, is_too_long};

/// Processes pushed metrics.
#[derive(Debug, Default)]
pub struct Receiver {
    /// None if `/metrics` does not show pushed metrics.
    series: Option<Series>,
    forwards: bool,
    unpacked: Vec<u8>,
    /// How many pushes were not forwarded, because the added attributes made them too long.
    pub(super) too_long: u64,
    numbers: Numbers,
}

/// Metrics for the OTLP endpoint.
#[derive(Debug)]
pub struct Forwarded(pub(super) Vec<u8>);

#[derive(Debug, Default)]
pub(super) struct Numbers {
    pub(super) forwarded: u64,
    pub(super) not_forwarded: u64,
}

/// How much memory is kept for unpacking the next push.
const KEPT_BYTES: usize = 1 << 20;

impl Receiver {
    /// `shows`: keep values for `/metrics`. `forwards`: return pushes to be forwarded.
    pub fn new(shows: bool, forwards: bool) -> Self {
        Self { series: shows.then(Series::default), forwards, ..Self::default() }
    }

    /// Processes a push. `now` is in milliseconds and never decreases.
    pub fn take(&mut self, now: i64, push: &Push) -> (Pushed, Option<Forwarded>) {
        let taken = self.unpack(push).and_then(|()| self.keep(now, push));
        self.unpacked.clear();
        self.unpacked.shrink_to(KEPT_BYTES);
        match taken {
            Ok(forwarded) => (push.ended(ErrorCode::None), forwarded),
            Err(error) => (push.ended(error), None),
        }
    }

    /// The number of series, and the limit.
    pub fn series(&self) -> (usize, usize) {
        (self.series.as_ref().map_or(0, Series::count), SERIES_MAX)
    }

    /// Sets how many pushes were forwarded, and how many could not be forwarded.
    pub(super) fn exported(&mut self, forwarded: u64, failed: u64) {
        self.numbers = Numbers { forwarded, not_forwarded: failed + self.too_long };
    }

    /// The text of all series.
    pub(crate) fn text(&mut self, now: i64, is_open_metrics: bool) -> ClientsText {
        let Self { series, numbers, .. } = self;
        let Some(series) = series else { return ClientsText::default() };
        series.expire(now);
        text::write(series, numbers, is_open_metrics)
    }

    fn unpack(&mut self, push: &Push) -> Result<(), ErrorCode> {
        let max = push.unpacked_bytes_max;
        decompress(push.compression, &push.metrics, max, &mut self.unpacked).map_err(|error| {
            if is_too_long(&error) {
                ErrorCode::TelemetryTooLarge
            } else {
                ErrorCode::InvalidRecord
            }
        })
    }

    fn keep(&mut self, now: i64, push: &Push) -> Result<Option<Forwarded>, ErrorCode> {
        let Self { series, forwards, unpacked, .. } = self;
        match series {
            Some(series) => {
                series.expire(now);
                series.take(now, push, unpacked)
            }
            None => otlp::visit(unpacked, &mut |_| {}),
        }
        .map_err(|_| ErrorCode::InvalidRecord)?;
        if !*forwards {
            return Ok(None);
        }
        let metrics = otlp::with_attributes(unpacked, &push.attributes, FORWARD_BYTES_MAX)
            .map_err(|_| ErrorCode::InvalidRecord)?;
        self.too_long += u64::from(metrics.is_none());
        Ok(metrics.map(Forwarded))
    }
}
