//! Frames and answers of the wire, whole, cut and hostile.

use std::io::Read;

use kafka_protocol::messages::*;
use kafka_protocol::protocol::Encodable;
use proptest::prelude::*;

use super::*;
use crate::member::{StreamsHeartbeat, StreamsJoining as Joining, StreamsTasks};
use muster_codec::messages;

/// `(api, version, body)` of answers that Kafka's own serializer wrote.
fn vectors() -> Vec<(i16, i16, Vec<u8>)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../codec/tests/data/message-vectors.tsv.gz");
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let line = |line: &str| -> Option<(i16, i16, Vec<u8>)> {
        let words: Vec<_> = line.split('\t').collect();
        let (api, version) = (words[0].parse().unwrap(), words[3].parse().unwrap());
        (words[2] == "resp").then(|| (api, version, unhex(words[4])))
    };
    text.lines().filter(|text| !text.starts_with('#')).filter_map(line).collect()
}

fn unhex(digits: &str) -> Vec<u8> {
    let pair = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(pair).collect()
}

#[test]
fn every_answer_of_kafka_is_walked_to_its_last_byte() {
    let mut walked = std::collections::BTreeSet::new();
    for (api, version, body) in vectors() {
        if layouts::layout(api).is_some() {
            assert_eq!(shape::walk(api, version, &body), Ok(0), "API {api} version {version}");
            walked.insert(api);
        }
    }
    assert_eq!(walked.len(), 32, "{walked:?}");
}

#[test]
fn a_truncated_answer_is_refused() {
    for (api, version, body) in vectors().into_iter().filter(|(api, ..)| *api == 11) {
        for end in 0..body.len() {
            assert!(shape::walk(api, version, &body[..end]).is_err(), "{version}: {end}");
        }
    }
}

