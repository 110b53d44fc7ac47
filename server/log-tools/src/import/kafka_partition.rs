//! Reads the batches of a Kafka partition, from all its segments.

use crate::damage::Damage;
use crate::segment_file::{Located, SegmentFile, names};
use muster_server::Failure;
use muster_storage::partition_log::partition_files;
use std::path::{Path, PathBuf};

/// A partition's directory.
#[derive(Debug)]
pub(super) struct KafkaPartition {
    pub(super) directory: PathBuf,
    /// The segments: base offset and file name.
    pub(super) segments: Vec<(i64, String)>,
    /// Whether Kafka may have been killed (`--unclean`).
    may_be_torn: bool,
}

impl KafkaPartition {
    /// Lists the segments of a directory.
    ///
    /// # Errors
    /// The directory cannot be read, or Kafka has to recover it first, at its next startup.
    pub(super) fn open(directory: &Path, may_be_torn: bool) -> Result<Self, Failure> {
        let names = names(directory)?;
        if let Some(swap) = names.iter().find(|name| name.ends_with(".swap")) {
            let path = directory.join(swap);
            return Err(format!(
                "{}: an interrupted log cleaning: start and stop Kafka once more",
                path.display()
            )
            .into());
        }
        let segments = partition_files(names);
        Ok(Self { directory: directory.to_owned(), segments, may_be_torn })
    }

    /// The replica with the highest end offset. The other replicas lag.
    pub(super) fn longest(replicas: &[PathBuf], may_be_torn: bool) -> Result<Self, Failure> {
        let mut longest: Option<(i64, Self)> = None;
        for replica in replicas {
            let partition = Self::open(replica, may_be_torn)?;
            let end = if replicas.len() == 1 { 0 } else { partition.end_offset()? };
            if longest.as_ref().is_none_or(|(longest, _)| end > *longest) {
                longest = Some((end, partition));
            }
        }
        let longest = longest.map(|(_, partition)| partition);
        longest.ok_or_else(|| "a partition without a directory".into())
    }

    /// The log end offset.
    pub(super) fn end_offset(&self) -> Result<i64, Failure> {
        let last = self.segments.len().saturating_sub(1);
        let base_offset = self.segments.last().map_or(0, |(base_offset, _)| *base_offset);
        Ok(self.read_from(last, |_, _| Ok(()))?.max(base_offset))
    }

    /// Passes each batch with its file to `visit`. Returns the log end offset; 0 if there are no
    /// segments.
    ///
    /// # Errors
    /// The log is damaged (an expected torn end does not count), the file system fails, or `visit`
    /// fails.
    pub(super) fn each(
        &self,
        visit: impl FnMut(&Path, &Located<'_>) -> Result<(), Failure>,
    ) -> Result<i64, Failure> {
        self.read_from(0, visit)
    }

    fn read_from(
        &self,
        first: usize,
        mut visit: impl FnMut(&Path, &Located<'_>) -> Result<(), Failure>,
    ) -> Result<i64, Failure> {
        let mut next_offset = 0;
        for (number, (base_offset, name)) in self.segments.iter().enumerate().skip(first) {
            let path = self.directory.join(name);
            if *base_offset < next_offset {
                let what = "it begins before the previous segment ends";
                return Err(Damage::new(&path, 0, what).into());
            }
            next_offset = *base_offset;
            let mut file = SegmentFile::open(path.clone())?;
            loop {
                match file.next() {
                    Ok(Some(located)) => {
                        check_place(*base_offset, &located)
                            .map_err(|what| Damage::new(&path, located.at, what))?;
                        next_offset = located.batch.header.next_offset();
                        visit(&path, &located)?;
                    }
                    Ok(None) => break,
                    Err(failure) if self.is_torn_end(number, &failure) => return Ok(next_offset),
                    Err(failure) => return Err(failure),
                }
            }
        }
        Ok(next_offset)
    }

    /// Whether the failure is the torn end of a log. Kafka cuts off such an end when it starts
    /// after a kill.
    fn is_torn_end(&self, number: usize, failure: &Failure) -> bool {
        self.may_be_torn && number + 1 == self.segments.len() && failure.is::<Damage>()
    }
}

/// Checks a batch's offset and its place in the file. Kafka's indexes have 31 bits for the place,
/// and for the distance of the offset from the segment's base offset.
fn check_place(base_offset: i64, located: &Located<'_>) -> Result<(), &'static str> {
    const MAX: i64 = i32::MAX as i64;
    let Located { at, batch } = located;
    let end = at.saturating_add(batch.bytes.len() as u64);
    if batch.header.base_offset < base_offset {
        Err("an offset before the first of the segment")
    } else if batch.header.last_offset() - base_offset > MAX || end > MAX as u64 {
        Err("a batch too far from the start of the segment")
    } else {
        Ok(())
    }
}
