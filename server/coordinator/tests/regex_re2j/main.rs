//! Compares muster's regular expressions with RE2J: recorded results always, and new random
//! expressions if RE2J's jar is given:
//!
//! ```text
//! mvn dependency:copy -Dartifact=com.google.re2j:re2j:1.8 -DoutputDirectory=DIR
//! MUSTER_RE2J_JAR=DIR/re2j-1.8.jar cargo test --release -p muster-coordinator \
//!     --test regex_re2j -- --ignored
//! ```
//!
//! `MUSTER_RE2J_SEED` (default 1) and `MUSTER_RE2J_CASES` (default 100,000) select the cases.
//! `MUSTER_RE2J_RECORD` names a file to which the results are written. A JDK of 17 or later is
//! needed.
#![allow(clippy::unwrap_used)]

mod generate;

use generate::{Case, Generator};
use muster_coordinator::regex::{Matcher, Regex, RegexError};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn verdicts_equal_the_recorded_ones_of_re2j() {
    let recorded = include_str!("../data/regex/verdicts.tsv");
    let mut names = 0;
    for line in recorded.lines() {
        let (verdict, case) = line.split_once('\t').unwrap();
        let case = Case::parse(case);
        names += case.names.len();
        assert_eq!(our_verdict(&case).as_deref(), Some(verdict), "{case:?}");
    }
    assert!(names > 10_000, "{names} names");
}

#[test]
#[ignore = "needs RE2J's jar and a JDK; set MUSTER_RE2J_JAR and run with --ignored"]
fn verdicts_equal_new_ones_of_re2j() {
    let jar = std::env::var_os("MUSTER_RE2J_JAR").expect("set MUSTER_RE2J_JAR");
    let number = |name: &str, default| std::env::var(name).map_or(default, |n| n.parse().unwrap());
    let seed = number("MUSTER_RE2J_SEED", 1);
    let cases = number("MUSTER_RE2J_CASES", 100_000);
    let mut record =
        std::env::var_os("MUSTER_RE2J_RECORD").map(|path| std::fs::File::create(path).unwrap());
    let mut tally = Tally::default();
    let mut seen = 0;
    let each = |case: &Case, theirs: &str| {
        if let Some(record) = &mut record
            && theirs != "endless"
        {
            writeln!(record, "{theirs}\t{}", case.line()).unwrap();
        }
        tally.add(case, theirs);
        seen += 1;
    };
    with_re2j(jar.as_ref(), seed, cases, each);
    println!("seed {seed}: {tally:?}");
    assert_eq!(seen, cases);
    assert_eq!(tally.differences, 0);
    assert!(tally.argued <= 1 + tally.expressions / 50_000);
    assert!(tally.refused > 0 && tally.matched > 0 && tally.unmatched > 0);
}

/// Counts of the comparison.
#[derive(Debug, Default)]
struct Tally {
    expressions: u64,
    refused: u64,
    /// Expressions that RE2J never finishes.
    endless: u64,
    /// Expressions beyond muster's limit that RE2J accepts.
    too_large: u64,
    matched: usize,
    unmatched: usize,
    /// Differences for which RE2J is known to be wrong. If alternatives begin with the same letter,
    /// as in `a|(?i)a`, RE2J matches this letter once for all, although one alternative ignores
    /// case.
    argued: u64,
    differences: u64,
}

impl Tally {
    fn add(&mut self, case: &Case, theirs: &str) {
        self.expressions += 1;
        let Some(ours) = our_verdict(case) else {
            self.too_large += 1;
            return;
        };
        if theirs == "endless" {
            self.endless += 1;
            println!("endless: {case:?}");
            return;
        }
        if ours != theirs {
            let is_argued = case.expression.contains('|') && case.expression.contains("(?i");
            *(if is_argued { &mut self.argued } else { &mut self.differences }) += 1;
            println!("ours {ours}, theirs {theirs}: {case:?}");
        }
        if theirs.bytes().all(|byte| matches!(byte, b'0' | b'1')) {
            self.matched += theirs.matches('1').count();
            self.unmatched += theirs.matches('0').count();
        } else {
            self.refused += 1;
        }
    }
}

/// The result in the form of `Verdicts.java`. None if the expression exceeds muster's limit.
fn our_verdict(case: &Case) -> Option<String> {
    let regex = match Regex::new(&case.expression) {
        Ok(regex) => regex,
        Err(RegexError::TooLarge) => return None,
        Err(error) => return Some(error.to_string()),
    };
    let mut matcher = Matcher::default();
    let mut verdict = String::new();
    for name in &case.names {
        write!(verdict, "{}", u8::from(matcher.matches(&regex, name))).unwrap();
    }
    Some(verdict)
}

fn with_re2j(jar: &Path, seed: u64, cases: u64, mut each: impl FnMut(&Case, &str)) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/regex_re2j/Verdicts.java");
    let mut java = Command::new("java")
        .arg("-cp")
        .arg(jar)
        .arg(source)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = java.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        for case in Generator::new(seed).take(cases as usize) {
            writeln!(input, "{}", case.line()).unwrap();
        }
    });
    let verdicts = BufReader::new(java.stdout.take().unwrap()).lines();
    for (case, verdict) in Generator::new(seed).take(cases as usize).zip(verdicts) {
        each(&case, &verdict.unwrap());
    }
    writer.join().unwrap();
    assert!(java.wait().unwrap().success());
}
