//! Appends. The records of an operation join the open batch of their partition; records of a
//! transaction get a batch of their own. All open batches together become the next block.

use super::ShardLog;
use super::partitions::Part;
use crate::append_error::AppendError;
use crate::layout::{BLOCK_HEADER_BYTES, ENTRY_HEADER_BYTES, PARTITION_BYTES};
use crate::log_partition::LogPartition;
use muster_codec::record_batch::{BatchHeader, EndTxnMarker, Producer, WriteRecord};

impl ShardLog {
    /// Accepts the records of one operation. Operations are atomic: recovery finds all records of
    /// an operation, or none. The timestamp of the records is the wall-clock time. Returns the
    /// operation's position; the operation is durable when
    /// [`Progress::flushed`](crate::Progress::flushed) has reached the position. In a replicated
    /// log the position is that of the slot ([`ShardLog::progress_of`]).
    ///
    /// # Errors
    /// [`AppendError::TooLarge`]. A [full](ShardLog::is_full) log still accepts operations, because
    /// one request may cause many; but the caller must not handle further requests.
    ///
    /// # Panics
    /// There is no record, the partition is out of range, or its topic has no rule.
    pub fn append<R: WriteRecord>(
        &mut self,
        partition: LogPartition,
        now: i64,
        records: impl IntoIterator<Item = R>,
    ) -> Result<u64, AppendError> {
        let was_open = self.begin(partition);
        let grown = self.write_records(partition, self.wall(now), records)?;
        let lingers = self.config.topics.of(partition.topic).lingers;
        Ok(self.accept(partition, was_open, grown, now, lingers))
    }

    /// Like [`ShardLog::append`], for records in a transaction of this producer. They form a batch
    /// of their own, as in Kafka's coordinator.
    ///
    /// # Errors
    /// [`AppendError::TooLarge`].
    ///
    /// # Panics
    /// There is no record, or the partition is out of range.
    pub fn append_in_transaction<R: WriteRecord>(
        &mut self,
        partition: LogPartition,
        now: i64,
        producer: Producer,
        records: impl IntoIterator<Item = R>,
    ) -> Result<u64, AppendError> {
        let was_open = self.begin(partition);
        self.partitions.get_mut(partition).close(partition, None);
        let grown = self.write_records(partition, self.wall(now), records)?;
        self.partitions.get_mut(partition).close(partition, Some(producer));
        Ok(self.accept(partition, was_open, grown, now, false))
    }

    /// Appends the marker that ends a transaction of a producer, as an operation. Returns its
    /// position.
    ///
    /// # Panics
    /// The partition is out of range.
    pub fn append_marker(
        &mut self,
        partition: LogPartition,
        now: i64,
        producer: Producer,
        marker: EndTxnMarker,
    ) -> u64 {
        let was_open = self.begin(partition);
        let batch = marker.batch(producer.id, producer.epoch, self.wall(now));
        self.partitions.get_mut(partition).mark(partition, producer.id, batch);
        self.accept(partition, was_open, PARTITION_BYTES + batch.len(), now, false)
    }

    /// Appends a batch unchanged, with its offsets. Used to copy logs when the number of shards
    /// changes.
    ///
    /// # Errors
    /// `Full` (unlike [`ShardLog::append`]), `NotABatch`, `NotNext` and `TooLarge` of
    /// [`AppendError`].
    pub fn append_batch_at(
        &mut self,
        partition: LogPartition,
        batch: &[u8],
    ) -> Result<u64, AppendError> {
        assert!(self.replicated.is_none(), "entries are written");
        if self.is_full() {
            return Err(AppendError::Full);
        }
        let header = BatchHeader::read(batch).map_err(|_| AppendError::NotABatch)?;
        let is_whole = header.total_len() == batch.len() && header.last_offset_delta >= 0;
        if !partition.is_valid() || partition == LogPartition::NODE || !is_whole {
            return Err(AppendError::NotABatch);
        }
        if header.base_offset < self.log_end_offset(partition) {
            return Err(AppendError::NotNext);
        }
        let block_len_max = self.config.block_len_max();
        if BLOCK_HEADER_BYTES + PARTITION_BYTES + batch.len() > block_len_max {
            return Err(AppendError::TooLarge);
        }
        self.gather.seal(&mut self.partitions, &self.progress);
        let next_offset = header.next_offset();
        let slot = self.slot_of(partition);
        let in_slot = self.partitions.entries.accept(slot);
        let of_partition = self.partitions.get_mut(partition);
        (of_partition.next_offset, of_partition.position) = (next_offset, in_slot);
        let position = self.progress.accept();
        let part = Part { partition, next_offset };
        let entries = &mut self.partitions.entries;
        self.gather.push_batch(part, &header, batch, position, entries, block_len_max);
        Ok(position)
    }

    /// Makes space for an operation. Returns whether its partition already has an open batch.
    fn begin(&mut self, partition: LogPartition) -> bool {
        let is_alone = self.replicated.is_none();
        assert!(partition != LogPartition::NODE || !is_alone, "a log of one machine");
        if self.is_block_full() && is_alone {
            self.gather.seal(&mut self.partitions, &self.progress);
        } else if self.is_block_full() {
            self.end_open();
        }
        self.partitions.get_mut(partition).is_open()
    }

    /// Counts an operation that was added to the open block, and returns its position. `lingers`
    /// says whether the block may wait for more operations before it is written (the topic's rule).
    /// A block with records of a transaction must not wait, as in Kafka's `CoordinatorRuntime`.
    fn accept(
        &mut self,
        partition: LogPartition,
        was_open: bool,
        grown: usize,
        now: i64,
        lingers: bool,
    ) -> u64 {
        let first = (!was_open).then_some(partition);
        self.gather.count(first, grown, now, self.wall(now));
        self.gather.hurry(!lingers);
        let slot = self.slot_of(partition);
        if self.replicated.is_some() {
            let position = self.progress_of(slot).accepted();
            self.partitions.get_mut(partition).position = position;
            return position;
        }
        self.partitions.get_mut(partition).position = self.partitions.entries.accept(slot);
        let position = self.progress.accept();
        if self.config.linger_ms == 0 {
            self.gather.seal(&mut self.partitions, &self.progress);
        }
        position
    }

    /// Writes the records into the partition's open batch. Returns the number of bytes by which the
    /// block grows.
    fn write_records<R: WriteRecord>(
        &mut self,
        partition: LogPartition,
        wall: i64,
        records: impl IntoIterator<Item = R>,
    ) -> Result<usize, AppendError> {
        let partition = self.partitions.get_mut(partition);
        let entry = if partition.builder.is_empty() { ENTRY_HEADER_BYTES } else { 0 };
        let mark = partition.builder.mark();
        let (len, count) = (partition.builder.len(), partition.builder.records());
        for record in records {
            partition.builder.append(wall, &record);
            if partition.builder.len() - len > self.config.operation_bytes_max {
                partition.builder.rewind(mark);
                return Err(AppendError::TooLarge);
            }
        }
        let written = partition.builder.records() - count;
        assert!(written > 0, "an operation without records");
        partition.next_offset += i64::from(written);
        Ok(entry + partition.builder.len() - len)
    }
}
