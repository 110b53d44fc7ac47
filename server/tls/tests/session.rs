//! Sessions with a rustls client at the other end.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Link, NOW, Pair, ca, client_config, pair, session, settings};
use muster_tls::limits::{HANDSHAKE_BYTES_MAX, RECORD_BYTES_MAX, SMALL_RECORDS_MAX};
use muster_tls::{ClientAuth, Failed, Output, Tls};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, SupportedProtocolVersion};
use std::io::Write;
use std::sync::Arc;

fn plain(version: &'static SupportedProtocolVersion) -> (Tls, Arc<ClientConfig>) {
    let ca = ca("ca");
    let tls = settings(&pair(&ca, "server")).load(NOW).unwrap();
    (tls, Arc::new(client_config(&ca, &[version], None)))
}

#[test]
fn all_bytes_arrive_in_both_directions_in_any_pieces() {
    for (version, name) in [(&TLS12, "TLSv1.2"), (&TLS13, "TLSv1.3")] {
        let (tls, config) = plain(version);
        for seed in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut link = Link::new(&tls, &config);
            let most = [1, 7, 100, 5_000, 70_000][seed as usize % 5];
            let mut sizes = random.clone();
            let mut max = move || sizes.usize(1..=most);
            // Depending on the seed, a record may arrive byte by byte.
            link.run(&mut max).unwrap();
            assert_eq!(link.session.protocol().unwrap().0, name);
            let (mut requests, mut answers) = (Vec::new(), Vec::new());
            let mut got_requests = Vec::new();
            for _ in 0..6 {
                let request: Vec<u8> =
                    (0..random.usize(4..40_000)).map(|_| random.u8(..)).collect();
                let answer: Vec<u8> = (0..random.usize(1..80_000)).map(|_| random.u8(..)).collect();
                link.client.writer().write_all(&request).unwrap();
                link.session.encrypt(&answer, &mut link.out).unwrap();
                link.run(&mut max).unwrap();
                got_requests.append(&mut link.out.plain);
                requests.extend(request);
                answers.extend(answer);
                assert!(link.session.held() < RECORD_BYTES_MAX);
            }
            assert!(got_requests == requests && link.answers == answers, "seed {seed}, {name}");
            assert_eq!(link.session.held(), 0);
        }
    }
}

#[test]
fn a_client_that_ends_in_order_is_seen_and_so_is_the_server() {
    let (tls, config) = plain(&TLS13);
    let mut link = Link::new(&tls, &config);
    link.connect().unwrap();
    link.client.writer().write_all(b"last").unwrap();
    link.client.send_close_notify();
    link.connect().unwrap();
    assert!(link.session.has_ended());
    assert_eq!(link.out.plain, b"last");
    link.session.encrypt(b"answer", &mut link.out).unwrap();
    link.session.close(&mut link.out);
    link.connect().unwrap();
    assert!(link.is_closed);
    assert_eq!(link.answers, b"answer");
}

#[test]
fn sessions_are_resumed() {
    for version in [&TLS12, &TLS13] {
        let (tls, config) = plain(version);
        for is_resumed in [false, true, true] {
            let mut link = Link::new(&tls, &config);
            link.connect().unwrap();
            // In TLS 1.3 the ticket follows the handshake.
            link.session.encrypt(b"answer", &mut link.out).unwrap();
            link.connect().unwrap();
            assert_eq!(link.session.is_resumed(), is_resumed);
        }
    }
}

#[test]
fn clients_without_tls_are_known_by_their_first_bytes() {
    let (tls, _) = plain(&TLS13);
    for bytes in [&b"\0\0\0\x20\0\x12\0\x03"[..], b"GET / HTTP/1.1\r\n", b"\x17\x03\x03\0\x01"] {
        let failed = session(&tls).receive(bytes, &mut Output::default()).unwrap_err();
        assert_eq!(failed, Failed::NotTls(bytes.to_vec()));
    }
}

