//! The newest image of the cluster, which has all changes that were appended to the log, even if
//! they are not durable. It is built from the cluster's records by a state machine.

use crate::cluster::ClusterImage;
use crate::config::Config;
use crate::topics::{self, InternalTopic};
use muster_codec::record_batch::{Batch, Producer};
use muster_codec::records::ClusterRecord;
use muster_codec::{DecodeError, Reader};
use muster_runtime::{
    Damage, Machine, NotWritten, Opened, Runtime, SectionAt, Slots, Topic, Unlimited, damaged,
    replay_each,
};
use muster_storage::TopicRule;
use muster_storage::snapshot::Part;
use std::sync::Arc;

/// The index of the cluster's only partition.
const INDEX: u32 = topics::CLUSTER.index;

/// The accepted image, as the machine of the cluster's only partition.
#[derive(Debug)]
pub(crate) struct Accepted {
    machines: Slots<ImageMachine>,
}

#[derive(Debug)]
struct ImageMachine {
    image: ClusterImage,
    /// The config from the file and the command line. A snapshot stores the image as records that
    /// say how it differs from this config.
    config: Arc<Config>,
    /// Records up to this position are in the opened snapshot, so they are not replayed. 0 if there
    /// was no snapshot.
    in_snapshot: u64,
}

impl Machine for ImageMachine {
    const RULE: TopicRule = InternalTopic::Cluster.row().rule;

    const SECTIONS: &'static [&'static str] = InternalTopic::Cluster.row().sections;

    type Record<'r> = ClusterRecord<'r>;
    type Held = Unlimited;
    /// One call writes all records.
    type Walk = ();
    /// One call passes all records.
    type Restating = ();
    /// An image is not audited.
    type Place = ();
    type Shared = ();

    fn apply(&mut self, operation: &[ClusterRecord<'_>], position: u64) {
        self.image.apply_at(position, operation);
    }

    fn replay(&mut self, batch: &Batch<'_>, position: u64) -> Result<bool, DecodeError> {
        if position <= self.in_snapshot {
            return Ok(false);
        }
        let mut records = Vec::new();
        replay_each(batch, ClusterRecord::read, |record, _| records.push(record))?;
        self.image.apply_at(position, &records);
        Ok(true)
    }

    fn held(&self) -> Unlimited {
        Unlimited
    }

    /// None: an image has no timers.
    fn next_deadline(&self) -> Option<i64> {
        None
    }

    fn begin_after(&mut self, position: u64) {
        self.in_snapshot = position;
    }

    fn begin_section(&self, _section: u8, _at: SectionAt) -> Option<()> {
        Some(())
    }

    fn write_section(
        &mut self,
        (): &mut (),
        at: SectionAt,
        _bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<Part>, Damage> {
        let records = self.image.records(&self.config);
        Ok(Some(at.whole(out, |out| records.iter().for_each(|record| write_record(record, out)))))
    }

    fn restate(
        &mut self,
        (): &mut (),
        _count: usize,
        take: &mut dyn FnMut(Option<Producer>, &ClusterRecord<'_>),
    ) -> Result<bool, Damage> {
        self.image.records(&self.config).iter().for_each(|record| take(None, record));
        Ok(false)
    }

    fn open_section(&mut self, _section: u8, opened: Opened<'_>) -> Result<(), Damage> {
        self.in_snapshot = opened.from;
        let mut reader = Reader::new(opened.bytes()?);
        while !reader.rest().is_empty() {
            let (key, value) = read_record(&mut reader).map_err(damaged)?;
            if let Some(record) = ClusterRecord::read(key, value).map_err(damaged)? {
                self.image.apply(&record);
            }
        }
        Ok(())
    }
}

/// Appends a key and a value, each after its length; a length of -1 means that there is no value.
fn write_record(record: &ClusterRecord<'_>, out: &mut Vec<u8>) {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    record.write_key(&mut key);
    let has_value = record.write_value(&mut value);
    out.extend((key.len() as i32).to_be_bytes());
    out.extend(key);
    out.extend(if has_value { value.len() as i32 } else { -1 }.to_be_bytes());
    out.extend(value);
}

fn read_record<'b>(reader: &mut Reader<'b>) -> Result<(&'b [u8], Option<&'b [u8]>), DecodeError> {
    let key_len = usize::try_from(reader.i32()?).map_err(|_| DecodeError::UnexpectedEnd)?;
    let key = reader.take(key_len)?;
    let value_len = usize::try_from(reader.i32()?).ok();
    Ok((key, value_len.map(|len| reader.take(len)).transpose()?))
}

impl Accepted {
    /// `config` is the config from the file and the command line.
    pub(crate) fn new(image: ClusterImage, config: &Arc<Config>) -> Self {
        let config = Arc::clone(config);
        let new = move || {
            let image = ClusterImage::new(&config);
            ImageMachine { image, config: Arc::clone(&config), in_snapshot: 0 }
        };
        let mut machines = Slots::new([INDEX], (), new);
        machines.on(INDEX, |it, _| it.image = image);
        Self { machines }
    }

    /// The machine.
    pub(crate) fn topic(&mut self) -> &mut dyn Topic {
        &mut self.machines
    }

    /// The image.
    pub(crate) fn image(&self) -> &ClusterImage {
        &self.machines.of(INDEX).image
    }

    /// Ends the load: the log was replayed up to `position`. Returns the image.
    pub(crate) fn loaded_at(&mut self, position: u64) -> Arc<ClusterImage> {
        self.machines.on(INDEX, |it, _| it.image.loaded_at(position));
        Arc::new(self.image().clone())
    }

    /// Ends the load of a node in a cluster. The versions in the image are those of the entries: a
    /// node that loads its machine again must not get lower ones.
    pub(crate) fn loaded(&self) -> Arc<ClusterImage> {
        Arc::new(self.image().clone())
    }

    /// Appends records as one atomic operation, and applies them. Returns the operation's position
    /// in the cluster's slot.
    ///
    /// # Errors
    /// The operation is too large for the log. Nothing is written.
    pub(super) fn append(
        &mut self,
        runtime: &mut Runtime,
        now: i64,
        records: &[ClusterRecord<'_>],
    ) -> Result<u64, NotWritten> {
        runtime.append(&mut self.machines, INDEX, now, [records])
    }
}
