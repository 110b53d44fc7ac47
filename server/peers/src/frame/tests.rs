//! Frames in pieces, cut, and damaged.

use super::*;

const TICK: Tick = Tick(0x0102_0304);

fn frame(parts: &[&[u8]]) -> Vec<u8> {
    let mut building = Building::default();
    for part in parts {
        building.put_shared(&Bytes::copy_from_slice(part));
    }
    building.finish(Kind::Groups, TICK).concat()
}

/// Checks the bytes as one input.
fn read(bytes: &[u8]) -> Result<Option<Frame>, FrameError> {
    Frames::default().take(&mut &*bytes)
}

fn sealed(length: u32, rest: &[u8]) -> Vec<u8> {
    let length = length.to_be_bytes();
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&length), rest);
    [&length, &checksum.to_be_bytes(), rest].concat()
}

#[test]
fn long_parts_are_shared_and_short_ones_copied() {
    let long = Bytes::from(vec![7; COPIED_BYTES_MAX + 1]);
    let mut building = Building::default();
    building.put(b"a");
    building.put_shared(&Bytes::from_static(b"short"));
    building.put_shared(&long);
    building.put_shared(&long);
    building.put(b"b");
    assert_eq!(building.len(), HEAD_BYTES + 7 + 2 * long.len());
    let pieces = building.finish(Kind::Groups, TICK);
    let lengths: Vec<usize> = pieces.iter().map(Bytes::len).collect();
    assert_eq!(lengths, [HEAD_BYTES + 6, long.len(), long.len(), 1]);
    assert!(pieces[1].as_ptr() == long.as_ptr() && pieces[2].as_ptr() == long.as_ptr());
    let whole = pieces.concat();
    let read = read(&whole).unwrap().unwrap();
    assert_eq!((read.kind, read.tick), (Kind::Groups, TICK));
    assert_eq!(*read.body, whole[HEAD_BYTES..]);
}

#[test]
fn a_frame_may_end_with_shared_bytes() {
    let mut building = Building::default();
    assert!(building.is_empty());
    building.put_shared(&Bytes::from(vec![7; COPIED_BYTES_MAX + 1]));
    assert!(!building.is_empty());
    let pieces = building.finish(Kind::Groups, TICK);
    assert_eq!(pieces.len(), 2);
    assert!(read(&pieces.concat()).unwrap().is_some());
}

#[test]
fn frames_arrive_in_any_pieces() {
    let bodies: Vec<Vec<u8>> = [0, 1, 5, 3_000].iter().map(|it| vec![*it as u8; *it]).collect();
    let bytes: Vec<u8> = bodies.iter().flat_map(|it| frame(&[it])).collect();
    for piece in [1, 2, 3, 7, 8, 13, 14, 1_000, bytes.len()] {
        let (mut frames, mut found) = (Frames::default(), Vec::new());
        for mut input in bytes.chunks(piece) {
            while let Some(it) = frames.take(&mut input).unwrap() {
                found.push(it.body.to_vec());
            }
            assert_eq!(input, b"");
        }
        assert_eq!(found, bodies, "in pieces of {piece}");
        assert_eq!(frames.held(), 0);
    }
}

#[test]
fn a_cut_frame_is_none() {
    let bytes = frame(&[b"body", b"more"]);
    for cut in 0..bytes.len() {
        assert_eq!(read(&bytes[..cut]), Ok(None), "cut at {cut}");
    }
}

/// A frame with a greater length waits for more bytes, and then its checksum is wrong.
#[test]
fn a_flipped_bit_never_makes_another_frame() {
    let bytes = frame(&[b"body"]);
    let next = frame(&[&[0; 300]]);
    for bit in 0..8 * bytes.len() {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let damaged = [damaged, next.clone()].concat();
        let read = read(&damaged);
        assert!(matches!(read, Err(_) | Ok(None)), "bit {bit}: {read:?}");
    }
}

#[test]
fn each_refusal_has_its_reason() {
    let too_long = FRAME_BYTES_MAX as u32;
    let table = [
        (sealed(4, &[1, 0, 0, 0]), FrameError::Length(4), "a frame with a length of 4 bytes"),
        (
            sealed(too_long, &[]),
            FrameError::Length(too_long),
            "a frame with a length of 16777216 bytes",
        ),
        (sealed(5, &[2, 0, 0, 0, 1]), FrameError::UnknownKind(2), "a frame of the unknown kind 2"),
        (sealed(5, &[1, 0, 0, 0, 0]), FrameError::NoTick, "a frame without a tick"),
        (
            [vec![0, 0, 0, 5, 0, 0, 0, 0], vec![1, 0, 0, 0, 1]].concat(),
            FrameError::Checksum,
            "a frame with a wrong checksum",
        ),
    ];
    for (bytes, error, sentence) in table {
        assert_eq!(read(&bytes), Err(error));
        assert_eq!(error.to_string(), sentence);
    }
    let why = FrameError::from(DecodeError::UnexpectedEnd).to_string();
    assert_eq!(why, "a message that cannot be read: it ends too early");
}

/// A length is refused before memory is reserved for it, and a frame holds no more than its length.
#[test]
fn memory_follows_a_checked_length() {
    let mut frames = Frames::default();
    let refused = frames.take(&mut &[0xff; 8][..]);
    assert_eq!(refused, Err(FrameError::Length(u32::MAX)));
    assert_eq!(frames.held(), PREFIX_BYTES);
    let mut frames = Frames::default();
    frames.take(&mut &frame(&[&[0; 2_000]])[..20]).unwrap();
    assert!(frames.held() < 2_100, "{}", frames.held());
}

#[test]
#[should_panic = "a frame of 16777217 bytes"]
fn a_frame_is_never_too_long() {
    let mut building = Building::default();
    building.put_shared(&Bytes::from(vec![0; FRAME_BYTES_MAX - HEAD_BYTES + 1]));
    building.finish(Kind::Groups, TICK);
}
