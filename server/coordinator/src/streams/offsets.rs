//! Commits by members of a streams group: which partitions they may name.

use super::member::Profile;
use super::task::{Role, TaskKey};
use super::{Streams, StreamsGroup};
use crate::context::Topics;
use crate::modern::commits::{Assigned, Commits};
use crate::offsets::Commit;
use crate::text::Text;
use muster_codec::messages::OffsetCommitRequestTopic;

impl Commits for Streams {
    fn is_classic(_: &Profile) -> bool {
        false
    }

    /// A member may commit a partition if it has the active task that reads the partition.
    fn key_of(
        group: &StreamsGroup,
        topics: &dyn Topics,
        kind: Commit,
        topic: &OffsetCommitRequestTopic<'_>,
    ) -> Assigned<TaskKey> {
        let name = if kind.by_id() { topics.name(topic.topic_id) } else { Some(&*topic.name) };
        let Some(name) = name else { return Assigned::Unknown };
        let reader = group.own.topology.as_ref().and_then(|it| it.reader_of(name));
        reader.map_or(Assigned::Never, |it| {
            let subtopology = Text::from(&*it.subtopology_id);
            Assigned::By(TaskKey { role: Role::Active, subtopology })
        })
    }
}
