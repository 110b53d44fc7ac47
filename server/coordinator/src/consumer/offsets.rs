//! Commits by members of a consumer group: which partitions they may name.

use super::member::Profile;
use super::{Consumer, ConsumerGroup};
use crate::context::Topics;
use crate::modern::commits::{Assigned, Commits};
use crate::offsets::Commit;
use muster_codec::Uuid;
use muster_codec::messages::OffsetCommitRequestTopic;

impl Commits for Consumer {
    fn is_classic(profile: &Profile) -> bool {
        profile.classic.is_some()
    }

    fn key_of(
        _: &ConsumerGroup,
        topics: &dyn Topics,
        kind: Commit,
        topic: &OffsetCommitRequestTopic<'_>,
    ) -> Assigned<Uuid> {
        if !kind.by_id() {
            return Assigned::By(topics.id(&topic.name).unwrap_or(Uuid::ZERO));
        }
        topics.name(topic.topic_id).map_or(Assigned::Unknown, |_| Assigned::By(topic.topic_id))
    }
}
