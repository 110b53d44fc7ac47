//! Compares muster's answers with Kafka's in recorded histories: see
//! `server/differential/README.md`.

use crate::support::Server;
use differential::known::{self, Known};
use differential::recording::{self, Recorded};
use differential::report::Report;
use differential::{CONFIGS, history};
use std::path::Path;

/// The recordings: of groups, offsets and records; of topics and configs; of configs in many forms;
/// and of transactions.
const RECORDINGS: [&str; 4] = [
    "tests/data/kafka_answers.gz",
    "tests/data/kafka_topic_answers.gz",
    "tests/data/kafka_config_answers.gz",
    "tests/data/kafka_transaction_answers.gz",
];

fn recorded() -> Vec<Recorded> {
    let read = |path| recording::read(Path::new(path)).unwrap();
    RECORDINGS.into_iter().flat_map(read).collect()
}

fn replayed(histories: &[Recorded]) -> Report {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), 1, CONFIGS);
    let address = format!("127.0.0.1:{}", server.port);
    let known = Known::read(known::LIST).unwrap();
    let mut report = Report::default();
    for recorded in histories {
        history::replay(&address, &known, recorded, &mut report).unwrap();
    }
    report
}

#[test]
fn muster_answers_as_kafka_did() {
    let histories = recorded();
    let recorded: usize = histories.iter().map(|history| history.turns.len()).sum();
    let report = replayed(&histories);
    assert!(report.is_clean(), "{report}");
    assert!(report.requests > 1_000, "most of {recorded} requests are compared: {report}");
    let topics = ["Metadata", "CreateTopics", "DescribeConfigs", "IncrementalAlterConfigs"];
    assert!(topics.iter().all(|api| report.by_api[api] > 40), "{report}");
    let transactions = ["InitProducerId", "AddPartitionsToTxn", "TxnOffsetCommit", "EndTxn"];
    assert!(transactions.iter().all(|api| report.by_api[api] > 20), "{report}");
}

#[test]
fn an_altered_answer_is_found() {
    let mut histories = recorded();
    histories.truncate(1);
    let answers = histories[0].turns.iter_mut().flat_map(|turn| &mut turn.done);
    let mut altered = 0;
    for done in answers {
        altered += u32::from(done.alter());
    }
    assert!(altered > 0);
    assert!(!replayed(&histories).is_clean());
}
