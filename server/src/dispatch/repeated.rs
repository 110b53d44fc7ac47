//! What a request names more than once is answered once. Kafka answers each repetition, but for groups
//! to be deleted; clients look answers up by name, and cannot tell.

use muster_codec::messages::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use muster_codec::{Request, Str};
use std::collections::{HashMap, HashSet};

/// Names each group and each key once.
pub(crate) fn name_once(request: &mut Request<'_>) {
    match request {
        Request::OffsetFetch(body) => merge_groups(&mut body.groups),
        Request::DescribeGroups(body) => once(&mut body.groups),
        Request::ConsumerGroupDescribe(body) => once(&mut body.group_ids),
        Request::DeleteGroups(body) => once(&mut body.groups_names),
        Request::FindCoordinator(body) => once(&mut body.coordinator_keys),
        _ => {}
    }
}

fn once(names: &mut Vec<Str<'_>>) {
    if names.len() > 1 {
        let mut seen = HashSet::with_capacity(names.len());
        names.retain(|name| seen.insert(name.clone()));
    }
}

/// Makes one entry of those of the same group: it asks for what each of them asks for.
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

/// None asks for all topics.
fn both<'r>(first: Topics<'r>, second: Topics<'r>) -> Topics<'r> {
    let (mut topics, second) = first.zip(second)?;
    topics.extend(second);
    Some(topics)
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::messages::{DescribeGroupsRequest, OffsetFetchRequest};

    #[test]
    fn a_name_stays_where_it_comes_first() {
        let groups = ["b", "a", "b", "c", "a"].map(Str::Borrowed).to_vec();
        let mut request = DescribeGroupsRequest { groups, ..Default::default() }.into();
        name_once(&mut request);
        let Request::DescribeGroups(body) = request else { unreachable!() };
        assert_eq!(body.groups, ["b", "a", "c"]);
    }

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
        let groups = vec![
            asked("g", Some("t1")),
            asked("h", Some("t1")),
            asked("g", Some("t2")),
            asked("i", Some("t1")),
            asked("i", None),
        ];
        let mut request = OffsetFetchRequest { groups, ..Default::default() }.into();
        name_once(&mut request);
        let Request::OffsetFetch(body) = request else { unreachable!() };
        let topics = |group: &OffsetFetchRequestGroup<'_>| {
            let topics = group.topics.as_ref();
            topics.map(|topics| topics.iter().map(|it| it.name.to_string()).collect::<Vec<_>>())
        };
        let [g, h, i] = &body.groups[..] else { panic!("{:?}", body.groups) };
        assert_eq!((&*g.group_id, &*h.group_id, &*i.group_id), ("g", "h", "i"));
        assert_eq!(topics(g), Some(vec!["t1".to_owned(), "t2".to_owned()]));
        assert_eq!((topics(h), topics(i)), (Some(vec!["t1".to_owned()]), None));
    }
}
