//! The leaders of share partitions, as in the oracle. They answer each request at once, and have no
//! offsets.

use muster_codec::Uuid;
use muster_coordinator::{StateRequest, StateResult, Summary};

pub fn done(request: &StateRequest) -> Vec<StateResult> {
    let done = |topic_id: Uuid, partition: i32| StateResult {
        topic_id,
        partition,
        result: Ok(Summary::default()),
    };
    match request {
        StateRequest::Initialize { topics, .. } => {
            let partitions = topics.iter().flat_map(|(id, all)| all.iter().map(|it| (*id, it.0)));
            partitions.map(|(id, partition)| done(id, partition)).collect()
        }
        StateRequest::Delete(topics) | StateRequest::ReadSummary(topics) => {
            let partitions = topics.iter().flat_map(|(id, all)| all.iter().map(|it| (*id, *it)));
            partitions.map(|(id, partition)| done(id, partition)).collect()
        }
    }
}
