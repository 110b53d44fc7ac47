//! muster's share partitions against Apache Kafka's own: see `README.md`.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod argued;
mod json;
mod state;
mod topics;
mod transcript;

use argued::{Argued, Difference};
use transcript::transcripts;

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
    for difference in
        [Difference::StartBack, Difference::InitializedAgain, Difference::ReadWithoutEpoch]
    {
        assert!(argued.count(difference) > 0, "no longer a difference: {difference:?}");
    }
}
