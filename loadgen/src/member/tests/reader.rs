//! Readers: where they begin, what they fetch again after an error, and how they end.

use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};

use super::producer::metadata;
use super::*;
use crate::plan::{Isolation, ReaderPlan};

const NOT_LEADER: i16 = 6;
const OUT_OF_RANGE: i16 = 1;

/// A reader of these partitions of the first topic. One broker leads the even partitions, another
/// the odd ones.
fn reader(partitions: &[u32]) -> Story {
    let plan = ReaderPlan { partitions: set(partitions), isolation: Isolation::ReadCommitted };
    let mut story = Story::new(member(group(Protocol::Reader(plan))));
    story.start();
    story.reply(metadata());
    story
}

fn positions(offset: i64, partitions: &[i32]) -> Response {
    let of = |number: &i32| {
        ListOffsetsPartitionResponse::default().with_partition_index(*number).with_offset(offset)
    };
    let topic = ListOffsetsTopicResponse::default()
        .with_name(TopicName(str_bytes("t")))
        .with_partitions(partitions.iter().map(of).collect());
    Response::ListOffsets(ListOffsetsResponse::default().with_topics(vec![topic]))
}

fn fetched(data: PartitionData) -> Response {
    let topic = FetchableTopicResponse::default().with_topic_id(wire_id(0));
    let topic = topic.with_partitions(vec![data]);
    Response::Fetch(FetchResponse::default().with_responses(vec![topic]))
}

/// The partition and offset of each partition of a fetch.
fn asked(outgoing: &Outgoing) -> Vec<(i32, i64)> {
    let Request::Fetch(request) = &outgoing.request else { panic!("{:?}", outgoing.request) };
    assert_eq!((request.isolation_level, request.min_bytes), (1, 1));
    let all = request.topics.iter().flat_map(|topic| &topic.partitions);
    all.map(|it| (it.partition, it.fetch_offset)).collect()
}

/// A control batch that moves the position to the offset `to`.
fn moved(to: i64) -> PartitionData {
    let mut batch = vec![0; 61];
    batch[..8].copy_from_slice(&(to - 1).to_be_bytes());
    batch[11] = 49;
    batch[16] = 2;
    batch[22] = 0x30;
    PartitionData::default().with_records(Some(batch.into()))
}

#[test]
fn it_reads_from_its_first_positions_on_with_a_fetch_for_each_leader() {
    let mut story = reader(&[0, 1]);
    assert_eq!(story.member.state(), State::Joining);
    let (even, odd) = (story.sent.remove(0).1, story.sent.remove(0).1);
    story.answer(&even, Ok(positions(5, &[0])));
    assert!(story.sent.is_empty(), "it begins with all positions");
    assert_eq!(story.events(), [EventKind::Started]);
    story.answer(&odd, Ok(positions(7, &[1])));
    let first = set(&[0, 1]).iter().copied().zip([5, 7]).collect();
    let isolation = Isolation::ReadCommitted;
    assert_eq!(story.events(), [EventKind::ReadingFrom { isolation, positions: first }]);
    assert_eq!(story.member.state(), State::Stable);
    let (even, odd) = (story.sent.remove(0).1, story.sent.remove(0).1);
    assert_eq!((asked(&even), asked(&odd)), (vec![(0, 5)], vec![(1, 7)]));
    assert!(even.to != odd.to && even.version >= 13);
    story.answer(&even, Ok(fetched(moved(9))));
    let events = story.events();
    assert!(matches!(&events[..], [EventKind::Read { positions, .. }] if positions[0].1 == 9));
    assert_eq!(asked(&story.request()), [(0, 9)]);
    story.answer(&odd, Ok(fetched(PartitionData::default().with_partition_index(1))));
    assert_eq!(story.events(), [], "nothing new");
    assert_eq!(asked(&story.request()), [(1, 7)]);
}

fn at_work() -> (Story, Outgoing) {
    let mut story = reader(&[0]);
    story.reply(positions(5, &[0]));
    let outgoing = story.request();
    story.events();
    (story, outgoing)
}

#[test]
fn without_topic_ids_topics_are_named() {
    let plan = ReaderPlan { partitions: set(&[0]), isolation: Isolation::ReadCommitted };
    let mut story = Story::new(member(group(Protocol::Reader(plan))));
    story.topics = Topics::default();
    story.topics.learn(Topic { name: "t".into(), id: Uuid::ZERO, partitions: 4 });
    story.start();
    story.reply(metadata());
    story.reply(positions(0, &[0]));
    assert_eq!(story.request().version, 12);
}

#[test]
fn it_asks_for_the_leader_again_after_an_error_and_keeps_its_position() {
    let (mut story, outgoing) = at_work();
    let refused = PartitionData::default().with_error_code(NOT_LEADER);
    story.answer(&outgoing, Ok(fetched(refused)));
    assert_eq!(story.events(), [EventKind::Refused { api: 1, error: NOT_LEADER }]);
    for lost in [false, true] {
        story.until(story.now + Duration::from_secs(5));
        story.reply(metadata());
        story.until(story.now + Duration::from_secs(5));
        let outgoing = story.request();
        assert_eq!(asked(&outgoing), [(0, 5)]);
        if !lost {
            story.answer(&outgoing, Err(Failure::Disconnected));
            assert_eq!(story.events(), [EventKind::Disconnected]);
        }
    }
}

#[test]
fn records_that_were_removed_before_they_were_read_are_fatal() {
    let (mut story, outgoing) = at_work();
    let refused = PartitionData::default().with_error_code(OUT_OF_RANGE);
    story.answer(&outgoing, Ok(fetched(refused)));
    assert!(story.reason().contains("retention"));
}

#[test]
fn it_leaves_when_a_fetch_has_no_more_records_or_after_a_while() {
    for ends in [false, true] {
        let (mut story, mut outgoing) = at_work();
        story.now = story.now + Duration::from_millis(10);
        story.stop(Stop::Leave);
        let began = story.now;
        for at in 6..8 {
            story.answer(&outgoing, Ok(fetched(moved(at))));
            outgoing = story.request();
        }
        if !ends {
            story.until(began + Duration::from_secs(3));
        }
        let last = if ends { PartitionData::default() } else { moved(8) };
        story.answer(&outgoing, Ok(fetched(last)));
        assert!(story.sent.is_empty());
        let stopped = EventKind::Stopped { how: Stop::Leave };
        assert_eq!(story.events().pop(), Some(stopped));
    }
}
