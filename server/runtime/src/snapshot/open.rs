//! Opens the sections of a snapshot.

use crate::{Damage, Opened, TopicSet, damaged};
use muster_snapshot_index::SnapshotBytes;
use muster_storage::snapshot::{SectionRow, Snapshot};

/// Loads the sections of a snapshot into machines that have replayed nothing. Then each machine has
/// to replay the log from the snapshot's position on. It skips records that its sections have
/// already.
///
/// # Errors
/// A section is damaged, or belongs to a partition that the shard does not lead. The machines must
/// not be used then.
pub(crate) fn open_sections(
    topics: &mut dyn TopicSet,
    snapshot: &Snapshot,
    file: &SnapshotBytes,
) -> Result<(), Damage> {
    topics.each(&mut |topic| topic.begin_after(snapshot.header.from));
    snapshot.sections.iter().try_for_each(|row| open_section(topics, row, file))
}

fn open_section(
    topics: &mut dyn TopicSet,
    row: &SectionRow,
    file: &SnapshotBytes,
) -> Result<(), Damage> {
    let SectionRow { topic, section, index, from, part, .. } = *row;
    let foreign = || {
        let place = format!("section {section} of partition {index} of topic {topic}");
        damaged(format!("it has {place}, which this shard does not have"))
    };
    let of = topics.get(topic).ok_or_else(foreign)?;
    let name = *of.sections().get(usize::from(section)).ok_or_else(foreign)?;
    let opened = of.open_section(index, section, Opened { file, part, from });
    opened.ok_or_else(foreign)?.map_err(|Damage(what)| {
        damaged(format!("it is damaged: {name} of partition {index}: {what}"))
    })
}
