//! OffsetFetch: the offsets of one group, or from version 8 on of several groups.

use super::list::{BySlot, GroupList, runs};
use super::{CoordinatorAnswer, GroupApi, NamedGroups, owned};
use crate::dispatch::authorization::{By, Verdict, take_denied, take_refused};
use crate::dispatch::extract::extract;
use crate::placement::Slot;
use crate::security::acls::Operation::Describe;
use muster_codec::messages::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
    OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
};
use muster_codec::{ApiKey, ErrorCode, Response};
use std::collections::HashMap;

/// The first version that names several groups.
pub(crate) const GROUPS_FROM: i16 = 8;

/// The first version whose response has an error for the group.
const ERROR_FROM: i16 = 2;

impl GroupApi for OffsetFetchRequest<'_> {
    fn named(&mut self, version: i16) -> NamedGroups<'_> {
        if version >= GROUPS_FROM {
            NamedGroups::Each(self)
        } else {
            NamedGroups::One(&self.group_id)
        }
    }

    fn refused(&self, version: i16, error: ErrorCode) -> Response<'static> {
        let error_code = error.code();
        let response = match version {
            GROUPS_FROM.. => {
                let groups = self.groups.iter().map(|group| refused_group(group, error_code));
                OffsetFetchResponse { groups: groups.collect(), ..Default::default() }
            }
            ERROR_FROM.. => OffsetFetchResponse { error_code, ..Default::default() },
            _ => refused_partitions(self, error_code),
        };
        response.into()
    }

    /// If the request names no topics of a group, the answer leaves out denied topics.
    fn authorize(&mut self, by: &By<'_>) -> Verdict {
        if by.version < GROUPS_FROM {
            let whole = by.group(Describe, &self.group_id);
            let whole = Verdict::whole(whole, |error| self.refused(by.version, error));
            return whole.then(|| authorize_topics(self, by));
        }
        let denied = take_denied(&mut self.groups, |it| by.group(Describe, &it.group_id).is_ok());
        let mut groups: Vec<_> = denied.iter().flatten().map(denied_group).collect();
        groups.extend(self.groups.iter_mut().filter_map(|group| take_denied_topics(group, by)));
        if groups.is_empty() {
            return Verdict::Restricted;
        }
        let refused = OffsetFetchResponse { groups, ..Default::default() };
        Verdict::of_parts(Some(refused), self.groups.is_empty())
    }
}

impl GroupList for OffsetFetchRequest<'_> {
    fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    fn name_once(&mut self) {
        merge_groups(&mut self.groups);
    }

    fn any(&self, is: &dyn Fn(&str) -> bool) -> bool {
        self.groups.iter().any(|group| is(&group.group_id))
    }

    fn refuse(
        &mut self,
        which: &dyn Fn(&str) -> bool,
        version: i16,
        error: ErrorCode,
    ) -> Option<Response<'static>> {
        let groups = extract(&mut self.groups, |group| which(&group.group_id))?;
        Some(Self { groups, ..Default::default() }.refused(version, error))
    }
}

impl BySlot for OffsetFetchRequest<'_> {
    fn by_slot(self, slot_of: &dyn Fn(&str) -> Slot) -> Vec<(Slot, Self)> {
        let require_stable = self.require_stable;
        let of_slot = |groups| Self { groups, require_stable, ..Default::default() };
        let runs = runs(self.groups, |it| slot_of(&it.group_id));
        runs.map(|(slot, groups)| (slot, of_slot(groups))).collect()
    }
}

impl CoordinatorAnswer for OffsetFetchResponse<'_> {
    fn merge(&mut self, refused: Self) {
        self.groups.extend(refused.groups);
    }

    /// OffsetFetch writes no records.
    fn fail(&mut self, _error: ErrorCode) {}
}

/// Checks the topics of a version that names one group.
fn authorize_topics(request: &mut OffsetFetchRequest<'_>, by: &By<'_>) -> Verdict {
    let is_allowed = |it: &OffsetFetchRequestTopic<'_>| by.topic(Describe, &it.name);
    let denied = request.topics.as_mut().and_then(|topics| take_refused(topics, is_allowed));
    match denied {
        Some(topics) => {
            Verdict::InPart(OffsetFetchResponse { topics, ..Default::default() }.into())
        }
        None => Verdict::Restricted,
    }
}

