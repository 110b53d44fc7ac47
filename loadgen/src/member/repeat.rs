//! Checks that a repeated request has no effect. Some members send their SyncGroup twice in a
//! generation. A coordinator that is still in the generation has to return the same answer, as it
//! would to a client that lost the first answer.

use std::sync::Arc;

use muster_codec::ApiKey;
use muster_codec::messages::SyncGroupResponse;

use super::assignors::protocol::read_assignment;
use crate::event::EventKind;
use crate::plan::MemberIndex;
use crate::topics::Topics;

/// One member out of this number repeats its SyncGroup. More repetitions would be a load of their
/// own.
const ONE_OF: u32 = 64;

/// The answer to the first SyncGroup of this generation. `due`: SyncGroup still has to be repeated.
#[derive(Default, Debug)]
pub(super) struct Repeat {
    first: Option<Box<[u8]>>,
    due: bool,
}

impl Repeat {
    /// Keeps the answer to a member's first SyncGroup, if this member has to repeat the request.
    pub(super) fn of(member: MemberIndex, assignment: &[u8]) -> Self {
        if member.0 % ONE_OF != ONE_OF - 1 {
            return Self::default();
        }
        Self { first: Some(assignment.into()), due: true }
    }

    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    pub(super) fn sent(&mut self) {
        self.due = false;
    }

    /// Compares the second answer with the first. An error is ignored: the group may be in a later
    /// generation.
    pub(super) fn answered(
        &mut self,
        response: &SyncGroupResponse<'_>,
        topics: &Topics,
    ) -> Option<EventKind> {
        let first = self.first.take()?;
        if response.error_code != 0 || *response.assignment == *first {
            return None;
        }
        let api = ApiKey::SyncGroup as i16;
        let (first, second) = (describe(&first, topics), describe(&response.assignment, topics));
        Some(EventKind::RepeatDiffered { api, first, second })
    }
}

fn describe(assignment: &[u8], topics: &Topics) -> Arc<str> {
    let partitions = match read_assignment(assignment, topics) {
        Ok(partitions) => partitions,
        Err(error) => return error.to_string().into(),
    };
    let name = |topic| topics.get(topic).map_or("?", |topic| &*topic.name);
    let names = partitions.iter().map(|one| format!("{}-{}", name(one.topic), one.number));
    format!("partitions {}", names.collect::<Vec<_>>().join(" ")).into()
}
