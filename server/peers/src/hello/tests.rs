//! Hellos there and back, in pieces, cut, and damaged.

use super::*;

fn hello(cluster: &str) -> Hello {
    let from = Identity {
        cluster: cluster.to_owned(),
        node: NodeId(0x0102),
        session: Session(0x0304_0506_0708_090a),
        directory: Uuid([7; 16]),
        shard: 3,
        shards: 4,
        slots: 50,
        transactions_partitions: 51,
        election_timeout_ms: 1_000,
        features: 1,
        clients: Bytes::new(),
    };
    Hello { from, to: (NodeId(2), 1), refusal: 0 }
}

fn read(bytes: &[u8]) -> Result<Option<Hello>, Refusal> {
    HelloBytes::default().take(&mut &*bytes)
}

/// A hello with this version and these bytes after the prefix.
fn sealed(version: u16, rest: &[u8]) -> Vec<u8> {
    let length = (rest.len() as u16).to_be_bytes();
    let bytes = [&HELLO_MAGIC[..], &version.to_be_bytes(), &length].concat();
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes), rest).to_be_bytes();
    [&bytes, &checksum[..], rest].concat()
}

#[test]
fn a_hello_is_read_as_it_was_written() {
    for cluster in ["", "Zk8s", &"~".repeat(CLUSTER_ID_BYTES_MAX)] {
        for refusal in [0, 1, 255] {
            let hello = Hello { refusal, ..hello(cluster) };
            assert_eq!(read(&hello.write()), Ok(Some(hello)));
        }
    }
}

/// The bytes after it belong to the first frame.
#[test]
fn a_hello_arrives_in_pieces_and_leaves_what_follows() {
    let bytes = [hello("c").write(), b"frame".to_vec()].concat();
    for piece in 1..=bytes.len() {
        let (mut gathered, mut left, mut found) = (HelloBytes::default(), Vec::new(), None);
        for mut input in bytes.chunks(piece) {
            if found.is_none() {
                found = gathered.take(&mut input).unwrap();
            }
            left.extend(input);
        }
        assert_eq!((found, &*left), (Some(hello("c")), &b"frame"[..]), "in pieces of {piece}");
    }
}

#[test]
fn a_cut_hello_is_none() {
    let bytes = hello("cluster").write();
    for cut in 0..bytes.len() {
        assert_eq!(read(&bytes[..cut]), Ok(None), "cut at {cut}");
    }
}

#[test]
fn a_flipped_bit_never_makes_another_hello() {
    let bytes = hello("cluster").write();
    for bit in 0..8 * bytes.len() {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let mut padded = damaged.clone();
        padded.resize(HELLO_BYTES_MAX, 0);
        assert!(matches!(read(&damaged), Err(_) | Ok(None)), "bit {bit}");
        assert!(read(&padded).is_err(), "bit {bit}");
    }
}

#[test]
fn what_is_no_hello_is_refused_at_its_first_wrong_byte() {
    for bytes in [&b"GET / HTTP/1.1"[..], &[0x16, 3, 1], &[0, 0, 0, 0x2b, 0, 18], b"mu5"] {
        assert_eq!(read(bytes), Err(Refusal::NotMuster));
    }
}

/// The rest of another version's hello has an unknown form, so it is not read.
#[test]
fn another_version_is_named_by_its_prefix() {
    let bytes = sealed(2, &[1; 500]);
    assert_eq!(read(&bytes[..HELLO_PREFIX_BYTES]), Err(Refusal::Version { theirs: 2, own: 1 }));
}

#[test]
fn fields_that_are_out_of_range_are_refused() {
    let whole = hello("cluster").write()[HELLO_PREFIX_BYTES..].to_vec();
    assert_eq!(read(&sealed(PROTOCOL_VERSION, &whole)), Ok(Some(hello("cluster"))));
    let longer = [&*whole, &[0]].concat();
    let with_shards = |count: u16| [&whole[..5], &count.to_be_bytes(), &whole[7..]].concat();
    let (no_shards, many_shards) = (with_shards(0), with_shards(SHARDS_MAX + 1));
    assert!(matches!(read(&sealed(PROTOCOL_VERSION, &with_shards(SHARDS_MAX))), Ok(Some(_))));
    // The length of the addresses for clients, of which there are none.
    let end = whole.len() - 2;
    let ending_with = |byte: u8| [&whole[..end - 1], &[byte, 0, 0]].concat();
    let at = end - "cluster".len() - 1;
    let long_id = [&whole[..at], &[65], &[b'c'; 65], &[0, 0]].concat();
    let missing = [&whole[..at], &[8], &b"cluster"[..], &[0, 0]].concat();
    let clients = |length: u16, bytes: usize| {
        [&whole[..end], &length.to_be_bytes(), &vec![7; bytes]].concat()
    };
    let most = CLIENTS_BYTES_MAX as u16;
    assert!(read(&sealed(PROTOCOL_VERSION, &clients(most, CLIENTS_BYTES_MAX))).is_ok());
    let many_clients = clients(most + 1, CLIENTS_BYTES_MAX + 1);
    let (cut_clients, no_length) = (clients(3, 2), whole[..end].to_vec());
    // The id is written to the log, so it has no byte that a terminal would obey.
    let unprintable = [0xff, b'\n', b'\x1b', b' ', 0x7f, 0].map(ending_with);
    let others = [many_clients, cut_clients, no_length, vec![]];
    let all = [longer, no_shards, many_shards, long_id, missing].into_iter().chain(others);
    for rest in all.chain(unprintable) {
        assert_eq!(read(&sealed(PROTOCOL_VERSION, &rest)), Err(Refusal::Damaged), "{rest:?}");
    }
    let too_long = sealed(PROTOCOL_VERSION, &vec![0; HELLO_BYTES_MAX - HELLO_PREFIX_BYTES + 1]);
    assert_eq!(read(&too_long[..HELLO_PREFIX_BYTES]), Err(Refusal::Damaged));
}

#[test]
#[should_panic = "no cluster has the id"]
fn a_long_cluster_id_is_not_written() {
    let _ = hello(&"c".repeat(CLUSTER_ID_BYTES_MAX + 1)).write();
}
