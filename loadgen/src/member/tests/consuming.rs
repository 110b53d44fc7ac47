//! Members that consume: where they begin to read, which records they get, and what they commit
//! when they give partitions up.

use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};

use super::consumer::{asking, beat, given, plan};
use super::producer::metadata;
use super::share::batch_of;
use super::*;
use crate::event::{ConsumedBatch, EventKind};
use crate::plan::{Fetching, Load};

const CLOSED: Load = Load { rate: None, in_flight: 1, partitions: 0 };
const NOT_LEADER: i16 = 6;

/// A member of a consumer group with partitions 0 and 1, led by two brokers. It commits rarely.
fn consuming() -> Story {
    let records = Some(Fetching { load: CLOSED, bytes: 1000 });
    let commit = Some(Load { rate: Some(0.001), ..CLOSED });
    let workload = Workload { records, commit, ..Workload::default() };
    let mut story = asking(MemberPlan { workload, ..member(plan()) });
    story.reply(Response::ConsumerGroupHeartbeat(given(1, &[0, 1])));
    answer(&mut story, ApiKey::ConsumerGroupHeartbeat, beat_answer(1));
    answer(&mut story, ApiKey::Metadata, metadata());
    story.events();
    story
}

fn beat_answer(epoch: i32) -> Response {
    Response::ConsumerGroupHeartbeat(beat(epoch))
}

/// Removes and returns the first unanswered request of this API.
fn take(story: &mut Story, api: ApiKey) -> Outgoing {
    let is_of = |(_, outgoing): &(Time, Outgoing)| outgoing.request.api_key() == api;
    let at = story.sent.iter().position(is_of);
    story.sent.remove(at.unwrap_or_else(|| panic!("{api:?}: {:?}", story.requests()))).1
}

fn answer(story: &mut Story, api: ApiKey, response: Response) -> Outgoing {
    let outgoing = take(story, api);
    story.answer(&outgoing, Ok(response));
    outgoing
}

/// The partition, offset and maximum bytes of each partition of a fetch.
fn asked(outgoing: &Outgoing) -> Vec<(i32, i64, i32)> {
    let Request::Fetch(request) = &outgoing.request else { panic!("{:?}", outgoing.request) };
    let all = request.topics.iter().flat_map(|topic| &topic.partitions);
    all.map(|it| (it.partition, it.fetch_offset, it.partition_max_bytes)).collect()
}

fn fetched(number: i32, data: PartitionData) -> Response {
    let topic = FetchableTopicResponse::default().with_topic_id(wire_id(0));
    let topic = topic.with_partitions(vec![data.with_partition_index(number)]);
    Response::Fetch(FetchResponse::default().with_responses(vec![topic]))
}

fn records(base: i64, count: i64) -> PartitionData {
    PartitionData::default().with_records(Some(batch_of(base, count)))
}

#[test]
fn it_reads_on_from_each_leader_and_commits_what_it_has_read_before_it_leaves() {
    let mut story = consuming();
    let (even, odd) = (take(&mut story, ApiKey::Fetch), take(&mut story, ApiKey::Fetch));
    assert_eq!((asked(&even), asked(&odd)), (vec![(0, 0, 1000)], vec![(1, 0, 1000)]));
    assert!(matches!((even.to, odd.to), (Destination::Leader(_), Destination::Leader(_))));
    story.answer(&even, Ok(fetched(0, records(0, 3))));
    let partition = Partition { topic: TopicIndex(0), number: 0 };
    match &story.events()[..] {
        [EventKind::Consumed { batches, .. }] => {
            let ConsumedBatch { partition: of, first, last, .. } = batches[0];
            assert_eq!((of, first, last, batches.len()), (partition, 0, 2, 1));
        }
        events => panic!("{events:?}"),
    }
    assert!(story.sent.is_empty(), "one round at a time");
    story.answer(&odd, Ok(fetched(1, PartitionData::default())));
    let (even, _odd) = (take(&mut story, ApiKey::Fetch), take(&mut story, ApiKey::Fetch));
    assert_eq!(asked(&even), [(0, 3, 1000)]);

    story.stop(Stop::Leave);
    let sent: Vec<_> = story.requests().iter().map(|request| request.api_key()).collect();
    assert_eq!(sent, [ApiKey::OffsetCommit, ApiKey::ConsumerGroupHeartbeat]);
    let events = story.events();
    let committed = events.iter().find_map(|event| match event {
        EventKind::CommitSent { epoch, offsets, .. } => Some((*epoch, offsets.to_vec())),
        _ => None,
    });
    let other = Partition { number: 1, ..partition };
    assert_eq!(committed, Some((1, vec![(partition, 3), (other, 0)])));
}

/// As in a real client, records of a partition that was given up meanwhile are dropped.
#[test]
fn records_of_a_partition_that_was_given_up_are_not_delivered() {
    let mut story = consuming();
    let (even, _odd) = (take(&mut story, ApiKey::Fetch), take(&mut story, ApiKey::Fetch));
    story.until(at(60_000));
    answer(
        &mut story,
        ApiKey::ConsumerGroupHeartbeat,
        Response::ConsumerGroupHeartbeat(given(2, &[1])),
    );
    take(&mut story, ApiKey::OffsetCommit);
    story.events();
    story.answer(&even, Ok(fetched(0, records(0, 3))));
    let events = story.events();
    assert!(!events.iter().any(|it| matches!(it, EventKind::Consumed { .. })), "{events:?}");
}

#[test]
fn a_leader_that_is_none_any_more_is_asked_for_again() {
    let mut story = consuming();
    let (even, odd) = (take(&mut story, ApiKey::Fetch), take(&mut story, ApiKey::Fetch));
    let refused = PartitionData::default().with_error_code(NOT_LEADER);
    story.answer(&even, Ok(fetched(0, refused)));
    assert_eq!(story.events(), [EventKind::Refused { api: 1, error: NOT_LEADER }]);
    story.answer(&odd, Ok(fetched(1, records(0, 1))));
    while !story.requests().iter().any(|it| it.api_key() == ApiKey::Metadata) {
        story.until(story.now + Duration::from_secs(1));
        assert!(story.now < at(30_000), "{:?}", story.requests());
    }
    answer(&mut story, ApiKey::Metadata, metadata());
    let (even, odd) = (take(&mut story, ApiKey::Fetch), take(&mut story, ApiKey::Fetch));
    assert_eq!((asked(&even), asked(&odd)), (vec![(0, 0, 1000)], vec![(1, 1, 1000)]));
}