fn denied_group(group: &OffsetFetchRequestGroup<'_>) -> OffsetFetchResponseGroup<'static> {
    OffsetFetchResponseGroup {
        group_id: owned(&group.group_id),
        error_code: ErrorCode::GroupAuthorizationFailed.code(),
        ..Default::default()
    }
}

/// Removes denied topics of a group, and refuses them; None if there are none.
fn take_denied_topics(
    group: &mut OffsetFetchRequestGroup<'_>,
    by: &By<'_>,
) -> Option<OffsetFetchResponseGroup<'static>> {
    let is_allowed = |it: &OffsetFetchRequestTopics<'_>| {
        by.named_topic(Describe, (&it.name, it.topic_id), ApiKey::OffsetFetch)
    };
    let topics = take_refused(group.topics.as_mut()?, is_allowed)?;
    let group_id = owned(&group.group_id);
    Some(OffsetFetchResponseGroup { group_id, topics, ..Default::default() })
}

/// The response of a version in which only partitions have errors.
fn refused_partitions(
    request: &OffsetFetchRequest<'_>,
    error_code: i16,
) -> OffsetFetchResponse<'static> {
    let partition = |index: &i32| OffsetFetchResponsePartition {
        partition_index: *index,
        committed_offset: -1,
        error_code,
        ..Default::default()
    };
    let topics = request.topics.iter().flatten().map(|topic| OffsetFetchResponseTopic {
        name: owned(&topic.name),
        partitions: topic.partition_indexes.iter().map(partition).collect(),
    });
    OffsetFetchResponse { topics: topics.collect(), ..Default::default() }
}

fn refused_group(
    group: &OffsetFetchRequestGroup<'_>,
    error_code: i16,
) -> OffsetFetchResponseGroup<'static> {
    OffsetFetchResponseGroup { group_id: owned(&group.group_id), error_code, ..Default::default() }
}

/// Merges the entries of each group into one entry, which requests the topics of all its entries.
fn merge_groups(groups: &mut Vec<OffsetFetchRequestGroup<'_>>) {
    if groups.len() < 2 {
        return;
    }
    let mut places = HashMap::with_capacity(groups.len());
    let mut merged: Vec<OffsetFetchRequestGroup<'_>> = Vec::with_capacity(groups.len());
    for group in std::mem::take(groups) {
        let place = *places.entry(group.group_id.clone()).or_insert(merged.len());
        match merged.get_mut(place) {
            Some(first) => first.topics = both(first.topics.take(), group.topics),
            None => merged.push(group),
        }
    }
    *groups = merged;
}

type Topics<'r> = Option<Vec<OffsetFetchRequestTopics<'r>>>;

/// The topics of both entries; None means all topics.
fn both<'r>(first: Topics<'r>, second: Topics<'r>) -> Topics<'r> {
    let (mut topics, second) = first.zip(second)?;
    topics.extend(second);
    Some(topics)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(
        group_id: &'static str,
        topic: Option<&'static str>,
    ) -> OffsetFetchRequestGroup<'static> {
        let topic = topic
            .map(|name| vec![OffsetFetchRequestTopics { name: name.into(), ..Default::default() }]);
        OffsetFetchRequestGroup { group_id: group_id.into(), topics: topic, ..Default::default() }
    }

    #[test]
    fn all_that_is_asked_of_a_group_is_asked_at_once() {
        let mut groups = vec![
            asked("g", Some("t1")),
            asked("h", Some("t1")),
            asked("g", Some("t2")),
            asked("i", Some("t1")),
            asked("i", None),
        ];
        merge_groups(&mut groups);
        let topics = |group: &OffsetFetchRequestGroup<'_>| {
            let topics = group.topics.as_ref();
            topics.map(|topics| topics.iter().map(|it| it.name.to_string()).collect::<Vec<_>>())
        };
        let [g, h, i] = &groups[..] else { panic!("{groups:?}") };
        assert_eq!((&*g.group_id, &*h.group_id, &*i.group_id), ("g", "h", "i"));
        assert_eq!(topics(g), Some(vec!["t1".to_owned(), "t2".to_owned()]));
        assert_eq!((topics(h), topics(i)), (Some(vec!["t1".to_owned()]), None));
    }
}
