//! The part of the thread that takes pushes, without the thread: a push in, its outcome out, and
//! what is to be forwarded.

use super::limits::{FORWARD_BYTES_MAX, SERIES_MAX};
use super::otlp;
use super::push::{Push, Pushed};
use super::series::Series;
use super::text::{self, ClientsText};
use muster_codec::ErrorCode;
use muster_compression::{decompress, is_too_long};

/// Takes what clients push.
#[derive(Debug, Default)]
pub struct Receiver {
    /// None if figures are not shown.
    series: Option<Series>,
    forwards: bool,
    unpacked: Vec<u8>,
    /// Pushes that would be too long with the attributes that are added.
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

/// The memory that is kept for the next push.
const KEPT_BYTES: usize = 1 << 20;

impl Receiver {
    /// `shows` has the figures kept for `/metrics`, `forwards` has pushes passed on.
    pub fn new(shows: bool, forwards: bool) -> Self {
        Self { series: shows.then(Series::default), forwards, ..Self::default() }
    }

    /// Takes a push; the time is in milliseconds, and ascends.
    pub fn take(&mut self, now: i64, push: &Push) -> (Pushed, Option<Forwarded>) {
        let taken = self.unpack(push).and_then(|()| self.keep(now, push));
        self.unpacked.clear();
        self.unpacked.shrink_to(KEPT_BYTES);
        match taken {
            Ok(forwarded) => (push.ended(ErrorCode::None), forwarded),
            Err(error) => (push.ended(error), None),
        }
    }

    /// The number of series, and their bound.
    pub fn series(&self) -> (usize, usize) {
        (self.series.as_ref().map_or(0, Series::count), SERIES_MAX)
    }

    /// Takes the numbers of what was forwarded, and what could not be.
    pub(super) fn exported(&mut self, forwarded: u64, failed: u64) {
        self.numbers = Numbers { forwarded, not_forwarded: failed + self.too_long };
    }

    /// The text of all figures.
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
