//! FindCoordinator: the broker that leads the slot of a group, a transactional id or a share
//! partition.

use super::{Endpoint, View};
use crate::cluster::state_slot;
use crate::placement::Slot;
use muster_codec::messages::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};
use muster_codec::{AnswerBudget, ErrorCode, Str, Uuid};

/// The key types of the protocol.
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;

/// The first version with the key type of share partitions.
const SHARE_FROM: i16 = 6;

/// The coordinator of one key, or of several keys from version 4 on (KIP-699).
pub fn find_coordinator<'r>(
    view: &View<'r>,
    version: i16,
    request: &'r FindCoordinatorRequest<'_>,
) -> FindCoordinatorResponse<'r> {
    let find = |key: &'r Str<'_>| coordinator(view, version, request.key_type, key);
    if version >= 4 {
        let mut budget = AnswerBudget::of_answer();
        let found = request.coordinator_keys.iter().map(find);
        let coordinators = found.map_while(|coordinator| budget.fit(coordinator)).collect();
        return FindCoordinatorResponse { coordinators, ..Default::default() };
    }
    let Coordinator { node_id, host, port, error_code, error_message, .. } = find(&request.key);
    let is_found = error_code == ErrorCode::None.code();
    FindCoordinatorResponse {
        error_code,
        error_message: if is_found { Some("NONE".into()) } else { error_message },
        node_id,
        host,
        port,
        ..Default::default()
    }
}

fn coordinator<'r>(view: &View<'r>, version: i16, key_type: i8, key: &'r str) -> Coordinator<'r> {
    let words = match key_type {
        GROUP => return leader_of(view, key, view.placement.group_slot(key)),
        TRANSACTION => {
            let partition = view.placement.transactions_partition(key);
            return leader_of(view, key, view.placement.slot_of_transactions(partition));
        }
        SHARE if version >= SHARE_FROM => match share_partition(key) {
            Some((topic_id, partition)) => {
                let topic = view.image.topic_by_id(topic_id);
                let slot = topic.and_then(|it| state_slot(it, partition, view.placement));
                // If the topic is unknown, this shard is the answer: any shard reports that the
                // topic does not exist.
                return match slot {
                    Some(slot) => leader_of(view, key, slot),
                    None => at(key, view.brokers.own(view.shard)),
                };
            }
            None => "A share partition key is group:topic id:partition.",
        },
        _ => {
            "This most likely occurs because of a request being malformed by the client library or \
             the message was sent to an incompatible broker. See the broker logs for more details."
        }
    };
    no_coordinator(key, ErrorCode::InvalidRequest, words)
}

/// The topic id and partition of a key `group:topicId:partition`. The group id may contain colons.
fn share_partition(key: &str) -> Option<(Uuid, i32)> {
    let (rest, partition) = key.rsplit_once(':')?;
    let (group_id, topic_id) = rest.rsplit_once(':')?;
    let partition = partition.parse().ok().filter(|it| *it >= 0)?;
    let topic_id = Uuid::parse(topic_id)?;
    (!group_id.is_empty()).then_some((topic_id, partition))
}

/// The answer that names the leader of a slot as the coordinator of a key.
fn leader_of<'r>(view: &View<'r>, key: &'r str, slot: Slot) -> Coordinator<'r> {
    at(key, view.brokers.leader(slot, view.placement))
}

/// The answer that names a broker as the coordinator of a key.
fn at<'r>(key: &'r str, broker: Option<(i32, &'r Endpoint)>) -> Coordinator<'r> {
    let Some((node_id, endpoint)) = broker else {
        return no_coordinator(key, ErrorCode::CoordinatorNotAvailable, "");
    };
    Coordinator {
        key: key.into(),
        node_id,
        host: Str::Borrowed(&endpoint.host),
        port: endpoint.port.into(),
        ..Default::default()
    }
}

fn no_coordinator<'r>(key: &'r str, error: ErrorCode, words: &'static str) -> Coordinator<'r> {
    Coordinator {
        key: key.into(),
        node_id: -1,
        port: -1,
        error_code: error.code(),
        error_message: Some(words.into()),
        ..Default::default()
    }
}
