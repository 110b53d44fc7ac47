//! Heartbeats and descriptions of consumer, share and streams groups, and updates of topology
//! descriptions. One macro implements the heartbeats and updates, another macro the descriptions:
//! the fields that a macro uses have the same names in the messages of all its APIs.

use super::list::{BySlot, GroupList, once, runs, take_denied_groups};
use super::{CoordinatorAnswer, GroupApi, NamedGroups, ScreenedTopics, owned, streams_topics};
use crate::dispatch::authorization::{By, Verdict};
use crate::dispatch::extract::extract;
use crate::placement::Slot;
use crate::security::acls::Operation::{Describe, Read};
use muster_codec::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse, DescribedConsumerGroup, DescribedShareGroup,
    DescribedStreamsGroup, ShareGroupDescribeRequest, ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse, StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse, StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse,
    StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse,
};
use muster_codec::{ErrorCode, Response};
use muster_coordinator::Topics;
use muster_shares::sessions::is_member_id;

macro_rules! heartbeat {
    (
        $request:ty,
        $response:ident
        $(, topics $topics:path)?
        $(, screen $screen:path)?
        $(, invalid $invalid:path, $words:literal)?
    ) => {
        impl GroupApi for $request {
            fn named(&mut self, _version: i16) -> NamedGroups<'_> {
                NamedGroups::One(&self.group_id)
            }

            $(fn screen_topics(&mut self, _version: i16, _topics: &dyn Topics) -> ScreenedTopics {
                $screen(self)
            })?

            $(fn invalid(&self, _version: i16) -> Option<ErrorCode> {
                $invalid(self)
            })?

            fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
                $response {
                    error_code: error.code(),
                    $(error_message: (error == ErrorCode::InvalidRequest).then(|| $words.into()),)?
                    ..Default::default()
                }
                .into()
            }

            fn authorize(&mut self, by: &By<'_>) -> Verdict {
                let allowed = by.group(Read, &self.group_id);
                $(let allowed = allowed.and_then(|()| $topics(self, by));)?
                Verdict::whole(allowed, |error| self.refused(by.version, error))
            }
        }

        impl CoordinatorAnswer for $response<'_> {
            fn merge(&mut self, refused: Self) {
                *self = refused;
            }

            fn fail(&mut self, error: ErrorCode) {
                *self = Self { error_code: error.code(), ..Default::default() };
            }
        }
    };
}

macro_rules! describe {
    ($request:ident, $response:ident, $group:ident) => {
        impl GroupApi for $request<'_> {
            fn named(&mut self, _version: i16) -> NamedGroups<'_> {
                NamedGroups::Each(self)
            }

            fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
                let groups = self.group_ids.iter().map(|group| $group {
                    group_id: owned(group),
                    error_code: error.code(),
                    ..Default::default()
                });
                $response { groups: groups.collect(), ..Default::default() }.into()
            }

            fn authorize(&mut self, by: &By<'_>) -> Verdict {
                let of = |group_ids| Self { group_ids, ..Default::default() };
                take_denied_groups(&mut self.group_ids, Describe, by, of).restricted()
            }

            fn asks_for_operations(&self) -> bool {
                self.include_authorized_operations
            }
        }

        impl GroupList for $request<'_> {
            fn is_empty(&self) -> bool {
                self.group_ids.is_empty()
            }

            fn name_once(&mut self) {
                once(&mut self.group_ids);
            }

            fn any(&self, is: &dyn Fn(&str) -> bool) -> bool {
                self.group_ids.iter().any(|group| is(group))
            }

            fn refuse(
                &mut self,
                which: &dyn Fn(&str) -> bool,
                version: i16,
                error: ErrorCode,
            ) -> Option<Response<'static>> {
                let group_ids = extract(&mut self.group_ids, |group| which(group))?;
                Some(Self { group_ids, ..Default::default() }.refused(version, error))
            }
        }

        impl BySlot for $request<'_> {
            fn by_slot(self, slot_of: &dyn Fn(&str) -> Slot) -> Vec<(Slot, Self)> {
                let runs = runs(self.group_ids, |it| slot_of(it));
                runs.map(|(slot, group_ids)| (slot, Self { group_ids, ..self })).collect()
            }
        }

        impl CoordinatorAnswer for $response<'_> {
            fn merge(&mut self, refused: Self) {
                self.groups.extend(refused.groups);
            }

            /// Does nothing: descriptions write no records.
            fn fail(&mut self, _error: ErrorCode) {}
        }
    };
}

heartbeat!(
    ConsumerGroupHeartbeatRequest<'_>,
    ConsumerGroupHeartbeatResponse,
    topics of_consumer
);
heartbeat!(ShareGroupHeartbeatRequest<'_>, ShareGroupHeartbeatResponse, topics of_share_consumer);
heartbeat!(
    Box<StreamsGroupHeartbeatRequest<'_>>,
    StreamsGroupHeartbeatResponse,
    topics of_topology,
    screen streams_topics::screen
);
heartbeat!(
    StreamsGroupTopologyDescriptionUpdateRequest<'_>,
    StreamsGroupTopologyDescriptionUpdateResponse,
    invalid without_ids, "The id of the member or group is empty."
);

fn of_consumer(request: &ConsumerGroupHeartbeatRequest<'_>, by: &By<'_>) -> Result<(), ErrorCode> {
    describes_all(request.subscribed_topic_names.iter().flatten().map(|name| &**name), by)
}

/// As in Kafka, an invalid member id is refused before authorization.
fn of_share_consumer(
    request: &ShareGroupHeartbeatRequest<'_>,
    by: &By<'_>,
) -> Result<(), ErrorCode> {
    if !is_member_id(&request.member_id) {
        return Ok(());
    }
    describes_all(request.subscribed_topic_names.iter().flatten().map(|name| &**name), by)
}

/// A topology is denied as a whole. Invalid topic names are refused first.
fn of_topology(request: &StreamsGroupHeartbeatRequest<'_>, by: &By<'_>) -> Result<(), ErrorCode> {
    if streams_topics::refused(request).is_some() {
        return Ok(());
    }
    describes_all(streams_topics::names(request), by)
}

fn describes_all<'n>(
    mut names: impl Iterator<Item = &'n str>,
    by: &By<'_>,
) -> Result<(), ErrorCode> {
    let all = names.all(|name| by.topic(Describe, name));
    all.then_some(()).ok_or(ErrorCode::TopicAuthorizationFailed)
}

/// INVALID_REQUEST if a topology description names no group or no member.
fn without_ids(request: &StreamsGroupTopologyDescriptionUpdateRequest<'_>) -> Option<ErrorCode> {
    let is_named = !request.group_id.is_empty() && !request.member_id.is_empty();
    (!is_named).then_some(ErrorCode::InvalidRequest)
}

describe!(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribedConsumerGroup);
describe!(ShareGroupDescribeRequest, ShareGroupDescribeResponse, DescribedShareGroup);
describe!(StreamsGroupDescribeRequest, StreamsGroupDescribeResponse, DescribedStreamsGroup);
