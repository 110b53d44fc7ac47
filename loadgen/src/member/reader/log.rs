//! The record batches of a fetched partition. With `read_committed` a broker also returns aborted
//! records, and a list of aborted transactions. The reader leaves these records out, as in the Java
//! client (`CompletedFetch`).

use std::collections::BTreeSet;

use muster_codec::DecodeError;
use muster_codec::messages::PartitionData;
use muster_codec::record_batch::Batch;

use crate::event::Returned;
use crate::member::batches::{batches, ends_by_abort};
use crate::member::error::{Fatal, Step};
use crate::member::numbered::Numbered;
use crate::plan::{Isolation, Partition};

/// The records in an answer, and the offset after them.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Log {
    pub(super) returned: Vec<Returned>,
    pub(super) next: i64,
}

/// Reads the fetched bytes, from the offset `from` on.
pub(super) fn read(
    partition: Partition,
    from: i64,
    data: &PartitionData<'_>,
    isolation: Isolation,
) -> Step<Log> {
    let mut log = Log { returned: Vec::new(), next: from };
    let mut aborted = match isolation {
        Isolation::ReadCommitted => Aborted::of(data),
        Isolation::ReadUncommitted => Aborted::default(),
    };
    for batch in batches(data.records.as_deref().unwrap_or_default()) {
        let batch = batch.map_err(|error| malformed(partition, &error))?;
        let skipped = aborted.has(&batch);
        if !batch.header.is_control() && !skipped {
            log.take(partition, &batch).map_err(|error| malformed(partition, &error))?;
        }
        log.next = log.next.max(batch.header.last_offset().saturating_add(1));
    }
    Ok(log)
}

fn malformed(partition: Partition, error: &DecodeError) -> Fatal {
    let (topic, number) = (partition.topic.0, partition.number);
    Fatal(format!("Fetch of partition {number} of topic {topic} returned batches: {error}"))
}

impl Log {
    /// Adds the records of a batch, from the requested offset on.
    fn take(&mut self, partition: Partition, batch: &Batch<'_>) -> Result<(), DecodeError> {
        for record in batch.records()? {
            let record = record?;
            let offset = batch.offset(&record);
            let numbered = record.key.and_then(Numbered::of);
            if let Some(record) = numbered.filter(|_| offset >= self.next) {
                self.push(partition, offset, record);
            }
        }
        Ok(())
    }

    fn push(&mut self, partition: Partition, offset: i64, record: Numbered) {
        let Numbered { producer, number, place } = record;
        match self.returned.last_mut() {
            Some(last)
                if (last.producer, last.number) == (producer, number)
                    && last.first.checked_add(last.count) == Some(place) =>
            {
                last.count += 1;
            }
            Some(_) | None => self.returned.push(Returned {
                partition,
                offset,
                producer,
                number,
                first: place,
                count: 1,
            }),
        }
    }
}

/// The aborted transactions that overlap the batches.
#[derive(Default)]
struct Aborted {
    /// For each aborted transaction that begins after the current batch: its first offset and its
    /// producer id. The last entry is the next transaction in the log.
    ahead: Vec<(i64, i64)>,
    producers: BTreeSet<i64>,
}

impl Aborted {
    fn of(data: &PartitionData<'_>) -> Self {
        let all = data.aborted_transactions.iter().flatten();
        let mut ahead = Vec::from_iter(all.map(|one| (one.first_offset, one.producer_id)));
        ahead.sort_unstable_by(|one, other| other.cmp(one));
        Self { ahead, producers: BTreeSet::new() }
    }

    /// Whether an aborted transaction contains this batch, which must be the next one in the log.
    fn has(&mut self, batch: &Batch<'_>) -> bool {
        let header = &batch.header;
        while let Some((_, producer)) = self.ahead.pop_if(|it| it.0 <= header.last_offset()) {
            self.producers.insert(producer);
        }
        if ends_by_abort(batch) {
            self.producers.remove(&header.producer_id);
        }
        header.is_transactional() && self.producers.contains(&header.producer_id)
    }
}

#[cfg(test)]
mod tests;
