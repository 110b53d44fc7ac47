//! One call on one group: its inputs, and its output.

use crate::allowance::Allowance;
use crate::client::Client;
use crate::config::{Config, GroupConfig, GroupConfigs};
use crate::context::{Describes, Topics};
use crate::counters::Events;
use crate::event::{Cause, Moved, Rejection, Removal, Why, event_name};
use crate::noted::{EVENTS_MAX, Noted};
use crate::output::{Output, RequestId};
use crate::pending::PendingOffsets;
use crate::timers::Timers;
use crate::topic_hashes::TopicHashes;
use alloc::sync::Arc;
use alloc::vec::Vec;
use muster_codec::records::GroupRecord;
use muster_codec::{ErrorCode, Response, Wall};

/// The inputs and outputs of a handler.
pub(crate) struct Turn<'t, 'r> {
    pub(crate) now: i64,
    pub(crate) wall: Wall,
    pub(crate) config: &'t Config,
    pub(crate) group_configs: &'t GroupConfigs,
    /// How many bytes the profiles of members may still take.
    pub(crate) members: Allowance,
    /// How many bytes the pending offsets may still take.
    pub(crate) pending_bytes: Allowance,
    pub(crate) pending: &'t PendingOffsets,
    pub(crate) topics: &'t dyn Topics,
    /// The version ([`Topics::version`]) since which no topic was created; at least
    /// `loaded_topics`.
    pub(crate) newest_topics: i64,
    /// The version of the topics when the coordinator was loaded.
    pub(crate) loaded_topics: i64,
    pub(crate) hashes: &'t mut TopicHashes,
    pub(crate) timers: &'t mut Timers,
    pub(crate) output: &'t mut Output<'r>,
    pub(crate) events: &'t mut Events,
    /// Facts of this call, such as members that left and why, for the events that operators see.
    pub(crate) noted: &'t mut Noted,
    /// The position of the last write to the group, perhaps by this call. Answers wait for it.
    pub(crate) visible_at: u64,
    /// The position of this call's records.
    pub(crate) position: u64,
    /// The connection of the request; None for a timer.
    pub(crate) connection: Option<u64>,
    /// The topics that the client may describe; None if it may describe all.
    pub(crate) describes: Option<&'r Arc<dyn Describes>>,
}

/// The last sign of a member.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heard {
    /// The time at which its session last began.
    pub(crate) at: i64,
    /// The connection of its last request.
    pub(crate) on: Option<u64>,
}

impl<'r> Turn<'_, 'r> {
    /// The configs of one consumer group.
    pub(crate) fn consumer_config(&self, group_id: &str) -> GroupConfig {
        self.group_configs.of_consumers(group_id, self.config)
    }

    /// The configs of one share group.
    pub(crate) fn share_config(&self, group_id: &str) -> GroupConfig {
        self.group_configs.of_shares(group_id, self.config)
    }

    /// The configs of one streams group.
    pub(crate) fn streams_config(&self, group_id: &str) -> GroupConfig {
        self.group_configs.of_streams(group_id, self.config)
    }

    pub(crate) fn answer(&mut self, request: RequestId, response: impl Into<Response<'r>>) {
        self.output.answer(request, response, self.visible_at);
    }

    /// Adds `record` to the output. Answers that this call makes from now on wait for the record.
    pub(crate) fn write(&mut self, record: GroupRecord<'r>) {
        self.visible_at = self.position;
        self.output.records.push(record);
    }

    pub(crate) fn write_all(&mut self, records: Vec<GroupRecord<'r>>) {
        records.into_iter().for_each(|record| self.write(record));
    }
}

/// Methods that note something for the events of the group.
impl Turn<'_, '_> {
    /// Notes that a new member joined.
    pub(crate) fn joined(&mut self, member_id: &str) {
        self.events.members_joined += 1;
        self.noted.causes.add(Cause::Joined, Some(member_id));
    }

    /// Notes that a member left, with the reason that its client gave.
    pub(crate) fn left(&mut self, member_id: &str, client: Client<'_>, reason: Option<&str>) {
        self.events.members_left += 1;
        self.events.members_left_unpolled += u64::from(reason.is_some_and(is_poll_timeout));
        self.noted.causes.add_left(member_id, client, reason);
    }

    /// Notes that a member was removed.
    pub(crate) fn removed(&mut self, member_id: &str, client: Client<'_>, why: Why, heard: Heard) {
        let cause = match why {
            Why::Session => Some((&mut self.events.members_expired, Cause::Expired)),
            Why::Revocation | Why::Join | Why::Sync => {
                Some((&mut self.events.members_fenced, Cause::Late))
            }
            Why::Replaced => None,
        };
        if let Some((counter, cause)) = cause {
            *counter += 1;
            self.noted.causes.add(cause, Some(member_id));
        }
        if self.noted.removals.len() == EVENTS_MAX {
            self.noted.left_out += 1;
            return;
        }
        let silent_ms = self.now.saturating_sub(heard.at);
        self.noted.removals.push(Removal {
            member_id: event_name(member_id),
            client_id: event_name(client.id),
            client_host: event_name(client.host),
            why,
            silent_ms,
            connection: heard.on,
        });
    }

    /// Notes that a client, with this id and host, is refused as a member.
    pub(crate) fn refused(&mut self, client: Client<'_>, error: ErrorCode) {
        self.noted.rejection = Rejection::of(client, error);
    }

    /// Notes a cause, and the member that caused it, if there is one.
    pub(crate) fn note_cause(&mut self, cause: Cause, member_id: Option<&str>) {
        self.noted.causes.add(cause, member_id);
    }

    /// Notes the reason that the client of the current JoinGroup gave.
    pub(crate) fn explain_join(&mut self, reason: &str) {
        self.noted.causes.explain_join(reason);
    }

    /// Notes that a rebalance to this epoch or generation begins or starts again.
    pub(crate) fn rebalances(&mut self, epoch: i32) {
        self.noted.epoch = Some(epoch);
    }

    /// Notes that partitions move to other members.
    pub(crate) fn moves(&mut self, moved: Moved) {
        self.noted.moved.add(moved);
    }

    /// Forgets all that was noted, because the request is refused and nothing is written.
    pub(crate) fn forget_noted(&mut self) {
        *self.noted = Noted::default();
    }
}

/// Whether a client left because its application did not poll in time. The reason is free text, in
/// which Kafka's clients, and clients that imitate them, use these words.
fn is_poll_timeout(reason: &str) -> bool {
    const WORDS: &[u8] = b"poll timeout has expired";
    let reason = reason.as_bytes();
    reason.windows(WORDS.len()).any(|it| it.eq_ignore_ascii_case(WORDS))
}
