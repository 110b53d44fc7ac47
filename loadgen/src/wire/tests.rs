//! Frames and answers: whole, cut and hostile.

use std::io::Read;

use kafka_protocol::protocol::Encodable;
use muster_codec::messages::{ApiVersionsRequest, HeartbeatRequest, MetadataRequest};
use proptest::prelude::*;

use super::*;

/// Answers as `(api, version, body)`, which Kafka's own serializer wrote.
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
fn every_answer_of_kafka_is_read() {
    let mut read = std::collections::BTreeSet::new();
    for (api, version, body) in vectors() {
        let Some(api) = ApiKey::from_key(api).filter(|api| versions(*api).contains(&version))
        else {
            continue;
        };
        let mut frame = vec![0; 4];
        if api.flexible_response_header(version) {
            frame.push(0);
        }
        frame.extend(body);
        let answer = read_response(api, version, &frame).unwrap();
        let mut written = Vec::new();
        answer.write(version, &mut written).unwrap();
        assert!(frame.ends_with(&written), "{} version {version}", api.name());
        read.insert(api);
    }
    assert!(read.len() > 32, "{read:?}");
}

#[test]
fn a_truncated_answer_is_refused() {
    for (_, version, body) in vectors().into_iter().filter(|(api, ..)| *api == 11) {
        for end in 0..body.len() {
            let frame = [&[0; 5][..4 + usize::from(version >= 6)], &body[..end]].concat();
            assert!(read_response(ApiKey::JoinGroup, version, &frame).is_err(), "{version}: {end}");
        }
    }
}

/// If an answer announces too many elements, reading fails before memory is reserved.
#[test]
fn the_arrays_of_an_answer_have_a_limit() {
    // OffsetCommit v2: correlation id, 32 Mi topics of at least 40 bytes in memory.
    let announced = 32 << 20;
    let mut frame = vec![0; 4];
    frame.extend_from_slice(&i32::to_be_bytes(announced));
    frame.resize(FRAME_BYTES_MAX, 0);
    let error = read_response(ApiKey::OffsetCommit, 2, &frame).unwrap_err();
    assert_eq!(error, Malformed::Body(DecodeError::LengthTooLong.to_string()));
}

#[test]
fn a_length_that_exceeds_the_bytes_is_refused_before_memory_is_reserved() {
    // Metadata v12: correlation id, no tags, throttle time, 2^32 - 2 brokers.
    let frame = [0, 0, 0, 7, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f];
    assert!(read::<MetadataRequest<'_>>(12, &frame).is_err());
    // ApiVersions v3: the same number in the only tagged field, which has tag 0 and 5 bytes.
    let frame = [0, 0, 0, 7, 0, 0, 1, 0, 0, 0, 0, 1, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x0f];
    assert!(read::<ApiVersionsRequest<'_>>(3, &frame).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(
        api in 0i16..90, version in 0i16..14, frame in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        if let Some(api) = ApiKey::from_key(api) {
            let _ = read_response(api, version, &frame);
        }
        let _ = read::<MetadataRequest<'_>>(version, &frame);
        let _ = read::<ApiVersionsRequest<'_>>(version.min(4), &frame);
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
    // The same if the bytes arrive in two parts.
    let mut frames = Frames::default();
    frames.feed(&[0x7f], |_| Ok::<_, Malformed>(())).unwrap();
    assert!(frames.feed(&[0xff, 0xff, 0xff], |_| Ok::<_, Malformed>(())).is_err());
}

#[test]
fn a_request_is_framed_and_its_answer_read_back() {
    let header = Header { version: 4, correlation: 9, client_id: "me" };
    let heartbeat = HeartbeatRequest {
        group_id: "g".into(),
        member_id: "m".into(),
        generation_id: 3,
        group_instance_id: None,
    };
    let mut out = vec![1, 2, 3];
    write_request(&mut out, &header, &heartbeat.into()).unwrap();
    let expected = [
        0, 0, 0, 23, 0, 12, 0, 4, 0, 0, 0, 9, 0, 2, b'm', b'e', 0, // header
        2, b'g', 0, 0, 0, 3, 2, b'm', 0, 0,
    ];
    assert_eq!(out[3..], expected);

    let mut frame = vec![0, 0, 0, 9, 0];
    let answer = kafka_protocol::messages::HeartbeatResponse::default().with_error_code(27);
    answer.encode(&mut frame, 4).unwrap();
    assert_eq!(correlation(&frame), Ok(9));
    let Ok(Response::Heartbeat(answer)) = read_response(ApiKey::Heartbeat, 4, &frame) else {
        panic!()
    };
    assert_eq!(answer.error_code, 27);
}

#[test]
fn a_request_that_cannot_be_encoded_appends_nothing() {
    let long = "x".repeat(40_000);
    let mut out = vec![1];
    let mut write = |header: &Header<'_>, request: HeartbeatRequest<'static>| {
        let errors = [write(&mut out, header, &request), {
            write_request(&mut out, header, &request.into())
        }];
        assert!(errors.iter().all(Result::is_err), "{errors:?}");
        assert_eq!(out, [1]);
    };
    let header = Header { version: 4, correlation: 9, client_id: "c" };
    write(&Header { client_id: &long, ..header }, HeartbeatRequest::default());
    write(&Header { version: 5, ..header }, HeartbeatRequest::default());
    write(&header, HeartbeatRequest { group_id: long.clone().into(), ..Default::default() });
}
