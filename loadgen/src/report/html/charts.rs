//! The charts of a run.

use super::over_time::{bands, marks, smoothed, thinned};
use super::plot::{Plot, Series, Style};
use super::scale::{LARGEST, SMALLEST, Scale, Unit};
use crate::driver::command::RoundTrip;
use crate::report::model::{Latency, Point, Report};
use crate::report::text::{clock, count, millis};

/// The states by their names in [`Point::members`], with their meanings. The first is drawn at the
/// bottom.
const STATES: [(&str, &str); 8] = [
    ("stable", "has its target assignment"),
    ("idle", "has its target, but no partitions while some have no owner"),
    ("reconciling", "gives up partitions, or waits for some"),
    ("joining", "waits for its assignment"),
    ("searching", "looks up its coordinator"),
    ("fenced", "refused, and will join again"),
    ("failed", "can't continue"),
    ("down", "not started, stopped or crashed"),
];

/// Requests that members of a stable classic or consumer group send.
const STEADY: [RoundTrip; 4] =
    [RoundTrip::Heartbeat, RoundTrip::ConsumerHeartbeat, RoundTrip::Commit, RoundTrip::Fetch];

/// The round trips of producers and readers.
pub(super) const OF_PRODUCERS: [RoundTrip; 11] = [
    RoundTrip::Transaction,
    RoundTrip::Visible,
    RoundTrip::Produce,
    RoundTrip::EndTxn,
    RoundTrip::TxnOffsetCommit,
    RoundTrip::AddPartitions,
    RoundTrip::AddOffsets,
    RoundTrip::InitProducerId,
    RoundTrip::Metadata,
    RoundTrip::Read,
    RoundTrip::ListOffsets,
];

/// The times of records that members get, and the requests of share groups.
pub(super) const OF_SHARES: [RoundTrip; 8] = [
    RoundTrip::Delivery,
    RoundTrip::ShareFetch,
    RoundTrip::ShareAcknowledge,
    RoundTrip::ShareHeartbeat,
    RoundTrip::ShareJoin,
    RoundTrip::RedeliveryCrash,
    RoundTrip::RedeliveryRelease,
    RoundTrip::RedeliveryExpiry,
];

/// The CPU use of a process is shown as its mean over this time in seconds. It is read only about
/// once a second.
const SMOOTHED: f64 = 2.0;

/// How to read the percentiles of round trips.
pub(super) const ROUND_TRIPS: &str = "From when the request was due to its answer. A point at \
     99 % and 5 ms says that 99 of 100 took at most 5 ms. Lower and flatter is better; the right \
     end is the slowest of all.";

/// A chart of the states of members. The axes reach at least to `end` seconds and to `members`, so
/// that the charts of several runs can have equal axes.
pub(super) fn states(report: &Report, end: f64, members: f64, of: &str) -> Plot {
    let points = thinned(&report.series.points);
    let seen = |state: &str| points.iter().any(|p| p.members.get(state).is_some_and(|n| *n > 0));
    let series = STATES.iter().filter(|(state, _)| seen(state)).map(|(state, hint)| Series {
        name: (*state).into(),
        hint: if of.is_empty() { hint } else { "" },
        class: format!("state-{state}"),
        values: points.iter().map(|p| p.members.get(*state).map(|n| f64::from(*n))).collect(),
    });
    let sums = points.iter().map(|p| p.members.values().map(|n| f64::from(*n)).sum());
    let most = sums.fold(members, f64::max);
    Plot {
        title: if of.is_empty() { "Members by state".into() } else { of.into() },
        explanation: "All green is good: every member has its partitions. Other colours are \
                      members that wait; the numbers mark triggers of rebalances, and the \
                      strip above names the phases."
            .into(),
        x: Scale::time(end),
        y: Scale::from_zero(Unit::Count, most),
        y_name: "members".into(),
        x_name: "seconds since the start of the run".into(),
        at: points.iter().map(|p| p.at).collect(),
        series: series.collect(),
        style: Style::Stack,
        bands: bands(report),
        marks: marks(report),
    }
}

/// A chart of the partitions without an owner. It fills the area below the line of a single run,
/// and has one line for each of several runs.
pub(super) fn unowned(runs: &[(String, &Report)]) -> Plot {
    let explanation = match runs {
        [(_, report)] => format!(
            "Partitions that no member owned although a group should have consumed them; {} \
             partition-seconds in all. Lower and shorter is better.",
            count(report.unowned_partition_seconds.round() as u64)
        ),
        _ => "Partitions that no member owned although a group should have consumed them. Lower \
              and shorter is better."
            .into(),
    };
    let mut plot = lines_over_time(runs, |point| Some(f64::from(point.unowned_partitions)));
    if let [one] = &mut plot.series[..] {
        one.name = "partitions without an owner".into();
        one.class = "line-4 soft".into();
        plot.style = Style::Area;
    }
    Plot {
        title: "Partitions without an owner".into(),
        explanation,
        y_name: "partitions".into(),
        ..plot
    }
}

