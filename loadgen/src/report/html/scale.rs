//! Scales: where a value is on an axis, and the ticks of the axis.

use crate::report::text::{bytes, clock, millis, number};

/// The unit of values, which decides how they are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    /// In milliseconds.
    Duration,
    Count,
    Bytes,
    /// In seconds since the start of the run.
    Moment,
    /// From 0 to 100.
    Percentile,
}

impl Unit {
    pub(super) fn show(self, value: f64) -> String {
        match self {
            Self::Duration => millis(value),
            Self::Count => number(value),
            Self::Bytes => bytes(value as u64),
            Self::Moment => clock(value),
            Self::Percentile => format!("{value} %"),
        }
    }

    /// The unit's name in the page's script.
    pub(super) const fn code(self) -> &'static str {
        match self {
            Self::Duration => "duration",
            Self::Count => "count",
            Self::Bytes => "bytes",
            Self::Moment => "moment",
            Self::Percentile => "percentile",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Shape {
    Linear,
    /// Each power of ten takes the same length. Values below the low end are drawn at the low end.
    Log,
    /// The distance to 100 % on a logarithmic scale, as in HDR plots: 0 to 90 %, 90 to 99 % and 99
    /// to 99.9 % have the same length.
    Nines,
}

/// The limits of all axes. Result files may contain any numbers: values outside the limits are
/// drawn at the ends.
pub(super) const SMALLEST: f64 = 1e-6;
pub(super) const LARGEST: f64 = 1e15;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Scale {
    shape: Shape,
    unit: Unit,
    low: f64,
    high: f64,
}

pub(super) struct Tick {
    /// The position: 0 at the low end, 1 at the high end.
    pub(super) place: f64,
    pub(super) label: String,
    /// Hidden on a narrow screen.
    pub(super) minor: bool,
}

impl Scale {
    /// From zero to a round number at or above `high`.
    pub(super) fn from_zero(unit: Unit, high: f64) -> Self {
        let high = if high > 0.0 { high.clamp(SMALLEST, LARGEST) } else { 1.0 };
        let step = step(unit, high);
        Self { shape: Shape::Linear, unit, low: 0.0, high: (high / step - 1e-9).ceil() * step }
    }

    /// From the start to the end of a run, in seconds.
    pub(super) fn time(end: f64) -> Self {
        let high = if end > 0.0 { end.clamp(SMALLEST, 1e8) } else { 1.0 };
        Self { shape: Shape::Linear, unit: Unit::Moment, low: 0.0, high }
    }

    /// A logarithmic scale that covers all positive `values`. It begins at a power of ten, and ends
    /// at 1, 2 or 5 times a power of ten.
    pub(super) fn log(unit: Unit, values: impl IntoIterator<Item = f64>) -> Self {
        let positive = values.into_iter().filter(|value| *value > 0.0);
        let positive = positive.map(|value| value.clamp(SMALLEST, LARGEST));
        let range = positive.fold((f64::MAX, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
        let (low, high) = if range.0 <= range.1 { range } else { (1.0, 10.0) };
        let low = round_down(low);
        Self { shape: Shape::Log, unit, low, high: round_up(high).max(low * 10.0) }
    }

    /// A scale for percentiles. It ends at the last percentile that `count` values are enough to
    /// determine. There, it shows the maximum.
    pub(super) fn nines(count: u64) -> Self {
        let high = 100.0 - 100.0 / count.max(10) as f64;
        Self { shape: Shape::Nines, unit: Unit::Percentile, low: 0.0, high }
    }

    pub(super) const fn unit(&self) -> Unit {
        self.unit
    }

    /// The position of a value: 0 at the low end, 1 at the high end. Values outside are at the
    /// ends.
    pub(super) fn place(&self, value: f64) -> f64 {
        let (value, low, high) = (self.bent(value), self.bent(self.low), self.bent(self.high));
        ((value - low) / (high - low)).clamp(0.0, 1.0)
    }

    pub(super) fn ticks(&self) -> Vec<Tick> {
        match self.shape {
            Shape::Linear => self.linear_ticks(),
            Shape::Log => self.log_ticks(),
            Shape::Nines => self.nine_ticks(),
        }
    }

    fn bent(&self, value: f64) -> f64 {
        match self.shape {
            Shape::Linear => value,
            Shape::Log => value.max(self.low).log10(),
            Shape::Nines => -(1.0 - value.min(self.high) / 100.0).log10(),
        }
    }

    fn linear_ticks(&self) -> Vec<Tick> {
        let step = step(self.unit, self.high);
        let count = (self.high / step + 1e-9) as u32;
        (0..=count).map(|i| self.tick(f64::from(i) * step, i % 2 == 1)).collect()
    }

    /// Ticks at 1, 10, 100 and so on. A short axis gets more ticks between them.
    fn log_ticks(&self) -> Vec<Tick> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let decades = (self.high / self.low).log10();
        let mantissas: &[f64] = match decades {
            d if d <= 1.5 => &[1.0, 2.0, 5.0],
            d if d <= 3.5 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let mut ticks = Vec::new();
        for decade in first..=last {
            for mantissa in mantissas {
                let value = mantissa * 10_f64.powi(decade);
                if value >= self.low * 0.999 && value <= self.high * 1.001 {
                    ticks.push(self.tick(value, *mantissa > 1.0));
                }
            }
        }
        ticks
    }

    /// Ticks at 50, 90, 99, 99.9 % and so on, and at the maximum. A tick too close to the maximum
    /// is left out.
    fn nine_ticks(&self) -> Vec<Tick> {
        let all = [50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999];
        let shown = all.into_iter().filter(|percentile| self.place(*percentile) < 0.88);
        let maximum = Tick { place: 1.0, label: "max".into(), minor: false };
        shown.map(|percentile| self.tick(percentile, false)).chain([maximum]).collect()
    }

    fn tick(&self, value: f64, minor: bool) -> Tick {
        let label = if value == 0.0 { "0".into() } else { self.label(value) };
        let label = label.strip_suffix(".0").unwrap_or(&label).replace(".0 ", " ");
        Tick { place: self.place(value), label, minor }
    }

    /// The label of a tick. It needs fewer digits than the same unit in a table, because ticks are
    /// at round values.
    fn label(&self, value: f64) -> String {
        match self.unit {
            Unit::Duration if value < 1.0 => format!("{} µs", number(value * 1e3)),
            Unit::Duration if value < 1e3 => format!("{} ms", number(value)),
            Unit::Duration => format!("{} s", number(value / 1e3)),
            Unit::Moment if self.high <= 180.0 => format!("{} s", number(value)),
            Unit::Moment if self.high <= 10_800.0 => {
                format!("{}:{:02} min", value as u64 / 60, value as u64 % 60)
            }
            Unit::Moment => format!("{}:{:02} h", value as u64 / 3_600, value as u64 % 3_600 / 60),
            unit => unit.show(value),
        }
    }
}

/// The distance between two ticks: a round number, such that there are about 5 ticks, or about 10
/// on an axis of time.
fn step(unit: Unit, high: f64) -> f64 {
    const SECONDS: [f64; 17] = [
        1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 7_200.0,
        10_800.0, 21_600.0, 43_200.0, 86_400.0,
    ];
    let about = high / if unit == Unit::Moment { 10.0 } else { 5.0 };
    if unit == Unit::Moment && (0.5..=86_400.0).contains(&about) {
        return SECONDS.into_iter().find(|step| *step >= about).unwrap_or(86_400.0);
    }
    let base: f64 = if unit == Unit::Bytes { 2.0 } else { 10.0 };
    let power = base.powf(about.log(base).floor());
    let steps = if unit == Unit::Bytes { [1.0, 2.0, 2.0, 2.0] } else { [1.0, 2.0, 5.0, 10.0] };
    steps.into_iter().map(|m| m * power).find(|step| *step >= about * 0.999).unwrap_or(about)
}

fn round_down(value: f64) -> f64 {
    10_f64.powf(value.log10().floor())
}

fn round_up(value: f64) -> f64 {
    let power = round_down(value);
    [1.0, 2.0, 5.0, 10.0]
        .map(|m| m * power)
        .into_iter()
        .find(|v| *v >= value * 0.999)
        .unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale) -> Vec<String> {
        scale.ticks().into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_are_round_and_few() {
        let count = |high| labels(Scale::from_zero(Unit::Count, high));
        assert_eq!(count(5_000.0), ["0", "1,000", "2,000", "3,000", "4,000", "5,000"]);
        assert_eq!(count(0.0), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(count(7.3), ["0", "2", "4", "6", "8"]);
        let memory = labels(Scale::from_zero(Unit::Bytes, 97.0 * 1_048_576.0));
        assert_eq!(memory, ["0", "32 MiB", "64 MiB", "96 MiB", "128 MiB"]);
        assert_eq!(labels(Scale::time(45.0)).last().unwrap(), "45 s");
        assert_eq!(labels(Scale::time(200.0))[..3], ["0", "0:20 min", "0:40 min"]);
        assert_eq!(labels(Scale::time(0.0)).len(), 11);
        for high in [1e-6, 0.1, 1.0, 3.3, 17.0, 999.0, 1e6, 86_400.0, 1e12] {
            for scale in
                [Unit::Count, Unit::Bytes, Unit::Duration].map(|u| Scale::from_zero(u, high))
            {
                assert!((2..=12).contains(&scale.ticks().len()), "{scale:?}");
            }
            assert!(Scale::time(high).ticks().len() <= 60, "{high}");
        }
    }

    #[test]
    fn a_power_of_ten_and_a_nine_take_the_same_space_everywhere() {
        let log = Scale::log(Unit::Duration, [0.02, 90.0, 0.0]);
        assert_eq!(labels(log), ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms"]);
        assert_eq!(log.place(0.0), 0.0);
        assert!((log.place(1.0) - 0.5).abs() < 1e-9);
        assert_eq!(labels(Scale::log(Unit::Duration, [])), ["1 ms", "2 ms", "5 ms", "10 ms"]);
        let nines = Scale::nines(100_000);
        assert_eq!(labels(nines), ["50 %", "90 %", "99 %", "99.9 %", "99.99 %", "max"]);
        assert!((nines.place(99.9) - 3.0 / 5.0).abs() < 1e-9);
        assert_eq!(nines.place(100.0), 1.0);
        assert_eq!(labels(Scale::nines(0)), ["50 %", "max"]);
    }
}
