//! Counts over the whole run: members, commits, errors.

use std::collections::BTreeMap;

use muster_codec::{ApiKey, ErrorCode};

use crate::event::{Event, EventKind, OBSERVER, Stop};
use crate::member::error_name;
use crate::report::model::{
    Commits, ErrorCount, FailedMember, MEMBER_ID_REQUIRED, Members, Transactions,
};

/// The number of failed members that are named. Later ones are only counted.
const FAILED_NAMED: usize = 20;

const OFFSET_COMMIT: i16 = 8;
/// Stands for an API key in the counts of errors: for errors that fenced a member, whichever API
/// returned them.
const MEMBERSHIP: i16 = -1;

#[derive(Default)]
pub(super) struct Counts {
    pub(super) members: Members,
    /// Counts requests, except `read_back`, which counts offsets.
    pub(super) commits: Commits,
    pub(super) transactions: Transactions,
    pub(super) errors: u64,
    by_code: BTreeMap<(i16, i16), u64>,
}

impl Counts {
    /// Counts an event of the group with the id `group`.
    pub(super) fn observe(&mut self, event: &Event, group: &str) {
        let members = &mut self.members;
        match &event.kind {
            EventKind::Started => members.started += 1,
            EventKind::Stopped { how: Stop::Crash } => members.crashed += 1,
            EventKind::Stopped { how: Stop::Leave | Stop::Close | Stop::Shutdown } => {
                members.stopped += 1
            }
            EventKind::Failed { reason } => self.failed(event, group, reason),
            EventKind::Fenced { error } => {
                members.fenced += 1;
                self.error(MEMBERSHIP, *error);
            }
            EventKind::Revoked { partitions } => {
                members.revocations += u64::from(!partitions.is_empty());
            }
            EventKind::Disconnected => members.disconnected += 1,
            EventKind::CommitAnswered { refused, .. } if refused.is_empty() => {
                self.commits.accepted += 1;
            }
            EventKind::CommitAnswered { refused, .. } => {
                self.commits.refused += 1;
                refused.iter().for_each(|(_, error)| self.error(OFFSET_COMMIT, *error));
            }
            EventKind::CommitUnknown { .. } => self.commits.unknown += 1,
            EventKind::TransactionEnded { committed: true, .. } => self.transactions.committed += 1,
            EventKind::TransactionEnded { committed: false, .. } => {
                self.transactions.aborted += 1;
            }
            EventKind::Fetched { offsets, .. } if event.member == OBSERVER => {
                self.commits.read_back += offsets.len() as u64;
            }
            EventKind::Refused { api, error } => self.error(*api, *error),
            EventKind::Fetched { .. }
            | EventKind::Joining
            | EventKind::Joined { .. }
            | EventKind::Epoch { .. }
            | EventKind::Alive { .. }
            | EventKind::Reached
            | EventKind::Assigned { .. }
            | EventKind::MustRebalance { .. }
            | EventKind::Lost { .. }
            | EventKind::InProcess { .. }
            | EventKind::Standbys { .. }
            | EventKind::Statuses { .. }
            | EventKind::Settled { .. }
            | EventKind::CommitSent { .. }
            | EventKind::TransactionEnding { .. }
            | EventKind::ReadingFrom { .. }
            | EventKind::Read { .. }
            | EventKind::Consumed { .. }
            | EventKind::Acquired { .. }
            | EventKind::SessionAnswered { .. }
            | EventKind::SessionEnded { .. }
            | EventKind::LeaderLost { .. }
            | EventKind::AcknowledgeSent { .. }
            | EventKind::Acknowledged { .. }
            | EventKind::AcknowledgeUnknown { .. }
            | EventKind::StartOffsets { .. }
            | EventKind::GroupDeleted { .. }
            | EventKind::PartitionsGrew { .. }
            | EventKind::RepeatDiffered { .. }
            | EventKind::ClientStarted { .. }
            | EventKind::ClientAssigned { .. }
            | EventKind::ClientRevoked { .. }
            | EventKind::ClientLost { .. }
            | EventKind::ClientAlive
            | EventKind::ClientEnded { .. } => {}
        }
    }

    pub(super) fn by_code(&self) -> Vec<ErrorCount> {
        let counts = self.by_code.iter().map(|((api, code), count)| ErrorCount {
            api: api_name(*api),
            code: *code,
            name: name_of(*code),
            count: *count,
        });
        counts.collect()
    }

    fn failed(&mut self, event: &Event, group: &str, reason: &str) {
        self.members.failed_count += 1;
        if self.members.failed.len() < FAILED_NAMED {
            self.members.failed.push(FailedMember {
                group: group.into(),
                member: event.member.0,
                at: event.at.seconds(),
                reason: reason.into(),
            });
        }
    }

    fn error(&mut self, api: i16, code: i16) {
        self.errors += u64::from(code != MEMBER_ID_REQUIRED);
        *self.by_code.entry((api, code)).or_default() += 1;
    }
}

/// The name in the protocol guide, such as `JoinGroup`.
fn api_name(key: i16) -> String {
    if key == MEMBERSHIP {
        return "membership".into();
    }
    ApiKey::from_key(key).map_or_else(|| format!("API {key}"), |api| api.name().into())
}

fn name_of(code: i16) -> String {
    ErrorCode::from_code(code).map_or_else(|| format!("error {code}"), error_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apis_and_errors_have_their_names_in_the_protocol_guide() {
        assert_eq!(api_name(11), "JoinGroup");
        assert_eq!(api_name(68), "ConsumerGroupHeartbeat");
        assert_eq!(api_name(9999), "API 9999");
        assert_eq!(name_of(25), "UNKNOWN_MEMBER_ID");
        assert_eq!(name_of(110), "FENCED_MEMBER_EPOCH");
        assert_eq!(name_of(9999), "error 9999");
    }
}
