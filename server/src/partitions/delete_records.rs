//! DeleteRecords and OffsetForLeaderEpoch: small requests on single partitions.

use super::disk::Disk;
use super::effects::{Call, Effects};
use super::happened::Happened;
use super::locate::check_leader_epoch;
use super::table::Table;
use muster_codec::ErrorCode;
use muster_codec::messages::{
    DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse,
    DeleteRecordsTopicResult, EpochEndOffset, OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse, OffsetForLeaderPartition, OffsetForLeaderTopicResult,
};
use std::collections::HashMap;

/// The value that stands for the high watermark (`DeleteRecordsRequest.HIGH_WATERMARK`).
const HIGH_WATERMARK: i64 = -1;

impl Table {
    /// DeleteRecords v0 to v2.
    pub(super) fn delete_records_of(
        &mut self,
        disk: &mut Disk,
        call: Call<'_>,
        body: &DeleteRecordsRequest<'_>,
        out: &mut Effects,
    ) -> Happened {
        let mut happened = Happened::Nothing;
        let mut topics: Vec<DeleteRecordsTopicResult<'static>> = Vec::new();
        let mut places = HashMap::with_capacity(body.topics.len());
        for (name, partition_index, offset) in last_asked(body) {
            let deleted = self.delete_before(disk, call, name, partition_index, offset, out);
            if deleted.is_ok() {
                happened = Happened::Trimmed;
            }
            let (low_watermark, error) = match deleted {
                Ok(Some(low_watermark)) => (low_watermark, ErrorCode::None),
                Ok(None) => (-1, ErrorCode::OffsetOutOfRange),
                Err(error) => (-1, error),
            };
            let place = *places.entry(name).or_insert(topics.len());
            if place == topics.len() {
                let name = name.to_owned().into();
                topics.push(DeleteRecordsTopicResult { name, partitions: Vec::new() });
            }
            let error_code = error.code();
            let result =
                DeleteRecordsPartitionResult { partition_index, low_watermark, error_code };
            topics[place].partitions.push(result);
        }
        out.send(call.request, DeleteRecordsResponse { throttle_time_ms: 0, topics });
        happened
    }

    /// Deletes records before an offset. Returns the new log start offset; None if the offset is
    /// not in the log.
    fn delete_before(
        &mut self,
        disk: &mut Disk,
        call: Call<'_>,
        topic: &str,
        index: i32,
        offset: i64,
        out: &mut Effects,
    ) -> Result<Option<i64>, ErrorCode> {
        let id = self.locate_named(call.image, topic, index)?;
        if id.is_internal() {
            return Err(ErrorCode::PolicyViolation);
        }
        let partition = self.get(id).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        // The new log start is kept in a file. The file might not be written, or might be written
        // where no startup finds it.
        if partition.is_lost || partition.has_lost_writes {
            return Err(ErrorCode::KafkaStorageError);
        }
        // A topic whose policy is neither compact nor delete keeps records until they are deleted
        // by request.
        let policy = partition.config.cleanup_policy;
        if policy.compact && !policy.delete {
            return Err(ErrorCode::PolicyViolation);
        }
        let high_watermark = partition.log.high_watermark();
        let offset = if offset == HIGH_WATERMARK { high_watermark } else { offset };
        let wall = call.wall;
        let deleted = self.delete_records(id, offset, wall, disk, out);
        Ok(deleted)
    }

    /// OffsetForLeaderEpoch v2 to v4.
    pub(super) fn offset_for_leader_epoch(
        &self,
        call: Call<'_>,
        body: &OffsetForLeaderEpochRequest<'_>,
        out: &mut Effects,
    ) {
        let mut topics = Vec::with_capacity(body.topics.len());
        for topic in &body.topics {
            let answers = topic.partitions.iter();
            let partitions =
                answers.map(|asked| self.epoch_end(call, &topic.topic, asked)).collect();
            let topic = topic.topic.clone().into_owned().into();
            topics.push(OffsetForLeaderTopicResult { topic, partitions });
        }
        out.send(call.request, OffsetForLeaderEpochResponse { throttle_time_ms: 0, topics });
    }

    fn epoch_end(
        &self,
        call: Call<'_>,
        topic: &str,
        asked: &OffsetForLeaderPartition,
    ) -> EpochEndOffset {
        let found = self
            .locate_named(call.image, topic, asked.partition)
            .and_then(|id| check_leader_epoch(asked.current_leader_epoch).map(|()| id));
        let mut answer = EpochEndOffset { partition: asked.partition, ..Default::default() };
        match found {
            Err(error) => answer.error_code = error.code(),
            // There is only epoch 0, and the end of the log is its end (KIP-320).
            Ok(id) if asked.leader_epoch == 0 => {
                (answer.leader_epoch, answer.end_offset) = (0, self.bounds(id).high_watermark);
            }
            // As in Kafka, an epoch before epoch 0 ends where epoch 0 begins: at the log start. The
            // value -1 means no epoch, for which there is no end.
            Ok(id) if asked.leader_epoch < -1 => {
                (answer.leader_epoch, answer.end_offset) =
                    (asked.leader_epoch, self.bounds(id).log_start);
            }
            Ok(_) => {}
        }
        answer
    }
}

/// The requested offset of each partition. As in Kafka, a partition that is named several times is
/// answered once, by the last of its offsets.
fn last_asked<'r>(body: &'r DeleteRecordsRequest<'_>) -> Vec<(&'r str, i32, i64)> {
    let topics = body.topics.iter();
    let all = topics.flat_map(|topic| topic.partitions.iter().map(|one| (&*topic.name, one)));
    let mut places = HashMap::new();
    let mut asked: Vec<(&str, i32, i64)> = Vec::new();
    for (name, partition) in all {
        let place = *places.entry((name, partition.partition_index)).or_insert(asked.len());
        match asked.get_mut(place) {
            Some(first) => first.2 = partition.offset,
            None => asked.push((name, partition.partition_index, partition.offset)),
        }
    }
    asked
}