/// A chart of one figure over time, with a line for each run.
pub(super) fn lines_over_time(
    runs: &[(String, &Report)],
    figure: impl Fn(&Point) -> Option<f64>,
) -> Plot {
    let at = moments(runs);
    let series = runs.iter().enumerate().map(|(index, (name, report))| {
        let points = thinned(&report.series.points);
        Series {
            name: name.clone(),
            hint: "",
            class: run_class(index),
            values: at.iter().map(|at| figure(near(&points, *at).filter(has_values)?)).collect(),
        }
    });
    let series: Vec<_> = series.collect();
    let end = runs.iter().map(|(_, report)| report.run.duration_seconds).fold(0.0, f64::max);
    Plot {
        title: String::new(),
        explanation: String::new(),
        x: Scale::time(end),
        y: Scale::from_zero(Unit::Count, highest(&series)),
        y_name: String::new(),
        x_name: "seconds since the start of the run".into(),
        at,
        series,
        style: Style::Lines,
        bands: if let [(_, report)] = runs { bands(report) } else { Vec::new() },
        marks: Vec::new(),
    }
}

/// The style class, and so the colour, of a run in a chart of several runs.
pub(super) fn run_class(index: usize) -> String {
    format!("line-{}", index % 10 + 1)
}

/// The ends of the time steps of all runs. Runs may have different steps.
fn moments(runs: &[(String, &Report)]) -> Vec<f64> {
    let points = runs.iter().map(|(_, report)| thinned(&report.series.points));
    let mut at: Vec<f64> = points.flatten().map(|point| point.at).collect();
    at.sort_by(f64::total_cmp);
    at.dedup_by(|one, other| (*one - *other).abs() < 1e-3);
    at
}

/// Whether the run had members in this step. Members that are down count.
fn has_values(point: &&Point) -> bool {
    !point.members.is_empty()
}

/// The step that contains this time. Runs may have different steps.
fn near(points: &[Point], at: f64) -> Option<&Point> {
    let index = points.partition_point(|point| point.at < at - 1e-9);
    points.get(index)
}

fn highest(series: &[Series]) -> f64 {
    series.iter().flat_map(|series| &series.values).flatten().copied().fold(0.0, f64::max)
}

/// The distribution of pauses.
pub(super) fn pauses(report: &Report) -> Plot {
    let pauses = &report.pauses;
    let explanation = match pauses.count {
        0 => "No member was without its partitions.".into(),
        _ => format!(
            "How long members that should have had partitions had none: half of {} pauses took \
             less than {}, 99 % less than {}, the longest {}. Further left is better.",
            count(pauses.count),
            millis(pauses.p50),
            millis(pauses.p99),
            millis(pauses.max)
        ),
    };
    let x = Scale::log(Unit::Duration, [pauses.min, pauses.max]);
    let edges = edges(pauses.min, pauses.max);
    let shares: Vec<_> =
        edges.windows(2).map(|edge| share(pauses, edge[1]) - share(pauses, edge[0])).collect();
    let members: Vec<_> =
        shares.iter().map(|share| Some((share * pauses.count as f64).round())).collect();
    let most = members.iter().flatten().copied().fold(0.0, f64::max);
    Plot {
        title: "Pauses of members".into(),
        explanation,
        x,
        y: Scale::from_zero(Unit::Count, most),
        y_name: "pauses".into(),
        x_name: "length of the pause (each power of ten takes the same space)".into(),
        at: edges,
        series: vec![Series {
            name: "pauses".into(),
            hint: "",
            class: "line-1".into(),
            values: members,
        }],
        style: Style::Bars,
        bands: Vec::new(),
        marks: Vec::new(),
    }
}

/// The edges of bars, ten for each power of ten.
fn edges(min: f64, max: f64) -> Vec<f64> {
    if max <= 0.0 {
        return Vec::new();
    }
    let max = max.clamp(SMALLEST, LARGEST);
    let first = (min.max(max / 1e6).log10() * 10.0).floor() as i32;
    let last = (max.log10() * 10.0).floor() as i32 + 1;
    (first..=last).map(|tenth| 10_f64.powf(f64::from(tenth) / 10.0)).collect()
}