#[test]
fn a_handshake_has_a_limit_of_bytes_and_of_records() {
    let (tls, _) = plain(&TLS13);
    // The start of a 64 KiB ClientHello, in records of 16 KiB.
    let mut record = vec![22, 3, 1, 0x40, 0];
    record.extend([1, 0, 0xff, 0xff]);
    record.resize(5 + 0x4000, 0);
    let (mut session_, mut out, mut sent) = (session(&tls), Output::default(), 0);
    let failed = loop {
        sent += record.len();
        match session_.receive(&record, &mut out).and_then(|_| session_.advance(&mut out)) {
            Ok(()) => assert!(sent <= HANDSHAKE_BYTES_MAX),
            Err(failed) => break failed,
        }
    };
    assert!(failed.to_string().contains("a handshake of over"), "{failed}");
    let mut session_ = session(&tls);
    let tiny: Vec<u8> = [22, 3, 1, 0, 1, 1].repeat(100);
    let failed = session_.receive(&tiny, &mut out).unwrap_err();
    assert!(failed.to_string().contains("in 100 records"), "{failed}");
}

#[test]
fn records_of_a_byte_end_the_session() {
    let (tls, config) = plain(&TLS13);
    let mut link = Link::new(&tls, &config);
    link.connect().unwrap();
    let result = (0..10 * SMALL_RECORDS_MAX).find_map(|_| {
        link.client.writer().write_all(b"x").unwrap();
        link.connect().err()
    });
    assert_eq!(result.unwrap(), "TLS: the client sends records of a few bytes");
}

#[test]
fn a_damaged_record_ends_the_session_with_an_alert() {
    let (tls, config) = plain(&TLS13);
    let mut link = Link::new(&tls, &config);
    link.connect().unwrap();
    link.client.writer().write_all(b"request").unwrap();
    link.client.write_tls(&mut link.to_session).unwrap();
    *link.to_session.last_mut().unwrap() ^= 1;
    let bytes = std::mem::take(&mut link.to_session);
    assert!(link.session.receive(&bytes, &mut link.out).unwrap());
    let failed = link.session.advance(&mut link.out).unwrap_err();
    assert!(matches!(failed, Failed::Refused(_)));
    let error = link.connect().unwrap_err();
    assert!(error.contains("BadRecordMac"), "{error}");
}

/// Damages bytes of a handshake or of later records, and delivers them in pieces of any length.
/// rustls panics if a later call gets other bytes than before. So this also tests how the session
/// treats input that is left after a failure, and incomplete messages.
#[test]
fn damaged_bytes_are_refused_or_waited_for() {
    for (version, is_open) in [(&TLS12, false), (&TLS13, false), (&TLS12, true), (&TLS13, true)] {
        let (tls, config) = plain(version);
        for seed in 0..400 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut link = Link::new(&tls, &config);
            if is_open {
                link.connect().unwrap();
                link.client.writer().write_all(&[7; 3_000]).unwrap();
                link.client.send_close_notify();
            }
            while link.client.wants_write() {
                link.client.write_tls(&mut link.to_session).unwrap();
            }
            let mut bytes = std::mem::take(&mut link.to_session);
            for _ in 0..random.usize(0..6) {
                let at = random.usize(..bytes.len());
                match random.u8(..4) {
                    0 => bytes[at] = random.u8(..),
                    1 => bytes[at] ^= 1 << random.u8(..8),
                    2 => bytes.truncate(at.max(1)),
                    _ => bytes.extend_from_within(at..),
                }
            }
            let most = if random.bool() { 50 } else { 100_000 };
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(random.usize(1..=most).min(rest.len()));
                let result = link.session.receive(piece, &mut link.out);
                // The server may have an answer at any time, even after a failure of the session.
                let _ = link.session.encrypt(b"answer", &mut link.out);
                let _ = result.and_then(|_| link.session.advance(&mut link.out));
                let held = link.session.held();
                assert!(held <= HANDSHAKE_BYTES_MAX + bytes.len(), "seed {seed}");
                rest = after;
            }
            link.session.close(&mut link.out);
        }
    }
}

/// A message of the handshake comes in several records. rustls then remembers positions in the
/// input, which must stay right.
#[test]
fn messages_may_be_cut_into_records() {
    let (tls, config) = plain(&TLS13);
    for size in [1, 3, 40, 200] {
        let mut link = Link::new(&tls, &config);
        link.client.write_tls(&mut link.to_session).unwrap();
        let hello = std::mem::take(&mut link.to_session);
        let pieces = hello[5..].chunks(size.max(hello.len() / 60 + 1));
        for piece in pieces {
            let mut record = vec![22, 3, 1, 0, piece.len() as u8];
            record.extend_from_slice(piece);
            link.session.receive(&record, &mut link.out).unwrap();
            link.session.advance(&mut link.out).unwrap();
        }
        link.connect().unwrap();
        assert!(!link.session.is_handshaking());
    }
}

