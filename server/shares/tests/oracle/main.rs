//! Compares muster's share partitions with Apache Kafka's own. See `README.md`.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod argued;
mod broker;
mod compare;
mod differential;
mod json;
mod letters;
mod log;
mod shown;
mod state;
mod topics;
mod transcript;
mod waiting;

use argued::{Argued, Difference};
use json::list;
use muster_shares::SharePartitionKey;
use transcript::{Transcript, transcripts};

#[test]
fn share_state_is_as_kafkas() {
    let mut argued = Argued::default();
    let (mut records, mut answers) = (0, 0);
    for transcript in transcripts("share-state") {
        let coordinator = state::replay(&transcript).unwrap_or_else(|what| panic!("{what}"));
        records += coordinator.records;
        answers += coordinator.answers;
        argued.add(&coordinator.argued);
    }
    println!("{records} records, {answers} answers; argued differences:\n{argued}");
    assert!(records > 300 && answers > 800, "{records} records and {answers} answers alike");
    let again = argued.count(Difference::InitializedAgain);
    assert!(again > 0, "initializing once more is no longer a difference");
}

#[test]
fn share_partitions_are_as_kafkas() {
    let (mut acquired, mut changes, mut states) = (0, 0, 0);
    let mut argued = Argued::default();
    let areas = ["share-partition", "share-dlq", "quiet", "busy", "dead"];
    let mut letters = 0;
    for transcript in areas.into_iter().flat_map(transcripts) {
        let (broker, rest) = partition_run(&transcript).unwrap_or_else(|what| panic!("{what}"));
        let counts = broker.counts;
        argued.add(&broker.coordinator.argued);
        println!("{}: {counts:?}, {rest} operations left out", transcript.name);
        assert!(rest == 0 || transcript.name.starts_with("share-"));
        letters += broker.letters.compared;
        acquired += counts.acquired;
        changes += counts.changes;
        states += counts.states;
    }
    assert!(acquired > 1_000 && changes > 500 && states > 1_500, "{acquired} {changes} {states}");
    assert!(letters > 100, "{letters} records whose letters are alike");
    for difference in [
        Difference::AbortedAlone,
        Difference::WithoutRecords,
        Difference::BeforeStart,
        Difference::StartGoesBack,
        Difference::HoleStays,
        Difference::Exception,
    ] {
        assert!(argued.count(difference) > 0, "{difference:?} is no longer a difference");
    }
}

/// The test takes the last operation of a run, and adds a change of another share partition to
/// Kafka's output. No intended difference in this operation may explain the change.
#[test]
fn a_difference_of_a_share_partition_explains_none_of_another() {
    let mut refused = 0;
    for mut transcript in ["busy", "dead"].into_iter().flat_map(transcripts) {
        let (broker, rest) = partition_run(&transcript).unwrap();
        let end = transcript.lines.len() - rest - 1;
        let line = &mut transcript.lines[end].output;
        let is_of_line = |it: &&SharePartitionKey| {
            list(&line["states"]).iter().any(|state| broker.key_of(state) == **it)
        };
        let mut others = broker.open.keys().filter(|it| !is_of_line(it));
        let Some(SharePartitionKey { group_id, topic_id, partition }) = others.next() else {
            continue;
        };
        let write = serde_json::json!({
            "kind": "write",
            "group": &**group_id,
            "topic": broker.coordinator.world.name(*topic_id),
            "partition": partition,
            "start_offset": 0,
            "delivery_complete_count": 0,
            "batches": [[0, 0, 2, 1]],
        });
        let calls = list(&line["persister"]).iter().cloned().chain([write]);
        line["persister"] = calls.collect();
        assert!(partition_run(&transcript).is_err(), "{}", transcript.name);
        refused += 1;
    }
    assert!(refused > 3, "{refused}");
}

/// Replays a transcript. Ends early at an operation that muster does not have, or after an intended
/// difference that makes later states differ. muster does not have two kinds of operations: writes
/// of share state that are answered late or with errors, and requests for share state while a share
/// partition is open, which may alter its offsets.
fn partition_run(transcript: &Transcript) -> Result<(broker::Broker, usize), String> {
    let mut broker = broker::Broker::new(&transcript.lines[0].input);
    for (number, line) in transcript.lines.iter().enumerate().skip(1) {
        let op = &line.input["op"];
        let alters = op == "request" && !broker.open.is_empty();
        if ["persister", "answer", "hold", "fail"].iter().any(|it| op == it) || alters {
            return Ok((broker, transcript.lines.len() - number));
        }
        let place =
            |what| format!("{} line {}: {}\n  {what}", transcript.name, number + 1, line.input);
        if let Some(difference) = broker.apply(line).map_err(place)? {
            broker.coordinator.argued.note(difference);
            return Ok((broker, transcript.lines.len() - number - 1));
        }
    }
    Ok((broker, 0))
}

/// Replays a transcript of any area. Returns the number of operations that are left out at its end.
fn run(transcript: &Transcript) -> Result<(state::Coordinator, usize), String> {
    if transcript.name.starts_with("share-state") {
        return Ok((state::replay(transcript)?, 0));
    }
    let (broker, rest) = partition_run(transcript)?;
    Ok((broker.coordinator, rest))
}

/// A long random run. `MUSTER_ORACLE` is the folder of the oracle.
#[test]
#[ignore = "needs the oracle and a JDK; set MUSTER_ORACLE and run with --ignored"]
fn random_runs() {
    let plan = differential::Plan::from_environment();
    println!("MUSTER_ORACLE_SEED={}", plan.seed);
    let (mut runs, mut operations, mut differing) = (0, 0, 0);
    let mut argued = Argued::default();
    plan.run(|transcript| {
        let compared = run(transcript);
        runs += 1;
        match &compared {
            Ok((coordinator, rest)) => {
                operations += transcript.lines.len() - rest;
                argued.add(&coordinator.argued);
            }
            Err(what) => {
                println!("{what}");
                differing += 1;
            }
        }
        compared.is_ok()
    });
    println!("{runs} runs, {operations} operations, {differing} differ; argued:\n{argued}");
    assert_eq!(differing, 0);
}

/// Replays the transcripts in the folder `MUSTER_ORACLE_TRANSCRIPTS`.
#[test]
#[ignore = "needs transcripts; set MUSTER_ORACLE_TRANSCRIPTS and run with --ignored"]
fn transcripts_of_a_folder() {
    const FOLDER: &str = "MUSTER_ORACLE_TRANSCRIPTS";
    let folder = std::env::var_os(FOLDER).expect("set MUSTER_ORACLE_TRANSCRIPTS");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    assert!(!paths.is_empty(), "the folder has no transcripts");
    paths.sort();
    let mut differing = 0;
    for transcript in paths.iter().map(|path| Transcript::read(path)) {
        match run(&transcript) {
            Ok((it, rest)) => println!("{}: {rest} left out\n{}", transcript.name, it.argued),
            Err(what) => {
                println!("{what}");
                differing += 1;
            }
        }
    }
    assert_eq!(differing, 0);
}
