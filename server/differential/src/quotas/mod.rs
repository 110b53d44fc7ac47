//! Compares clients with quotas on Apache Kafka and muster: errors, throttle times, and how long
//! they are not served.

mod admin;
mod cases;
mod client;

use admin::Admin;
use cases::{CASES, Case};
use client::Seen;
use std::io;
use std::thread;

/// Times may differ by this fraction, or by [`TOLERANCE_MS`] if that is more.
const TOLERANCE: f64 = 0.1;
const TOLERANCE_MS: i64 = 300;

/// The longest time that an answer is on its way. The throttle time begins earlier, when the server
/// makes the answer.
const RECEIVED_MS: i64 = 50;

/// Runs each case on both servers at the same time, and prints its steps. Returns whether the
/// servers agree.
pub fn compare(kafka: &str, muster: &str, run: u64) -> io::Result<bool> {
    let mut agrees = true;
    for (name, case) in CASES {
        let of = |address: &str| run_case(address, run, case);
        let (kafka, muster) = thread::scope(|scope| {
            let kafka = scope.spawn(|| of(kafka));
            let muster = of(muster);
            (kafka.join(), muster)
        });
        let kafka = kafka.map_err(|_| io::Error::other("panic"))??;
        println!("{name}");
        agrees &= report(&kafka, &muster?);
    }
    Ok(agrees)
}

fn run_case(address: &str, run: u64, case: Case) -> io::Result<Vec<Seen>> {
    case(&mut Admin::new(address, run)?)
}

/// Prints the steps of a case, with the differences.
fn report(kafka: &[Seen], muster: &[Seen]) -> bool {
    let mut agrees = kafka.len() == muster.len();
    let mut before = [0, 0];
    for (kafka, muster) in kafka.iter().zip(muster) {
        let found = differences([kafka, muster], before);
        println!("  {}: {} | {}", kafka.what, shown(kafka), shown(muster));
        found.iter().for_each(|it| println!("    DIFFERS: {it}"));
        agrees &= found.is_empty();
        before = [kafka.throttle_ms, muster.throttle_ms];
    }
    agrees
}

fn shown(seen: &Seen) -> String {
    let Seen { errors, throttle_ms, after_ms, .. } = seen;
    format!("[{errors}] throttled for {throttle_ms} ms, after {after_ms} ms")
}

/// The differences in a step. `before` has each server's throttle time in the previous step. For
/// this time, the server does not serve the connection.
fn differences([kafka, muster]: [&Seen; 2], before: [i64; 2]) -> Vec<&'static str> {
    let checks = [
        (kafka.errors == muster.errors, "errors"),
        (is_near(kafka.throttle_ms, muster.throttle_ms), "throttle times"),
        (is_near(kafka.after_ms - before[0], muster.after_ms - before[1]), "times of service"),
        (muster.after_ms >= before[1] - RECEIVED_MS, "muster serves the client before its time"),
        (kafka.after_ms >= before[0] - RECEIVED_MS, "Kafka serves the client before its time"),
    ];
    checks.into_iter().filter(|(agrees, _)| !agrees).map(|(_, what)| what).collect()
}

fn is_near(kafka: i64, muster: i64) -> bool {
    let most = TOLERANCE_MS.max((kafka as f64 * TOLERANCE) as i64);
    (kafka - muster).abs() <= most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(errors: &str, throttle_ms: i64, after_ms: i64) -> Seen {
        Seen { what: String::new(), errors: errors.to_owned(), throttle_ms, after_ms }
    }

    #[test]
    fn times_may_differ_a_little_and_errors_may_not() {
        let kafka = seen("0", 5_000, 3_000);
        let of = |muster| differences([&kafka, &muster], [2_900, 2_900]);
        assert!(of(seen("0", 5_400, 2_901)).is_empty());
        assert_eq!(of(seen("0", 5_600, 3_000)), ["throttle times"]);
        let early = ["times of service", "muster serves the client before its time"];
        assert_eq!(of(seen("0", 5_000, 2_600)), early);
    }
}