/// The share of values that are at most `value`, interpolated between the known percentiles.
fn share(latency: &Latency, value: f64) -> f64 {
    let known = &latency.percentiles;
    let above = known.partition_point(|(_, v)| *v <= value);
    match (above.checked_sub(1).and_then(|i| known.get(i)), known.get(above)) {
        (_, None) => 1.0,
        (None, Some(_)) => 0.0,
        (Some((p, v)), Some((next_p, next_v))) => {
            (p + (next_p - p) * (value - v) / (next_v - v)) / 100.0
        }
    }
}

/// Up to four charts: the requests of a stable group, those of a rebalance, those of producers, and
/// the records of share groups.
pub(super) fn latencies(report: &Report) -> String {
    let of = |kinds: &[RoundTrip]| {
        let chosen = kinds.iter().copied();
        let named = chosen.filter_map(|round_trip| {
            let latency = report.latencies.get(round_trip.name()).filter(|l| l.count > 0)?;
            Some((round_trip.name().to_owned(), line_class(round_trip), latency))
        });
        named.collect::<Vec<_>>()
    };
    let all = [&STEADY[..], &OF_PRODUCERS, &OF_SHARES];
    let is_other = |of: &RoundTrip| !all.iter().any(|some| some.contains(of));
    let others = Vec::from_iter(RoundTrip::ALL.into_iter().filter(is_other));
    let charts = [
        ("Requests of a stable group: time by percentile", of(&STEADY)),
        ("Requests of a rebalance: time by percentile", of(&others)),
        ("Requests of producers: time by percentile", of(&OF_PRODUCERS)),
        ("Records of share groups: time by percentile", of(&OF_SHARES)),
    ];
    let charts = charts.into_iter().filter(|(_, series)| !series.is_empty());
    let charts = charts.map(|(title, series)| percentiles(title, ROUND_TRIPS, &series).render());
    format!("<div class=\"pair\">{}</div>", charts.collect::<String>())
}

/// A chart with a line for each latency, given by name and style class.
pub(super) fn percentiles(
    title: &str,
    explanation: &str,
    of: &[(String, String, &Latency)],
) -> Plot {
    let most = of.iter().map(|(.., latency)| latency.count).max().unwrap_or(0);
    let x = Scale::nines(most);
    let at = percentile_steps(most);
    let series = of.iter().map(|(name, class, latency)| Series {
        name: name.clone(),
        hint: "",
        class: class.clone(),
        values: at.iter().map(|percentile| at_percentile(latency, *percentile)).collect(),
    });
    let series: Vec<_> = series.collect();
    let values = series.iter().flat_map(|series| series.values.iter().flatten().copied());
    Plot {
        title: title.into(),
        explanation: explanation.into(),
        x,
        y: Scale::log(Unit::Duration, values),
        y_name: "time (each power of ten takes the same space)".into(),
        x_name: "percentile (each nine takes the same space)".into(),
        at,
        series,
        style: Style::Lines,
        bands: Vec::new(),
        marks: Vec::new(),
    }
}

/// The percentiles for the points of a line: 0, 5, ... 85, 90, 90.5, ... 98.5, 99, 99.05, ..., 100.
/// Those before 100 are left out if `count` values are too few to determine them.
fn percentile_steps(count: u64) -> Vec<f64> {
    let last = 100.0 - 100.0 / count.max(1) as f64;
    let steps = (0..6).flat_map(|nine| {
        let decade = 10_f64.powi(2 - nine);
        (0..18).map(move |step| 100.0 - decade + decade * 0.05 * f64::from(step))
    });
    let rounded = steps.map(|percentile| (percentile * 1e6).round() / 1e6);
    rounded.take_while(|percentile| *percentile <= last).chain([100.0]).collect()
}

/// The value at a percentile, interpolated between the known percentiles. With few values, high
/// percentiles are undetermined: for 100 values, all from 99 on. Their value is the maximum.
fn at_percentile(latency: &Latency, percentile: f64) -> Option<f64> {
    if latency.count == 0 {
        return None;
    }
    if percentile >= 100.0 - 100.0 / latency.count as f64 {
        return Some(latency.max);
    }
    let known = &latency.percentiles;
    let above = known.partition_point(|(p, _)| *p < percentile);
    let (next_p, next) = known.get(above).copied().unwrap_or((100.0, latency.max));
    let (p, value) = above.checked_sub(1).map_or((0.0, latency.min), |i| known[i]);
    Some(if next_p > p { value + (next - value) * (percentile - p) / (next_p - p) } else { next })
}

