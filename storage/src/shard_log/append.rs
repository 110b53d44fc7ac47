//! Appends. The records of an operation join the open batch of their partition; records of a
//! transaction get a batch of their own. All open batches together become the next block.

use super::ShardLog;
use super::partitions::Part;
use crate::append_error::AppendError;
use crate::layout::{BLOCK_HEADER_BYTES, ENTRY_HEADER_BYTES, PARTITION_BYTES};
use crate::log_partition::LogPartition;
use muster_codec::record_batch::{BatchHeader, EndTxnMarker, WriteRecord};

impl ShardLog {
    /// Accepts the records of one operation, which are atomic: all are recovered, or none; their
    /// timestamp is the time of the wall clock. Returns the operation's position; it is durable
    /// when [`Progress::flushed`](crate::Progress::flushed) has reached it.
    ///
    /// # Errors
    /// [`AppendError::TooLarge`]. A log that [is full](ShardLog::is_full) still accepts operations,
    /// as one request may cause many; the caller has to handle no further requests then.
    ///
    /// # Panics
    /// If there is no record, the partition is out of range, or its topic has no rule.
    pub fn append<R: WriteRecord>(
        &mut self,
        partition: LogPartition,
        now: i64,
        records: impl IntoIterator<Item = R>,
    ) -> Result<u64, AppendError> {
        let was_open = self.begin(partition);
        let grown = self.write_records(partition, self.wall(now), records)?;
        let lingers = self.config.topics.of(partition.topic).lingers;
        Ok(self.accept(partition, was_open, grown, (now, lingers)))
    }

    /// Like [`ShardLog::append`], for records of a transaction of this producer (id and epoch).
    /// They are a batch of their own, as Kafka's coordinator writes them.
    ///
    /// # Errors
    /// [`AppendError::TooLarge`].
    ///
    /// # Panics
    /// If there is no record, or the partition is out of range.
    pub fn append_in_transaction<R: WriteRecord>(
        &mut self,
        partition: LogPartition,
        now: i64,
        producer: (i64, i16),
        records: impl IntoIterator<Item = R>,
    ) -> Result<u64, AppendError> {
        let was_open = self.begin(partition);
        self.partitions.get_mut(partition).close(partition, None);
        let grown = self.write_records(partition, self.wall(now), records)?;
        self.partitions.get_mut(partition).close(partition, Some(producer));
        Ok(self.accept(partition, was_open, grown, (now, false)))
    }

    /// Accepts the end of a transaction of a producer (id and epoch) as an operation; returns its
    /// position.
    ///
    /// # Panics
    /// If the partition is out of range.
    pub fn append_marker(
        &mut self,
        partition: LogPartition,
        now: i64,
        (producer_id, producer_epoch): (i64, i16),
        marker: EndTxnMarker,
    ) -> u64 {
        let was_open = self.begin(partition);
        let batch = marker.batch(producer_id, producer_epoch, self.wall(now));
        self.partitions.get_mut(partition).mark(partition, producer_id, batch);
        self.accept(partition, was_open, PARTITION_BYTES + batch.len(), (now, false))
    }

    /// Appends a batch unchanged, with its offsets: for logs that are rewritten from old ones when
    /// the number of shards has changed.
    ///
    /// # Errors
    /// `Full` (unlike [`ShardLog::append`]), `NotABatch`, `NotNext`, `TooLarge` of [`AppendError`].
    pub fn append_batch_at(
        &mut self,
        partition: LogPartition,
        batch: &[u8],
    ) -> Result<u64, AppendError> {
        if self.is_full() {
            return Err(AppendError::Full);
        }
        let header = BatchHeader::read(batch).map_err(|_| AppendError::NotABatch)?;
        let is_whole = header.total_len() == batch.len() && header.last_offset_delta >= 0;
        if !partition.is_valid() || !is_whole {
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
        let operation = self.partitions.get_mut(partition).append_batch(next_offset);
        let position = self.progress.accept();
        let part = Part { partition, next_offset, operation };
        self.gather.push_batch(part, &header, batch, position, block_len_max);
        Ok(position)
    }

    /// Makes space for an operation; returns whether its partition has a part in the open block.
    fn begin(&mut self, partition: LogPartition) -> bool {
        if self.gather.open_bytes() >= self.config.open_bytes_max {
            self.gather.seal(&mut self.partitions, &self.progress);
        }
        self.partitions.get_mut(partition).is_open()
    }

    /// Counts an operation that was added to the open block; returns its position. The rule of a
    /// topic says whether its records linger; records of transactions never do
    /// (`CoordinatorRuntime` of Kafka).
    fn accept(
        &mut self,
        partition: LogPartition,
        was_open: bool,
        grown: usize,
        (now, lingers): (i64, bool),
    ) -> u64 {
        let first = (!was_open).then_some(partition);
        self.gather.count(first, grown, (now, self.wall(now)));
        self.gather.hurry(!lingers);
        self.partitions.get_mut(partition).operations.accept();
        let position = self.progress.accept();
        if self.config.linger_ms == 0 {
            self.gather.seal(&mut self.partitions, &self.progress);
        }
        position
    }

    /// Writes the records into the partition's open batch; returns the number of bytes that the
    /// block grows by.
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
