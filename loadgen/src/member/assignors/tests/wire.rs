//! The bytes of the consumer protocol: ours, Kafka's, and invalid bytes.

use bytes::BufMut;
use fastrand::Rng;
use muster_codec::messages::JoinGroupResponseMember;

use super::super::protocol::*;
use super::*;

fn owned() -> Vec<Partition> {
    [(0, 1), (0, 2), (1, 0)].map(Partition::from).into()
}

fn metadata(assignor: ClassicAssignor, topics: &Topics, generation: i32) -> Vec<u8> {
    let joining = Joining {
        topics: &[TopicIndex(1), TopicIndex(0)],
        owned: &owned(),
        generation,
        rack: Some("rack-1"),
    };
    join_metadata(assignor, &joining, topics)
}

fn joined(id: &'static str, metadata: Vec<u8>) -> JoinGroupResponseMember<'static> {
    let (member_id, metadata) = (id.into(), metadata.into());
    JoinGroupResponseMember { member_id, group_instance_id: None, metadata }
}

#[test]
fn a_leader_reads_the_metadata_of_members() {
    let topics = topics_with(&[3, 3]);
    for (assignor, past) in [
        (ClassicAssignor::Range, (vec![], NO_GENERATION)),
        (ClassicAssignor::RoundRobin, (vec![], NO_GENERATION)),
        (ClassicAssignor::Sticky, (owned(), 7)),
        (ClassicAssignor::CooperativeSticky, (owned(), 7)),
    ] {
        let mut reader = Reader::new(assignor, &topics);
        let read = |id| joined(id, metadata(assignor, &topics, 7));
        let first = reader.member(&read("a")).unwrap();
        let second = reader.member(&read("b")).unwrap();
        assert_eq!(first.topics[..], [TopicIndex(0), TopicIndex(1)]);
        assert!(Arc::ptr_eq(&first.topics, &second.topics), "equal topics are shared");
        assert_eq!((first.owned, first.generation), past, "{assignor:?}");
    }
}

/// A whole rebalance: two members join, the leader assigns, both read their assignments.
#[test]
fn members_read_the_assignments_of_the_leader() {
    let topics = topics_with(&[3, 3]);
    let bytes = metadata(ClassicAssignor::RoundRobin, &topics, NO_GENERATION);
    let members = [joined("a", bytes.clone()), joined("b", bytes)];
    let assigned = lead(ClassicAssignor::RoundRobin, &members, &topics).unwrap();
    let read = |at: usize| read_assignment(&assigned[at].assignment, &topics).unwrap();
    assert_eq!(&*assigned[1].member_id, "b");
    assert_eq!(read(0), [(0, 0), (0, 2), (1, 1)].map(Partition::from));
    assert_eq!(read(1), [(0, 1), (1, 0), (1, 2)].map(Partition::from));
}

/// The bytes follow the schemas of kafka-clients: ConsumerProtocolSubscription v0 and v1, and user
/// data of the sticky assignors.
#[test]
fn metadata_of_older_clients_is_read() {
    let topics = topics_with(&[3]);
    let topic_partitions = b"\0\0\0\x01\0\x07topic-0\0\0\0\x01\0\0\0\x02";
    let subscription = |version: i16, user_data: &[u8], owned: &[u8]| {
        let mut bytes = Vec::new();
        bytes.put_i16(version);
        bytes.put_slice(b"\0\0\0\x01\0\x07topic-0");
        bytes.put_i32(user_data.len() as i32);
        bytes.put_slice(user_data);
        bytes.put_slice(owned);
        joined("a", bytes)
    };
    let past = |assignor, member| {
        let member = Reader::new(assignor, &topics).member(&member).unwrap();
        (member.owned, member.generation)
    };
    let partition = vec![Partition::from((0, 2))];
    let with_generation = [&topic_partitions[..], b"\0\0\0\x05"].concat();
    for (user_data, expected) in [
        (&topic_partitions[..], (partition.clone(), NO_GENERATION)),
        (&with_generation[..], (partition.clone(), 5)),
        (b"?", (vec![], NO_GENERATION)),
    ] {
        let member = subscription(0, user_data, b"");
        assert_eq!(past(ClassicAssignor::Sticky, member), expected);
    }
    let member = subscription(1, b"\0\0\0\x05", topic_partitions);
    assert_eq!(past(ClassicAssignor::CooperativeSticky, member), (partition, 5));
}

#[test]
fn the_known_fields_of_a_newer_version_are_read() {
    let topics = topics_with(&[3, 3]);
    let mut bytes = metadata(ClassicAssignor::Range, &topics, 7);
    bytes[1] = 99;
    bytes.extend_from_slice(b"what later versions add");
    let member = Reader::new(ClassicAssignor::Range, &topics).member(&joined("a", bytes));
    assert_eq!(member.unwrap().topics.len(), 2);
}

/// Without checks, each of these inputs but the last would make the decoder reserve gigabytes, or
/// read past the end. The last input has a negative version.
#[test]
fn lengths_are_checked_before_memory_is_reserved() {
    let topics = topics_with(&[3]);
    for bytes in [
        &b""[..],
        b"\0",
        b"\0\x03\x7f\xff\xff\xff",
        b"\0\x03\xff\xff\xff\xff",
        b"\0\x03\0\0\0\x01\x7f\xff",
        b"\0\x03\0\0\0\0\x7f\xff\xff\xff",
        b"\0\x03\0\0\0\x01\0\x01a\x7f\xff\xff\xff",
        b"\xff\xff\0\0\0\0",
    ] {
        let bytes = bytes.to_vec();
        let error = lead(ClassicAssignor::Range, &[joined("odd one", bytes.clone())], &topics);
        assert!(error.unwrap_err().to_string().contains("odd one"), "{bytes:?}");
        assert!(read_assignment(&bytes, &topics).is_err(), "{bytes:?}");
    }
    let owned = Vec::from(b"\0\x03\0\0\0\0\0\0\0\0\x7f\xff\xff\xff");
    assert!(lead(ClassicAssignor::Range, &[joined("a", owned)], &topics).is_err());
}

#[test]
fn damaged_bytes_never_panic() {
    let topics = topics_with(&[3, 3]);
    for seed in 0..2_000 {
        let random = &mut Rng::with_seed(seed);
        let assignor =
            [ClassicAssignor::Sticky, ClassicAssignor::CooperativeSticky][seed as usize % 2];
        let mut bytes = metadata(assignor, &topics, 7);
        for _ in 0..random.u8(1..4) {
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
        }
        bytes.truncate(random.usize(..=bytes.len()));
        // Both calls may succeed or fail. Neither may panic, or reserve more memory than there are
        // bytes.
        let _ = lead(assignor, &[joined("a", bytes.clone())], &topics);
        let _ = read_assignment(&bytes, &topics);
    }
}

#[test]
fn an_assignment_of_an_unknown_topic_is_an_error_that_names_it() {
    let there = topics_with(&[1]);
    let bytes = assignment_bytes(&[Partition::from((0, 0))], &there);
    let error = read_assignment(&bytes, &Topics::default()).unwrap_err();
    assert_eq!(error, ProtocolError::UnknownTopic("topic-0".into()));
}