/// The style class of a round trip, which is the same in every chart. Round trips of producers
/// share colours with those of groups.
fn line_class(round_trip: RoundTrip) -> String {
    let number = match round_trip {
        RoundTrip::Heartbeat
        | RoundTrip::Transaction
        | RoundTrip::ShareHeartbeat
        | RoundTrip::StreamsHeartbeat => 1,
        RoundTrip::Commit | RoundTrip::EndTxn | RoundTrip::ShareAcknowledge => 2,
        RoundTrip::Fetch | RoundTrip::TxnOffsetCommit | RoundTrip::ShareFetch => 3,
        RoundTrip::JoinGroup | RoundTrip::InitProducerId | RoundTrip::RedeliveryCrash => 4,
        RoundTrip::SyncGroup | RoundTrip::AddPartitions | RoundTrip::RedeliveryRelease => 5,
        RoundTrip::ConsumerHeartbeat | RoundTrip::Produce => 6,
        RoundTrip::ConsumerJoin
        | RoundTrip::AddOffsets
        | RoundTrip::ShareJoin
        | RoundTrip::StreamsJoin => 7,
        RoundTrip::Connect | RoundTrip::Visible | RoundTrip::Delivery | RoundTrip::Hold => 8,
        RoundTrip::FindCoordinator | RoundTrip::Read | RoundTrip::RedeliveryExpiry => 9,
        RoundTrip::LeaveGroup | RoundTrip::Metadata | RoundTrip::ListOffsets => 10,
    };
    format!("line-{number}")
}

/// Rates, latencies, and the resources of the server.
pub(super) fn over_time(report: &Report) -> String {
    let rates = Plot {
        title: "Answers a second".into(),
        explanation: "The cluster's answers in each step. A dent in a steady load is a stall."
            .into(),
        y_name: "answers a second".into(),
        ..by_round_trip(
            report,
            |point, name| Some(point.rates.get(name).copied().unwrap_or(0.0)),
            false,
        )
    };
    let p99 = Plot {
        title: "p99 over time".into(),
        explanation:
            "99 of 100 answers in each step took at most this long, from when the request \
                      was due. Lower is better; peaks belong to the phases above them."
                .into(),
        y_name: "time (each power of ten takes the same space)".into(),
        ..by_round_trip(
            report,
            |point, name| point.p99.get(name).copied().filter(|v| *v > 0.0),
            true,
        )
    };
    let charts = [Some(rates), Some(p99), server_cpu(report), server_memory(report)];
    let drawn = charts.into_iter().flatten().filter(|plot| !plot.series.is_empty());
    format!("<div class=\"pair\">{}</div>", drawn.map(|plot| plot.render()).collect::<String>())
}

fn by_round_trip(report: &Report, figure: impl Fn(&Point, &str) -> Option<f64>, log: bool) -> Plot {
    let mut plot = lines_over_time(&[(String::new(), report)], |_| None);
    let points = thinned(&report.series.points);
    let series = RoundTrip::ALL.into_iter().map(|round_trip| Series {
        name: round_trip.name().into(),
        hint: "",
        class: line_class(round_trip),
        values: points.iter().map(|point| figure(point, round_trip.name())).collect(),
    });
    let seen = |series: &Series| series.values.iter().flatten().any(|value| *value > 0.0);
    plot.series = series.filter(seen).collect();
    plot.y = if log {
        let values = plot.series.iter().flat_map(|s| s.values.iter().flatten().copied());
        Scale::log(Unit::Duration, values)
    } else {
        Scale::from_zero(Unit::Count, highest(&plot.series))
    };
    plot
}

fn server_cpu(report: &Report) -> Option<Plot> {
    let usage = report.server.as_ref()?;
    let mut plot = lines_over_time(&[("cores".into(), report)], |point| point.server_cpu);
    plot.series[0].class = "line-5 soft".into();
    plot.series[0].values = smoothed(&thinned(&report.series.points), SMOOTHED, |p| p.server_cpu);
    plot.y = Scale::from_zero(Unit::Count, highest(&plot.series));
    Some(Plot {
        title: "CPU of the server".into(),
        explanation: format!(
            "Cores that it used, as the mean of two seconds; {} of CPU time in all. Lower is \
             better.",
            clock(usage.cpu_seconds)
        ),
        y_name: "cores".into(),
        style: Style::Area,
        ..plot
    })
}

fn server_memory(report: &Report) -> Option<Plot> {
    report.server.as_ref()?;
    let figure = |point: &Point| point.server_memory_bytes.map(|bytes| bytes as f64);
    let mut plot = lines_over_time(&[("resident memory".into(), report)], figure);
    plot.series[0].class = "line-3 soft".into();
    Some(Plot {
        title: "Memory of the server".into(),
        explanation: "Resident memory of its process. Lower is better; a line that keeps rising \
                      in a steady phase is a leak."
            .into(),
        y: Scale::from_zero(Unit::Bytes, highest(&plot.series)),
        y_name: "resident memory".into(),
        style: Style::Area,
        ..plot
    })
}
