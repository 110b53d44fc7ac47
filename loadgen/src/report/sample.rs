//! An invented run for the tests of this module. 500 of 5,000 members in two groups crash, and the
//! coordinator misbehaves a little, so that all parts of a report occur.

use std::collections::BTreeMap;

use serde_json::json;

use super::disruptions::disruptions;
use super::model::*;

const STEP: f64 = 0.5;
const DURATION: f64 = 90.0;
const MEMBERS: f64 = 5_000.0;
const CRASHED: f64 = 500.0;
/// Foreign text, which may contain any characters.
pub(super) const HOSTILE: &str = "<script>alert(\"1\")</script>&'\u{1b}[2J";

/// A sample run in which all times are multiplied by `factor`.
pub(super) fn report_slower(factor: f64, label: &str) -> Report {
    let mut report = report();
    report.run.label = Some(label.into());
    for latency in report.latencies.values_mut().chain([&mut report.pauses]) {
        *latency = scaled(latency, factor);
    }
    for point in &mut report.series.points {
        point.rates.values_mut().for_each(|rate| *rate /= factor.sqrt());
        point.p99.values_mut().for_each(|p99| *p99 *= factor);
    }
    for rebalance in &mut report.rebalances {
        rebalance.took = rebalance.took.map(|took| took * factor);
    }
    report.disruptions = disruptions(&report.rebalances, true);
    report
}

pub(super) fn report() -> Report {
    Report {
        format: FORMAT,
        run: run(),
        phases: phases(),
        rebalances: rebalances(),
        disruptions: disruptions(&rebalances(), true),
        latencies: [
            ("connect", 5_000, 0.35, 2.1),
            ("join", 7_420, 412.0, 1.9),
            ("sync", 7_401, 96.0, 1.6),
            ("heartbeat", 131_204, 0.22, 3.0),
            ("consumer-join", 9_120, 3.1, 4.0),
            ("consumer-heartbeat", 60_311, 0.31, 3.1),
            ("commit", 180_775, 0.61, 2.6),
            ("offset-fetch", 14_998, 0.48, 3.5),
        ]
        .into_iter()
        .map(|(name, count, p50, spread)| (name.into(), latency(count, p50, spread)))
        .collect(),
        undelayed: [("heartbeat", 131_204, 0.19, 3.0), ("commit", 180_775, 0.6, 2.6)]
            .into_iter()
            .map(|(name, count, p50, spread)| (name.into(), latency(count, p50, spread)))
            .collect(),
        uncorrected: [
            ("heartbeat", 131_204, 0.2, 2.9),
            ("consumer-heartbeat", 60_311, 0.3, 3.0),
            ("commit", 180_763, 0.6, 2.4),
        ]
        .into_iter()
        .map(|(name, count, p50, spread)| (name.into(), latency(count, p50, spread)))
        .collect(),
        unanswered: [("commit".to_owned(), 12), ("heartbeat".to_owned(), 500)].into(),
        pauses: latency(9_480, 1_900.0, 1.7),
        pace: pace(),
        unowned_partition_seconds: 23_481.7,
        members: members(),
        commits: Commits { accepted: 179_560, refused: 1_203, unknown: 12, read_back: 5_000 },
        transactions: Transactions::default(),
        shares: Shares::default(),
        consumed: Consumed::default(),
        clients: clients(),
        errors: vec![
            error("OffsetCommit", 27, "REBALANCE_IN_PROGRESS", 1_203),
            error("Heartbeat", 25, "UNKNOWN_MEMBER_ID", 38),
            error("JoinGroup", 79, "MEMBER_ID_REQUIRED", 7),
        ],
        bytes_sent: 48_211_904,
        bytes_received: 31_998_112,
        load_generator: Usage {
            cpu_seconds: 11.2,
            memory_bytes: 141_557_760,
            memory_bytes_max: 148_897_792,
        },
        server: Some(Usage {
            cpu_seconds: 38.4,
            memory_bytes: 97_517_568,
            memory_bytes_max: 101_187_584,
        }),
        series: Series { step_seconds: STEP, points: points() },
        violations: violations(),
        violations_omitted: 1,
        thresholds: Vec::new(),
    }
}

