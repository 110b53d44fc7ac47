//! Frames and answers of the wire, whole, cut and hostile.

use std::io::Read;

use kafka_protocol::messages::*;
use kafka_protocol::protocol::Encodable;
use proptest::prelude::*;

use super::*;

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
    assert_eq!(walked.len(), 31, "{walked:?}");
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
    assert!(read::<MetadataRequest>(12, &frame).is_err());
    // ApiVersions v3: the same in a tagged field, of which there is one: tag 0, 5 bytes.
    let frame = [0, 0, 0, 7, 0, 0, 1, 0, 0, 0, 0, 1, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x0f];
    assert!(read::<ApiVersionsRequest>(3, &frame).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(
        api in 0i16..90, version in 0i16..14, frame in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = read_response(api, version, &frame);
        let _ = read::<MetadataRequest>(version, &frame);
        let _ = read::<ApiVersionsRequest>(version.min(4), &frame);
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
    let client_id = StrBytes::from_static_str("me");
    let header = Header { version: 4, correlation: 9, client_id: &client_id };
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
    assert!(write(&mut out, &header, &HeartbeatRequest::default()).is_err());
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
