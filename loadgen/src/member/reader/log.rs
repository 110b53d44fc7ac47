//! The batches of a fetched partition. With `read_committed` a broker returns aborted records, too,
//! and a list of aborted transactions: the reader leaves those records out, as the Java client does
//! it (`CompletedFetch`).

use std::collections::BTreeSet;

use kafka_protocol::messages::fetch_response::PartitionData;

use crate::event::Returned;
use crate::member::batches::{Batch, record};
use crate::member::error::{Fatal, Step};
use crate::member::numbered::Numbered;
use crate::plan::{Isolation, Partition};

/// The records in an answer, and the offset of the next one.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Log {
    pub(super) returned: Vec<Returned>,
    pub(super) next: i64,
}

/// Reads what was fetched from the offset `from` on.
pub(super) fn read(
    partition: Partition,
    from: i64,
    data: &PartitionData,
    isolation: Isolation,
) -> Step<Log> {
    let mut log = Log { returned: Vec::new(), next: from };
    let mut aborted = match isolation {
        Isolation::ReadCommitted => Aborted::of(data),
        Isolation::ReadUncommitted => Aborted::default(),
    };
    let mut rest = data.records.clone().unwrap_or_default();
    while let Some(batch) = Batch::next(&mut rest).map_err(|what| malformed(partition, what))? {
        let skipped = aborted.has(&batch);
        if !batch.is_control() && !skipped {
            log.take(partition, &batch).map_err(|what| malformed(partition, what))?;
        }
        log.next = log.next.max(batch.last.saturating_add(1));
    }
    Ok(log)
}

fn malformed(partition: Partition, what: &str) -> Fatal {
    let (topic, number) = (partition.topic.0, partition.number);
    Fatal(format!("Fetch of partition {number} of topic {topic} returned {what}"))
}

impl Log {
    /// Adds the records of a batch from the offset on that was asked for.
    fn take(&mut self, partition: Partition, batch: &Batch) -> Result<(), &'static str> {
        let mut records = &batch.records[..];
        for _ in 0..batch.count {
            let (delta, key) = record(&mut records).ok_or("a record that is cut off")?;
            let offset = batch.base.saturating_add(delta);
            if let Some(record) = Numbered::of(key).filter(|_| offset >= self.next) {
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

/// The producers whose aborted transactions the batches belong to.
#[derive(Default)]
struct Aborted {
    /// The first offset of each transaction, with its producer; the last one is first.
    ahead: Vec<(i64, i64)>,
    producers: BTreeSet<i64>,
}

impl Aborted {
    fn of(data: &PartitionData) -> Self {
        let all = data.aborted_transactions.iter().flatten();
        let mut ahead = Vec::from_iter(all.map(|one| (one.first_offset, one.producer_id.0)));
        ahead.sort_unstable_by(|one, other| other.cmp(one));
        Self { ahead, producers: BTreeSet::new() }
    }

    /// Whether this batch is of one of them; it is the next one in the log.
    fn has(&mut self, batch: &Batch) -> bool {
        while let Some((_, producer)) = self.ahead.pop_if(|(first, _)| *first <= batch.last) {
            self.producers.insert(producer);
        }
        if batch.ends_by_abort() {
            self.producers.remove(&batch.producer);
        }
        batch.is_transactional() && self.producers.contains(&batch.producer)
    }
}

#[cfg(test)]
mod tests;