fn run() -> Run {
    Run {
        tool: "muster-load 0.1.0".into(),
        command: ["muster-load", "crash", "--members", "5000"].map(String::from).into(),
        started_at: "2026-11-21T18:00:00Z".into(),
        duration_seconds: DURATION,
        interrupted: false,
        seed: 7,
        scenario: "crash".into(),
        description: "Members vanish without leaving, and come back later.".into(),
        bootstrap: "127.0.0.1:9092".into(),
        cluster_id: Some("4L6g3nShT-eMCtK--X86sw".into()),
        brokers: 1,
        label: None,
        host: "bench-1, Linux 6.1, 8 x AMD EPYC 7763".into(),
        cores: 1,
        groups: 2,
        members: MEMBERS as u32,
        producers: 0,
        partitions: 10_000,
        repetition: None,
        configs: [("group.initial.rebalance.delay.ms".to_owned(), "3000".to_owned())].into(),
        group_configs: ["orders", "billing"].map(group).into(),
        workers: Vec::new(),
    }
}

fn group(name: &str) -> GroupConfigs {
    GroupConfigs {
        name: name.into(),
        protocol: if name == "orders" { "classic" } else { "consumer" }.into(),
        assignors: Vec::new(),
        session_timeout: 10_000.0,
        heartbeat_interval: 1_000.0,
    }
}

fn phases() -> Vec<Phase> {
    let phase = |name: &str, began, ended, problem: Option<&str>| Phase {
        name: name.into(),
        began,
        ended,
        problem: problem.map(String::from),
        warnings: Vec::new(),
        latencies: [("commit".to_owned(), latency(40_000, 0.5, 2.0))].into(),
        pauses: latency(1_200, 900.0, 1.7),
        unowned_partition_seconds: (ended - began) * 12.5,
        delivered: 0,
        redelivered: 0,
    };
    let warning = "leave has no effect: no member of its groups is up";
    vec![
        phase("form", 0.0, 12.0, None),
        Phase { warnings: vec![warning.into()], ..phase("steady", 12.0, 30.0, None) },
        phase("crash", 30.0, 64.0, Some("1 of 2 groups had not settled after 34 s")),
        phase("come back", 64.0, 90.0, None),
    ]
}

fn rebalances() -> Vec<Rebalance> {
    let rebalance = |group: &str, trigger: &str, began, took, detected, members, moved| Rebalance {
        group: group.into(),
        trigger: trigger.into(),
        began,
        took,
        took_since_detected: detected,
        superseded: false,
        members,
        partitions: 5_000,
        moved,
        revoked: moved / 3,
    };
    vec![
        rebalance("orders", "formation", 0.0, Some(8_412.0), None, 2_500, 0),
        rebalance("billing", "formation", 0.0, Some(1_830.0), None, 2_500, 0),
        rebalance("orders", "250 crashed", 30.0, Some(13_120.5), Some(2_911.0), 2_250, 500),
        rebalance("billing", "250 crashed", 30.0, None, None, 2_250, 488),
    ]
}

/// Timers that are a little late.
fn pace() -> Pace {
    let (late, turns) = (latency(402_118, 0.03, 2.0), latency(610_394, 0.008, 2.4));
    let (cpu_seconds, waited_seconds) = (10.9, Some(0.42));
    let (writing, reading) = (latency(301_250, 0.01, 1.8), latency(301_250, 0.06, 3.1));
    let core = LoadCore {
        late: late.clone(),
        turns: turns.clone(),
        writing: writing.clone(),
        reading: reading.clone(),
        cpu_seconds,
        waited_seconds,
    };
    Pace { late, turns, writing, reading, cores: vec![core], bound: Some(100.0) }
}

fn members() -> Members {
    Members {
        started: 5_500,
        stopped: 5_000,
        crashed: 500,
        fenced: 38,
        rejoined: 38,
        revocations: 3_120,
        revocations_per_member_max: 4,
        disconnected: 500,
        memory_bytes_each: 27_812,
        failed: vec![FailedMember {
            group: "orders".into(),
            member: 17,
            at: 41.25,
            reason: HOSTILE.into(),
        }],
        failed_count: 2,
    }
}

fn error(api: &str, code: i16, name: &str, count: u64) -> ErrorCount {
    ErrorCount { api: api.into(), code, name: name.into(), count }
}

fn violations() -> Vec<Violation> {
    let event = |at: u64, member: u32, kind: &str| {
        json!({"at": at, "group": 0, "member": member, "kind": kind, "epoch": 12,
               "partitions": [[0, 17]]})
    };
    vec![
        Violation {
            rule: "two-owners".into(),
            at: 44.120_331,
            group: "orders".into(),
            what:
                "partition events-17 is owned by member 12 (epoch 12) and by member 90 (epoch 12)"
                    .into(),
            events: vec![event(31_002_114, 12, "assigned"), event(44_120_331, 90, "assigned")],
        },
        Violation {
            rule: "commit-lost".into(),
            at: 61.5,
            group: HOSTILE.into(),
            what: "offset 812 of events-3 was acknowledged, and 790 was read back".into(),
            events: vec![],
        },
    ]
}

