//! Records, messages and responses as lines of a script.

use muster_codec::ErrorCode;
use muster_codec::messages::AddPartitionsToTxnTopicResult;
use muster_codec::record_batch::TransactionOutcome;
use muster_codec::records::{KeptCommit, TransactionRecord};
use muster_transactions::message::{Known, Producer, ToSlot, ToSlotBody};
use muster_transactions::{PartitionSet, Response, State};

pub fn record(record: &TransactionRecord<'_>) -> String {
    let id = &record.key.transactional_id;
    let Some(value) = &record.value else { return format!("  {id} gone") };
    let state = State::ALL.into_iter().find(|it| *it as i8 == value.transaction_status).unwrap();
    let partitions = value.transaction_partitions.as_deref().map(PartitionSet::from);
    let partitions = partitions.map(|it| format!(" {}", set(&it))).unwrap_or_default();
    let mut line = format!(
        "  {id} {} {}/{} v{}{partitions} updated {} started {}",
        state.name(),
        value.producer_id,
        value.producer_epoch,
        value.client_transaction_version,
        value.transaction_last_update_timestamp_ms,
        value.transaction_start_timestamp_ms,
    );
    for (name, it, usual) in [
        ("timeout", i64::from(value.transaction_timeout_ms), 60_000),
        ("previous", value.previous_producer_id, value.producer_id),
        ("next", value.next_producer_id, -1),
    ] {
        if it != usual {
            line += &format!(" {name} {it}");
        }
    }
    for kept in &value.kept_commits {
        let KeptCommit { producer_id, producer_epoch, transaction_version } = kept;
        line += &format!(" kept {producer_id}/{producer_epoch} v{transaction_version}");
    }
    line
}

fn set(partitions: &PartitionSet) -> String {
    let names = partitions.iter().map(|(topic, partition)| {
        format!("{}-{partition}", if topic == "__consumer_offsets" { "offsets" } else { topic })
    });
    format!("[{}]", names.collect::<Vec<_>>().join(" "))
}

fn who(producer: &Producer) -> String {
    format!("{}/{}", producer.id, producer.epoch)
}

fn outcome(outcome: TransactionOutcome) -> &'static str {
    match outcome {
        TransactionOutcome::Commit => "commit",
        TransactionOutcome::Abort => "abort",
    }
}

pub fn message(message: &ToSlot, waits: &str) -> String {
    let body = match &message.body {
        ToSlotBody::ReportWanted { coordinator_epoch } => {
            format!("report wanted by epoch {coordinator_epoch}")
        }
        ToSlotBody::Reported(it) => {
            let known = it.known.iter().map(|(producer, known)| match known {
                Known::Open => format!(" {} open", who(producer)),
                Known::Decided { producer: marker, outcome: it, version } => {
                    format!(" {} {} {} v{version}", who(producer), outcome(*it), who(marker))
                }
            });
            format!("reported:{}", known.collect::<String>())
        }
        ToSlotBody::Verdict(it) if it.error != ErrorCode::None => {
            format!("no to {}: {:?}", it.number, it.error)
        }
        ToSlotBody::Verdict(it) if it.refused.is_empty() => format!("yes to {}", it.number),
        ToSlotBody::Verdict(it) => format!("yes to {} but {}", it.number, set(&it.refused)),
        ToSlotBody::Sync(it) => format!("sync {} {}", who(&it.producer), set(&it.partitions)),
        ToSlotBody::Marker(it) => format!(
            "{} {} v{} {}",
            outcome(it.outcome),
            who(&it.producer),
            it.version,
            set(&it.partitions)
        ),
    };
    format!("  -> {}: {body}{waits}", message.slot)
}

fn error(code: i16) -> String {
    match ErrorCode::from_code(code).unwrap() {
        ErrorCode::None => "ok".to_owned(),
        error => format!("{error:?}"),
    }
}

pub fn response(response: &Response) -> String {
    match response {
        Response::InitProducerId(it) if it.error_code == 0 => {
            format!("{}/{}", it.producer_id, it.producer_epoch)
        }
        Response::InitProducerId(it) => error(it.error_code),
        Response::AddPartitionsToTxn(it) => {
            let of_broker = it.results_by_transaction.iter().flat_map(|it| &it.topic_results);
            results(of_broker.chain(&it.results_by_topic_v3_and_below))
        }
        Response::AddOffsetsToTxn(it) => error(it.error_code),
        Response::EndTxn(it) if it.error_code == 0 => {
            format!("ok {}/{}", it.producer_id, it.producer_epoch)
        }
        Response::EndTxn(it) => error(it.error_code),
        Response::ListTransactions(it) => {
            let ids = it.transaction_states.iter().map(|it| {
                format!(", {} {} {}", it.transactional_id, it.transaction_state, it.producer_id)
            });
            let unknown = it.unknown_state_filters.iter().map(|it| format!(", unknown {it}"));
            error(it.error_code) + &ids.chain(unknown).collect::<String>()
        }
        Response::DescribeTransactions(it) => {
            let ids = it.transaction_states.iter().map(|it| {
                let topics = it.topics.iter();
                let topics = topics.map(|it| format!(" {}:{:?}", it.topic, it.partitions));
                format!(
                    "{} {} {} {}/{} timeout {} started {}{}",
                    it.transactional_id,
                    error(it.error_code),
                    it.transaction_state,
                    it.producer_id,
                    it.producer_epoch,
                    it.transaction_timeout_ms,
                    it.transaction_start_time_ms,
                    topics.collect::<String>(),
                )
            });
            ids.collect::<Vec<_>>().join(", ")
        }
    }
}

fn results<'r>(topics: impl Iterator<Item = &'r AddPartitionsToTxnTopicResult<'static>>) -> String {
    let partitions = topics.flat_map(|topic| {
        topic.results_by_partition.iter().map(|it| {
            format!("{}-{} {}", topic.name, it.partition_index, error(it.partition_error_code))
        })
    });
    partitions.collect::<Vec<_>>().join(", ")
}
