//! Directories of partitions whose topics are missing in the readable part of the log.

use crate::cluster;
use crate::segment_file::names;
use muster_server::Failure;
use muster_server::data_dir::Meta;
use muster_server::partitions::layout::{TOPICS, parse_directory};
use muster_server::trash;
use std::io::Write;
use std::path::Path;

/// Moves the directories of unknown partitions to the trash, and reports them.
pub(super) fn set_unknown_aside(
    data: &Path,
    meta: &Meta,
    now: i64,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let image = cluster::image(data, meta)?;
    for name in names(&data.join(TOPICS))? {
        let is_unknown = parse_directory(&name).is_some_and(|id| {
            let topic = image.topic_by_id(id.topic);
            topic.is_none_or(|topic| !(0..topic.partitions).contains(&id.index))
        });
        if is_unknown {
            let place = trash::move_aside(data, &Path::new(TOPICS).join(&name), now)?;
            writeln!(
                out,
                "{TOPICS}/{name} belongs to no known topic: it is now {}",
                place.display()
            )?;
        }
    }
    Ok(())
}