#[test]
fn a_length_that_exceeds_the_bytes_is_refused_before_memory_is_reserved() {
    // Metadata v12: correlation id, no tags, throttle time, 2^32 - 2 brokers.
    let frame = [0, 0, 0, 7, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f];
    assert!(read::<messages::MetadataRequest<'_>>(12, &frame).is_err());
    // ApiVersions v3: the same in a tagged field, of which there is one: tag 0, 5 bytes.
    let frame = [0, 0, 0, 7, 0, 0, 1, 0, 0, 0, 0, 1, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x0f];
    assert!(read::<messages::ApiVersionsRequest<'_>>(3, &frame).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(
        api in 0i16..90, version in 0i16..14, frame in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = read_response(api, version, &frame);
        let _ = read::<messages::MetadataRequest<'_>>(version, &frame);
        let _ = read::<messages::ApiVersionsRequest<'_>>(version.min(4), &frame);
    }

    #[test]
    fn frames_are_found_in_however_small_pieces_they_arrive(
        sizes in prop::collection::vec(4usize..400, 1..20), step in 1usize..700,
    ) {
        let mut stream = Vec::new();
        for (at, size) in sizes.iter().enumerate() {
            stream.extend_from_slice(&(*size as i32).to_be_bytes());
            stream.extend(std::iter::repeat_n(at as u8, *size));
        }
        let (mut frames, mut seen) = (Frames::default(), Vec::new());
        for bytes in stream.chunks(step) {
            let each = |frame: &[u8]| {
                assert!(frame.iter().all(|byte| *byte == seen.len() as u8));
                seen.push(frame.len());
                Ok::<_, Malformed>(())
            };
            frames.feed(bytes, each).unwrap();
        }
        prop_assert_eq!(seen, sizes);
    }
}

#[test]
fn lengths_that_no_frame_has_are_refused() {
    for length in [-1, 0, 3, FRAME_BYTES_MAX as i32 + 1, i32::MAX] {
        let fed = Frames::default().feed(&length.to_be_bytes(), |_| Ok(()));
        assert_eq!(fed, Err(Malformed::Length(length)));
    }
    // Even if it arrives in two parts.
    let mut frames = Frames::default();
    frames.feed(&[0x7f], |_| Ok::<_, Malformed>(())).unwrap();
    assert!(frames.feed(&[0xff, 0xff, 0xff], |_| Ok::<_, Malformed>(())).is_err());
}

#[test]
fn a_request_is_framed_and_its_answer_read_back() {
    let client_id = "me";
    let header = Header { version: 4, correlation: 9, client_id };
    let heartbeat = HeartbeatRequest::default()
        .with_group_id(StrBytes::from_static_str("g").into())
        .with_member_id(StrBytes::from_static_str("m"))
        .with_generation_id(3);
    let mut out = vec![1, 2, 3];
    write_request(&mut out, &header, &Request::Heartbeat(heartbeat)).unwrap();
    let expected = [
        0, 0, 0, 23, 0, 12, 0, 4, 0, 0, 0, 9, 0, 2, b'm', b'e', 0, // header
        2, b'g', 0, 0, 0, 3, 2, b'm', 0, 0,
    ];
    assert_eq!(out[3..], expected);

    let mut frame = vec![0, 0, 0, 9, 0];
    HeartbeatResponse::default().with_error_code(27).encode(&mut frame, 4).unwrap();
    assert_eq!(correlation(&frame), Ok(9));
    let Ok(Response::Heartbeat(answer)) = read_response(12, 4, &frame) else { panic!() };
    assert_eq!(answer.error_code, 27);
}

#[test]
fn a_request_that_cannot_be_encoded_appends_nothing() {
    let client_id = StrBytes::from_string("x".repeat(40_000));
    let header = Header { version: 4, correlation: 9, client_id: &client_id };
    let mut out = vec![1];
    assert!(write(&mut out, &header, &messages::HeartbeatRequest::default()).is_err());
    assert_eq!(out, [1]);
}

#[test]
fn the_acquire_mode_stands_before_the_topics() {
    let text = |text: &str| StrBytes::from_string(text.to_owned());
    for group in ["g", &"g".repeat(300)] {
        let request = ShareFetchRequest::default()
            .with_group_id(Some(GroupId(text(group))))
            .with_member_id(Some(text("88dc97e5-aab5-4e3d-bd58-bb03f31a4686")))
            .with_batch_size(0x0a0b_0c0d);
        let acquire = crate::plan::Acquire::RecordLimit;
        let fetch = Request::ShareFetch(crate::member::ShareFetch { request, acquire });
        let [before, after] = [1, 2].map(|version| {
            let (mut bytes, client) = (vec![7], text("c"));
            let header = Header { version, correlation: 5, client_id: &client };
            write_request(&mut bytes, &header, &fetch).unwrap();
            bytes.split_off(1)
        });
        let at = before.windows(4).position(|it| it == [0x0a, 0x0b, 0x0c, 0x0d]).unwrap() + 4;
        let frame =
            Vec::from_iter(before[..at].iter().chain(&[1, 0]).chain(&before[at..]).copied());
        assert_eq!(after[8..], frame[8..]);
        let length = u32::from_be_bytes(*after.first_chunk().unwrap());
        assert_eq!((length as usize, after[4..8].to_vec()), (after.len() - 4, vec![0, 78, 0, 2]));
    }
}

/// The topology of a word count as Kafka 4.3 wrote it, in a record.
const WORD_COUNT: &str = "000000000302300206776f7264730101023877632d4b53545245414d2d41\
    47475245474154452d53544154452d53544f52452d303030303030303030332d7265706172746974696f6e010100\
    02310101021477632d636f756e74732d6368616e67656c6f6700000000ffff020f636c65616e75702e706f6c6963\
    7908636f6d70616374000001023877632d4b53545245414d2d4147475245474154452d53544154452d53544f5245\
    2d303030303030303030332d7265706172746974696f6e00000000ffff030f636c65616e75702e706f6c69637907\
    64656c657465000d726574656e74696f6e2e6d73032d310000010000";

#[test]
fn a_topology_is_written_as_kafka_writes_it() {
    use crate::plan::{InternalTopic, Subtopology, Topology};

    let repartition = "wc-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition";
    let topic = |name: &str| InternalTopic { name: name.into(), partitions: 0 };
    let first = Subtopology {
        sources: vec!["words".into()],
        sinks: vec![repartition.into()],
        ..Subtopology::default()
    };
    let second = Subtopology {
        repartitions: vec![topic(repartition)],
        changelogs: vec![topic("wc-counts-changelog")],
        ..Subtopology::default()
    };
    let topology = std::sync::Arc::new(Topology { subtopologies: vec![first, second] });
    let process_id = StrBytes::from_static_str("p");
    let joins = Joining { rebalance_timeout_ms: 0x11, topology, process_id, endpoint: None };
    let request = StreamsHeartbeat {
        group_id: StrBytes::from_static_str("wc"),
        member_id: StrBytes::from_static_str("m"),
        endpoint_information_epoch: -1,
        joins: Some(joins),
        owned: Some(StreamsTasks::default()),
        ..StreamsHeartbeat::default()
    };
    let (mut out, client_id) = (Vec::new(), StrBytes::from_static_str("c"));
    let header = Header { version: 0, correlation: 9, client_id: &client_id };
    write_request(&mut out, &header, &Request::StreamsHeartbeat(request)).unwrap();
    let digits = WORD_COUNT.replace(' ', "");
    let before = "0058000000000009000163000377630 26d00000000ffffffff00000000001101";
    let after = "010101".to_owned() + "0270" + "ff" + "01" + "0000" + "00" + "00";
    assert_eq!(out[4..], unhex(&format!("{}{digits}{after}", before.replace(' ', ""))));
    assert_eq!(out[..4], (out.len() as u32 - 4).to_be_bytes());
}

#[test]
fn owned_tasks_are_written_by_subtopology() {
    let task = crate::plan::Partition::from;
    let active = vec![task((0, 1)), task((0, 300)), task((1, 0))];
    let owned = StreamsTasks { active, ..StreamsTasks::default() };
    let request = StreamsHeartbeat { owned: Some(owned), ..StreamsHeartbeat::default() };
    let (mut out, client_id) = (Vec::new(), StrBytes::from_static_str("c"));
    let header = Header { version: 0, correlation: 9, client_id: &client_id };
    write_request(&mut out, &header, &Request::StreamsHeartbeat(request)).unwrap();
    let tasks = unhex("03023003000000010000012c0002310200000000000101");
    let absent = unhex("ffffffffff");
    let at = out.windows(5).position(|bytes| bytes == absent).unwrap() + 5;
    assert_eq!(out[at..at + tasks.len()], tasks);
}

#[test]
fn kafkas_answers_to_members_of_streams_groups_are_read() {
    let mut given = 0;
    for (_, version, body) in vectors().into_iter().filter(|(api, ..)| *api == 88) {
        let frame = [&[0, 0, 0, 9, 0], &body[..]].concat();
        let Ok(Response::StreamsHeartbeat(answer)) = read_response(88, version, &frame) else {
            panic!("{body:?}")
        };
        given += answer.active.iter().flatten().flat_map(|tasks| &tasks.partitions).count();
        let error = i16::from_be_bytes([body[4], body[5]]);
        assert_eq!(answer.error_code, error);
    }
    assert!(given > 0);
}