/// A log-logistic distribution with this median. From one nine to the next (90 %, 99 %, 99.9 %),
/// the value grows by the factor `spread`.
fn latency(count: u64, p50: f64, spread: f64) -> Latency {
    let at = |percentile: f64| {
        let odds = percentile / (100.0 - percentile).max(100.0 / count as f64);
        rounded(p50 * odds.powf(spread.log10()))
    };
    let mut percentiles: Vec<_> = (0..20).map(|step| f64::from(step) * 5.0).collect();
    percentiles.extend([96.0, 97.0, 98.0, 99.0, 99.5, 99.75, 99.9, 99.95, 99.99, 99.999]);
    percentiles.push(100.0);
    Latency {
        count,
        mean: rounded(p50 * spread.sqrt()),
        min: at(0.2),
        p50: at(50.0),
        p90: at(90.0),
        p99: at(99.0),
        p999: at(99.9),
        max: at(100.0),
        percentiles: percentiles.into_iter().map(|p| (p, at(p.max(0.2)))).collect(),
    }
}

fn rounded(milliseconds: f64) -> f64 {
    (milliseconds * 1e3).round() / 1e3
}

fn scaled(latency: &Latency, factor: f64) -> Latency {
    let by = |value: f64| rounded(value * factor);
    Latency {
        count: latency.count,
        mean: by(latency.mean),
        min: by(latency.min),
        p50: by(latency.p50),
        p90: by(latency.p90),
        p99: by(latency.p99),
        p999: by(latency.p999),
        max: by(latency.max),
        percentiles: latency.percentiles.iter().map(|(p, value)| (*p, by(*value))).collect(),
    }
}

fn points() -> Vec<Point> {
    let steps = (DURATION / STEP) as u32;
    let mut random = fastrand::Rng::with_seed(7);
    (1..=steps).map(|step| point(f64::from(step) * STEP, &mut random)).collect()
}

fn point(at: f64, random: &mut fastrand::Rng) -> Point {
    let noise = 0.94 + 0.12 * random.f64();
    let joining = pulse(at, 0.5, 8.5) * 2_500.0 + pulse(at, 41.0, 44.0) * 2_250.0;
    let reconciling = pulse(at, 1.0, 3.0) * 2_400.0
        + pulse(at, 41.5, 63.0) * 180.0
        + pulse(at, 64.0, 68.0) * 400.0;
    let down = if (30.0..64.0).contains(&at) { CRASHED } else { 0.0 };
    let stable = (MEMBERS - joining - reconciling - down).max(0.0);
    let busy = stable / MEMBERS * noise;
    let tail = 1.0 + 6.0 * pulse(at, 41.0, 45.0) + random.f64();
    Point {
        at,
        members: named([
            ("stable", stable),
            ("joining", joining),
            ("reconciling", reconciling),
            ("down", down),
        ])
        .into_iter()
        .map(|(name, members)| (name, members as u32))
        .collect(),
        client_partitions: (at > 8.0).then_some(if (11.0..80.0).contains(&at) { 12 } else { 0 }),
        unowned_partitions: ((joining + reconciling) * 2.0 + pulse(at, 30.0, 44.0) * 1_000.0)
            as u32,
        rates: named([
            ("heartbeat", 1_700.0 * busy),
            ("commit", 2_600.0 * busy),
            ("join", joining / 4.0),
        ]),
        p99: named([("heartbeat", 0.7 * tail), ("commit", 1.9 * tail), ("join", 800.0 * tail)]),
        server_cpu: Some(rounded(0.38 * noise + joining / 6_000.0)),
        server_memory_bytes: Some(60_000_000 + (at.min(30.0) * 1_200_000.0) as u64),
    }
}

/// A trapezoid: 1 between `from` and `to`, with linear ramps on both sides.
fn pulse(at: f64, from: f64, to: f64) -> f64 {
    ((at - from + 0.5).clamp(0.0, 1.0)).min((to - at + 0.5).clamp(0.0, 1.0))
}

fn named<const N: usize>(values: [(&str, f64); N]) -> BTreeMap<String, f64> {
    values.into_iter().map(|(name, value)| (name.into(), rounded(value))).collect()
}

fn clients() -> Vec<Client> {
    let callback = |at, event: &str, partitions| Callback { at, event: event.into(), partitions };
    vec![Client {
        name: "python".into(),
        group: "muster-load-x1y2z3-orders-0".into(),
        started: 8.0,
        callbacks: vec![callback(11.25, "assigned", 12), callback(80.5, "revoked", 12)],
        callbacks_count: 2,
        partitions: 0,
        partitions_max: 12,
        ended: Some(80.75),
        how: Some(HOSTILE.into()),
    }]
}
