//! The topics in a StreamsGroupHeartbeat: names that a topology may not have, and why missing
//! internal topics are not created. The messages are Kafka's, as clients show them.

use super::ScreenedTopics;
use crate::cluster::check_topic_name;
use crate::topics::InternalTopic;
use muster_codec::messages::{
    StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, StreamsGroupSubtopology,
};
use muster_codec::{ErrorCode, Str};
use std::collections::HashSet;

/// The status code of a group that lacks internal topics.
const MISSING_INTERNAL_TOPICS: i8 = 3;

/// How many failed topics an answer names, as in Kafka.
const FAILED_NAMED: usize = 3;

/// How many denied topics an answer names.
const DENIED_NAMED: usize = 100;

/// All topics in the topology of a member that joins.
pub(in crate::dispatch) fn names<'n>(
    request: &'n StreamsGroupHeartbeatRequest<'_>,
) -> impl Iterator<Item = &'n str> {
    let subtopologies = request.topology.iter().flat_map(|it| &it.subtopologies);
    subtopologies.flat_map(names_of)
}

/// The refusal of a topology that has internal or invalid topic names.
pub(in crate::dispatch) fn refused(
    request: &StreamsGroupHeartbeatRequest<'_>,
) -> Option<StreamsGroupHeartbeatResponse<'static>> {
    let is_internal = |name: &&str| InternalTopic::of_name(name).is_some();
    let is_illegal = |name: &&str| check_topic_name(name).is_err();
    let message = if names(request).any(|name| is_internal(&name)) {
        let listed = distinct(names(request).filter(is_internal));
        format!("Use of Kafka internal topics {listed} in a Kafka Streams topology is prohibited.")
    } else if names(request).any(|name| is_illegal(&name)) {
        let listed = distinct(names(request).filter(is_illegal));
        format!("Topic names {listed} are not valid topic names.")
    } else {
        return None;
    };
    Some(StreamsGroupHeartbeatResponse {
        error_code: ErrorCode::StreamsInvalidTopology.code(),
        error_message: Some(Str::Owned(message)),
        ..Default::default()
    })
}

pub(super) fn screen(request: &StreamsGroupHeartbeatRequest<'_>) -> ScreenedTopics {
    refused(request).map_or(ScreenedTopics::Passed, |it| ScreenedTopics::Refused(it.into()))
}

/// Adds the topics that the client may not create to the status of missing topics.
pub(crate) fn explain_denied(body: &mut StreamsGroupHeartbeatResponse<'_>, denied: &[&str]) {
    let named = denied[..denied.len().min(DENIED_NAMED)].join(", ");
    let more = more(denied.len(), DENIED_NAMED);
    explain(body, &format!("Unauthorized to CREATE on topics {named}{more}."));
}

/// Adds the reason why topics could not be created to the status of missing topics.
pub(crate) fn explain_failed<'f>(
    body: &mut StreamsGroupHeartbeatResponse<'_>,
    failed: impl Iterator<Item = (&'f str, &'f str)>,
) {
    let failed: Vec<_> = failed.map(|(name, why)| format!("{name} ({why})")).collect();
    if failed.is_empty() {
        return;
    }
    let named = failed[..failed.len().min(FAILED_NAMED)].join(", ");
    let more = more(failed.len(), FAILED_NAMED);
    explain(body, &format!("Creation failed: {named}{more}."));
}

fn names_of<'n>(subtopology: &'n StreamsGroupSubtopology<'_>) -> impl Iterator<Item = &'n str> {
    let internal = subtopology.repartition_source_topics.iter();
    let internal = internal.chain(&subtopology.state_changelog_topics);
    let named = subtopology.source_topics.iter().chain(&subtopology.repartition_sink_topics);
    named.chain(internal.map(|topic| &topic.name)).map(|name| &**name)
}

/// The distinct names, separated by commas.
fn distinct<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let mut seen = HashSet::new();
    let names: Vec<_> = names.filter(|name| seen.insert(*name)).collect();
    names.join(",")
}

fn more(count: usize, named: usize) -> String {
    match count.saturating_sub(named) {
        0 => String::new(),
        more => format!(", ... and {more} more"),
    }
}

fn explain(body: &mut StreamsGroupHeartbeatResponse<'_>, why: &str) {
    for status in body.status.iter_mut().flatten() {
        if status.status_code == MISSING_INTERNAL_TOPICS {
            status.status_detail = Str::Owned(format!("{}; {why}", status.status_detail));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::messages::{StreamsGroupStatus, StreamsGroupTopicInfo, StreamsGroupTopology};

    fn request(names: [&'static str; 4]) -> StreamsGroupHeartbeatRequest<'static> {
        let [source, sink, repartition, changelog] = names.map(Str::from);
        let internal = |name| vec![StreamsGroupTopicInfo { name, ..Default::default() }];
        let subtopology = StreamsGroupSubtopology {
            source_topics: vec![source],
            repartition_sink_topics: vec![sink],
            repartition_source_topics: internal(repartition),
            state_changelog_topics: internal(changelog),
            ..Default::default()
        };
        let topology = StreamsGroupTopology { epoch: 0, subtopologies: vec![subtopology] };
        StreamsGroupHeartbeatRequest { topology: Some(topology), ..Default::default() }
    }

    #[test]
    fn names_of_any_list_may_be_refused_and_those_of_the_server_come_first() {
        let message = |names| {
            let refused = refused(&request(names))?;
            assert_eq!(refused.error_code, ErrorCode::StreamsInvalidTopology.code());
            refused.error_message.map(Str::into_owned)
        };
        assert_eq!(message(["a", "b", "b", "c"]), None);
        let internal = "Use of Kafka internal topics __consumer_offsets,__transaction_state in a \
                        Kafka Streams topology is prohibited.";
        let names = ["/", "__consumer_offsets", "__consumer_offsets", "__transaction_state"];
        assert_eq!(message(names).as_deref(), Some(internal));
        let illegal = "Topic names /,b b are not valid topic names.";
        assert_eq!(message(["/", "a", "a", "b b"]).as_deref(), Some(illegal));
        assert_eq!(refused(&StreamsGroupHeartbeatRequest::default()), None);
    }

    #[test]
    fn reasons_stand_in_the_status_of_missing_topics_alone() {
        let status = |status_code| StreamsGroupStatus { status_code, status_detail: "d".into() };
        let mut body = StreamsGroupHeartbeatResponse {
            status: Some(vec![status(0), status(MISSING_INTERNAL_TOPICS)]),
            ..Default::default()
        };
        explain_failed(&mut body, std::iter::empty());
        explain_failed(&mut body, ["a", "b", "c", "e"].into_iter().map(|name| (name, "full")));
        explain_denied(&mut body, &["x", "y"]);
        let details: Vec<_> =
            body.status.iter().flatten().map(|it| it.status_detail.to_string()).collect();
        let expected = "d; Creation failed: a (full), b (full), c (full), ... and 1 more.; \
                        Unauthorized to CREATE on topics x, y.";
        assert_eq!(details, ["d", expected]);
    }
}
