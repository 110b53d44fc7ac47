//! All kinds of damage to data at rest: data that are missing, cut, wiped, flipped, swapped, or put
//! back from an earlier state. The server must serve all acknowledged data. Otherwise it must
//! refuse to start, name the damage, and leave every byte in place.
//!
//! `MUSTER_AT_REST_CASES` sets the number of cases (by default a sample of all kinds),
//! `MUSTER_SEED` seeds the sample, and `MUSTER_AT_REST_CASE` selects cases by a part of their
//! names.

mod damage;
mod image;
mod judge;
mod kinds;
mod structure;
mod trial;
mod truth;

use crate::support::offsets::muster_log;
use crate::support::variable;
use damage::{Case, cases, hash};
use image::Image;
use judge::{Verdict, judge};
use kinds::{KINDS, Made};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use trial::Outcome;

const CASES: u64 = 60;

/// A sample of at most this number of cases leaves out the directory that takes longest to make.
const CASES_OF_SMALL: u64 = 500;

/// The number of servers that run at the same time.
const TRIALS: usize = 3;

#[test]
fn damage_at_rest_is_served_around_or_refused_by_name_and_takes_no_byte_away() {
    let wanted = std::env::var("MUSTER_AT_REST_CASE").ok();
    let count = variable("MUSTER_AT_REST_CASES", CASES);
    let is_named = |kind: &&kinds::Kind, name: &str| name.starts_with(&format!("{} ", kind.name));
    let is_wanted = |kind: &&kinds::Kind| match &wanted {
        Some(name) if KINDS.iter().any(|kind| is_named(&kind, name)) => is_named(kind, name),
        _ => count > CASES_OF_SMALL || kind.name != "large-killed-3",
    };
    let kinds: Vec<_> = KINDS.iter().filter(is_wanted).collect();
    let made: Vec<_> = thread::scope(|scope| {
        let make = |kind: &'static kinds::Kind| scope.spawn(|| Made::make(*kind));
        let threads: Vec<_> = kinds.into_iter().map(make).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let of_kind = |made| cases(made).into_iter().map(move |case| (made, case));
    let all: Vec<_> = made.iter().flat_map(of_kind).collect();
    let total = all.len();
    let named = |case: &Case| wanted.as_ref().is_none_or(|name| case.name.contains(name));
    let named = all.into_iter().filter(|(_, case)| named(case)).collect();
    let sample = sample(named, count as usize, variable("MUSTER_SEED", 1));
    assert!(!sample.is_empty(), "no case is named {wanted:?}");
    let (verdicts, failures) = try_all(&sample);
    println!("{} of {total} cases: {verdicts:?}", sample.len());
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

/// Draws `count` cases, equally from each class.
fn sample(all: Vec<(&Made, Case)>, count: usize, seed: u64) -> Vec<(&Made, Case)> {
    let mut sorts: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for (made, case) in all {
        sorts.entry(case.class.clone()).or_default().push((made, case));
    }
    let draw = |case: &Case| hash(&format!("{seed} {}", case.name));
    let mut ranked = Vec::new();
    for sort in sorts.values_mut() {
        sort.sort_by_key(|(_, case)| draw(case));
        ranked.extend(sort.drain(..).enumerate());
    }
    ranked.sort_by_key(|(rank, (_, case))| (*rank, draw(case)));
    ranked.into_iter().take(count).map(|(_, case)| case).collect()
}

type Verdicts = BTreeMap<Verdict, usize>;

fn try_all(sample: &[(&Made, Case)]) -> (Verdicts, Vec<String>) {
    let next = AtomicUsize::new(0);
    let (verdicts, failures) = (Mutex::new(Verdicts::new()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..TRIALS {
            scope.spawn(|| {
                while let Some((made, case)) = sample.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let tried = catch_unwind(AssertUnwindSafe(|| try_one(made, case)));
                    match tried.unwrap_or_else(|_| Err(format!("{}: the test panicked", case.name)))
                    {
                        Ok(verdict) => {
                            *verdicts.lock().unwrap().entry(verdict).or_default() += 1;
                        }
                        Err(why) => failures.lock().unwrap().push(why),
                    }
                }
            });
        }
    });
    (verdicts.into_inner().unwrap(), failures.into_inner().unwrap())
}

/// # Errors
/// The server violated a rule. The error has the server's output, and the command that repeats the
/// case.
fn try_one(made: &Made, case: &Case) -> Result<Verdict, String> {
    let place = tempfile::tempdir().unwrap();
    let before = case.image(made);
    before.write(place.path());
    let verified = muster_log(["verify".as_ref(), place.path().as_os_str()]);
    let first = trial::start(place.path(), made.kind);
    let after = Image::read(place.path());
    let verdict = judge(case, made, &before, &first, &after).and_then(|verdict| {
        if matches!(verdict, Verdict::Refused | Verdict::Offline) && verified.status == 0 {
            return Err(format!("verify found nothing: {}", verified.out));
        }
        again(place.path(), made, &first.outcome).map(|()| verdict)
    });
    verdict.map_err(|why| {
        let again = format!(
            "MUSTER_AT_REST_CASE='{}' cargo test -p muster --test end_to_end matrix -- --nocapture",
            case.name
        );
        let lines = first.lines.join("\n    ");
        format!("{}: {why}\n    {lines}\n  again: {again}\n", case.name)
    })
}

/// Expects that a second start serves the same data as the first, or is refused in the same way.
fn again(data: &Path, made: &Made, first: &Outcome) -> Result<(), String> {
    let second = trial::start(data, made.kind).outcome;
    match (first, &second) {
        (Outcome::Served(first), Outcome::Served(second)) => {
            let differences = first.differences(second);
            let first = differences.first();
            first.map_or(Ok(()), |first| Err(format!("the second start differs: {first}")))
        }
        (Outcome::Refused(_), Outcome::Refused(_)) => Ok(()),
        (_, second) => Err(format!("the second start ended otherwise: {second:?}")),
    }
}