#[test]
fn clients_show_certificates_as_they_are_asked_for() {
    let (ca, foreign) = (ca("ca"), ca("foreign"));
    let (known, unknown) = (pair(&ca, "client"), pair(&foreign, "client"));
    let mut settings = settings(&pair(&ca, "server"));
    settings.trust_store.certificates = Some(ca.pem());
    for version in [&TLS12, &TLS13] {
        for (auth, identity, expected) in [
            (ClientAuth::None, Some(&known), Ok(None)),
            (ClientAuth::Requested, None, Ok(None)),
            (ClientAuth::Requested, Some(&known), Ok(Some("CN=client"))),
            (ClientAuth::Requested, Some(&unknown), Err("UnknownIssuer")),
            (ClientAuth::Required, Some(&known), Ok(Some("CN=client"))),
            (ClientAuth::Required, Some(&unknown), Err("UnknownIssuer")),
            (ClientAuth::Required, None, Err("no certificate")),
        ] {
            settings.client_auth = auth;
            let tls = settings.load(NOW).unwrap();
            let config = Arc::new(client_config(&ca, &[version], identity));
            let mut link = Link::new(&tls, &config);
            let result = link.connect();
            let name = link.session.peer_certificate().map(|it| tls.principal(it).unwrap());
            match (result, expected) {
                (Ok(()), Ok(expected)) => assert_eq!(name.as_deref(), expected),
                (Err(error), Err(words)) => {
                    let [error, words] = [error, words.to_owned()].map(|it| it.to_lowercase());
                    assert!(error.contains(&words), "{error}");
                }
                (result, expected) => panic!("{auth:?}: {result:?}, not {expected:?}"),
            }
        }
    }
}

#[test]
fn a_resumed_session_has_the_certificate_of_the_first() {
    let ca = ca("ca");
    let mut settings = settings(&pair(&ca, "server"));
    settings.trust_store.certificates = Some(ca.pem());
    settings.client_auth = ClientAuth::Required;
    let tls = settings.load(NOW).unwrap();
    let config = Arc::new(client_config(&ca, &[&TLS13], Some(&pair(&ca, "client"))));
    for is_resumed in [false, true] {
        let mut link = Link::new(&tls, &config);
        link.connect().unwrap();
        assert_eq!(link.session.is_resumed(), is_resumed);
        assert_eq!(tls.principal(link.session.peer_certificate().unwrap()).unwrap(), "CN=client");
    }
}

#[test]
fn a_certificate_in_the_trust_store_is_trusted_as_it_is() {
    // A self-signed certificate, as `keytool -genkeypair` creates it. webpki rejects it.
    let (ca, own) = (ca("ca"), ca("own"));
    let identity = Pair {
        key: own.key().serialize_pem(),
        certificate: own.pem(),
        key_der: own.key().serialize_der(),
        certificate_der: own.der().to_vec(),
    };
    let mut settings = settings(&pair(&ca, "server"));
    settings.trust_store.certificates = Some(own.pem());
    settings.client_auth = ClientAuth::Required;
    let tls = settings.load(NOW).unwrap();
    let config = Arc::new(client_config(&ca, &[&TLS13], Some(&identity)));
    Link::new(&tls, &config).connect().unwrap();
}

#[test]
fn versions_and_suites_are_as_set() {
    let ca = ca("ca");
    let mut settings = settings(&pair(&ca, "server"));
    settings.protocols = vec!["TLSv1.2".to_owned()];
    settings.cipher_suites = vec!["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256".to_owned()];
    let tls = settings.load(NOW).unwrap();
    let config = Arc::new(client_config(&ca, &[&TLS12, &TLS13], None));
    let mut link = Link::new(&tls, &config);
    link.connect().unwrap();
    let expected = ("TLSv1.2", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256");
    assert_eq!(link.session.protocol(), Some(expected));
    let newer = Arc::new(client_config(&ca, &[&TLS13], None));
    assert!(Link::new(&tls, &newer).connect().is_err());
}
