//! Authentication of clients by PLAIN and SCRAM: requests in a wrong order, delayed refusals, and
//! users in the log.

mod keys_over_https;
mod oauthbearer;

use crate::support::{self, Client, PATIENCE, Server, binary, free_ports, said};
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Request, Response};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

const PLAIN: &str = "listener.name.outside.plain.sasl.jaas.config=\
                     org.apache.kafka.common.security.plain.PlainLoginModule required \
                     user_alice=\"secret\" user_bob=\"secret\";";
const ALICE: &[u8] = b"\0alice\0secret";
const WRONG: &[u8] = b"\0alice\0other";

/// The configs of two listeners: one without passwords, and one with PLAIN and SCRAM.
fn configs(inside: u16, outside: u16) -> Vec<String> {
    let listeners = format!("listeners=INSIDE://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside}");
    let rest = [
        "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:SASL_PLAINTEXT",
        "listener.name.outside.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
        PLAIN,
        "connection.failed.authentication.delay.ms=300",
    ];
    std::iter::once(listeners).chain(rest.map(str::to_owned)).collect()
}

/// A server, and the port of its listener with passwords.
fn server(data: &Path, more: &[&str]) -> (Server, u16) {
    let (inside, outside) = (free_ports(1), free_ports(1));
    let configs = configs(inside, outside);
    let arguments: Vec<&str> =
        configs.iter().map(String::as_str).chain(more.iter().copied()).collect();
    (Server::with_arguments(data, inside, 1, &arguments), outside)
}

fn handshake(client: &mut Client, version: i16, mechanism: &'static str) -> ErrorCode {
    let request = SaslHandshakeRequest { mechanism: mechanism.into() };
    let Response::SaslHandshake(body) = client.call(version, request.into()) else { panic!() };
    ErrorCode::from_code(body.error_code).unwrap()
}

fn authenticate(client: &mut Client, token: &[u8]) -> SaslAuthenticateResponse<'static> {
    let request = SaslAuthenticateRequest { auth_bytes: token.to_vec().into() };
    let Response::SaslAuthenticate(body) = client.call(2, request.into()) else { panic!() };
    body
}

/// Whether the server answers a request of this client.
fn is_served(client: &mut Client) -> bool {
    client.try_call(12, MetadataRequest::default().into()).is_some()
}

#[track_caller]
fn logs_in(port: u16, token: &[u8]) -> Client {
    let mut client = Client::connect(port);
    assert_eq!(handshake(&mut client, 1, "PLAIN"), ErrorCode::None);
    let answer = authenticate(&mut client, token);
    assert_eq!((answer.error_code, answer.error_message.as_deref()), (0, Some("")), "as in Kafka");
    assert!(is_served(&mut client));
    client
}

#[test]
fn requests_are_served_after_authentication_only() {
    let data = tempfile::tempdir().unwrap();
    let (server, outside) = server(data.path(), &[]);
    assert!(is_served(&mut server.client(0)), "INSIDE asks for no password");
    logs_in(outside, ALICE);
    assert!(!is_served(&mut Client::connect(outside)));
    server.says("Metadata came before authentication: listener OUTSIDE");
    let versions = || {
        Request::from(ApiVersionsRequest {
            client_software_name: "test".into(),
            client_software_version: "1".into(),
            ..Default::default()
        })
    };
    let mut client = Client::connect(outside);
    assert!(client.try_call(3, versions()).is_some());
    assert!(client.try_call(3, versions()).is_none(), "once, as in Kafka");
    let mut client = Client::connect(outside);
    assert!(client.try_call(2, SaslAuthenticateRequest::default().into()).is_none());
}

#[test]
fn a_wrong_password_is_answered_after_a_delay_and_the_connection_closed() {
    let data = tempfile::tempdir().unwrap();
    let (server, outside) = server(data.path(), &[]);
    let mut client = Client::connect(outside);
    assert_eq!(handshake(&mut client, 1, "PLAIN"), ErrorCode::None);
    let began = Instant::now();
    let answer = authenticate(&mut client, WRONG);
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
    assert_eq!(answer.error_code, ErrorCode::SaslAuthenticationFailed.code());
    let words = "Authentication failed: Invalid username or password";
    assert_eq!(answer.error_message.as_deref(), Some(words));
    assert!(!is_served(&mut client));
    server.says(
        "WARN authentication failed user=alice host=/127.0.0.1 listener=OUTSIDE \
         mechanism=\"PLAIN\" reason=\"wrong name or password\"",
    );
    assert_eq!(server.lines_with("other"), 0, "no password is logged");
    logs_in(outside, ALICE);
}

#[test]
fn mechanisms_and_states_out_of_order_have_kafkas_errors() {
    let data = tempfile::tempdir().unwrap();
    let (server, outside) = server(data.path(), &[]);
    for mechanism in ["SCRAM-SHA-512", "GSSAPI", ""] {
        let mut client = Client::connect(outside);
        let error = handshake(&mut client, 1, mechanism);
        assert_eq!(error, ErrorCode::UnsupportedSaslMechanism, "{mechanism}");
        assert!(!is_served(&mut client));
    }
    let mut client = Client::connect(outside);
    assert_eq!(handshake(&mut client, 1, "PLAIN"), ErrorCode::None);
    assert_eq!(handshake(&mut client, 1, "PLAIN"), ErrorCode::IllegalSaslState);
    // The same errors for a client that need not authenticate, and for one that already has.
    for mut client in [server.client(0), logs_in(outside, ALICE)] {
        assert_eq!(handshake(&mut client, 1, "PLAIN"), ErrorCode::IllegalSaslState);
        assert_eq!(authenticate(&mut client, ALICE).error_code, ErrorCode::IllegalSaslState.code());
        assert!(is_served(&mut client));
    }
    let line = server.line_with("SaslHandshake was refused");
    let by = "principal=User:ANONYMOUS host=/127.0.0.1 listener=INSIDE";
    assert!(line.contains(" WARN ") && line.ends_with(by), "{line}");
}

#[test]
fn tokens_stand_alone_after_a_handshake_of_version_0() {
    let data = tempfile::tempdir().unwrap();
    let (_server, outside) = server(data.path(), &[]);
    let alone = |token: &[u8]| {
        let mut client = Client::connect(outside);
        assert_eq!(handshake(&mut client, 0, "PLAIN"), ErrorCode::None);
        client.send_raw(&[&(token.len() as u32).to_be_bytes(), token].concat());
        (client.receive_frame(), client)
    };
    let (answer, mut client) = alone(ALICE);
    assert_eq!(answer, Some(Vec::new()));
    assert!(is_served(&mut client));
    assert_eq!(alone(WRONG).0, None);
}

#[test]
fn frames_before_authentication_are_short() {
    let data = tempfile::tempdir().unwrap();
    let (server, outside) = server(data.path(), &["sasl.server.max.receive.size=1000"]);
    let mut client = Client::connect(outside);
    client.send_raw(&1_001u32.to_be_bytes());
    assert_eq!(client.receive_frame(), None);
    server.says("a frame of 1001 bytes before authentication");
    logs_in(outside, ALICE);
}

#[test]
fn sessions_end_unless_the_client_authenticates_again() {
    let data = tempfile::tempdir().unwrap();
    let reauth = "listener.name.outside.plain.connections.max.reauth.ms=2000";
    let (server, outside) = server(data.path(), &[reauth]);
    let mut client = Client::connect(outside);
    handshake(&mut client, 1, "PLAIN");
    let answer = authenticate(&mut client, ALICE);
    assert_eq!((answer.error_code, answer.session_lifetime_ms), (0, 2_000));
    let deadline = Instant::now() + Duration::from_millis(2_500);
    assert_eq!(handshake(&mut client, 1, "PLAIN"), ErrorCode::None, "again");
    assert_eq!(authenticate(&mut client, ALICE).error_code, 0);
    assert_eq!(handshake(&mut client, 1, "PLAIN"), ErrorCode::IllegalSaslState, "too soon");
    while Instant::now() < deadline && is_served(&mut client) {}
    let began = Instant::now();
    while is_served(&mut client) {
        assert!(began.elapsed() < PATIENCE);
    }
    server.says("User:alice did not authenticate again in time");
    let mut client = Client::connect(outside);
    handshake(&mut client, 1, "PLAIN");
    authenticate(&mut client, ALICE);
    handshake(&mut client, 1, "PLAIN");
    let answer = authenticate(&mut client, b"\0bob\0secret");
    assert_eq!(answer.error_code, ErrorCode::SaslAuthenticationFailed.code());
    assert!(answer.error_message.unwrap().contains("Cannot change principals"));
    for (mechanism, is_answered) in [("SCRAM-SHA-256", true), ("GSSAPI", false)] {
        let mut client = logs_in(outside, ALICE);
        let request = SaslHandshakeRequest { mechanism: mechanism.into() };
        assert_eq!(client.try_call(1, request.into()).is_some(), is_answered, "{mechanism}");
        let request = SaslAuthenticateRequest { auth_bytes: ALICE.to_vec().into() };
        assert!(client.try_call(2, request.into()).is_none(), "{mechanism}");
    }
}

#[test]
fn configs_that_let_no_client_in_are_refused() {
    let data = tempfile::tempdir().unwrap();
    for (config, words) in [
        ("listener.name.outside.sasl.enabled.mechanisms=GSSAPI", "muster serves PLAIN, SCRAM"),
        ("listener.name.outside.plain.sasl.jaas.config=Module required secret", "plain.sasl.jaas"),
        ("connection.failed.authentication.delay.ms=700000", "should always be less than"),
        ("listener.name.outside.sasl.server.max.receive.size=0", "receive.size=0"),
    ] {
        let mut command = binary();
        command.args(["serve", "--shards", "1", "--data"]).arg(data.path());
        let output = command.args(configs(1, 2)).arg(config).output().unwrap();
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(words) && !text.contains("secret"), "{config}: {text}");
    }
}

/// Runs `muster user`, with a password on its standard input.
fn user(data: &Path, arguments: &[&str], password: &str) -> (bool, String) {
    let mut command = binary();
    command.arg("user").arg(data).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    process.stdin.take().unwrap().write_all(password.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    (output.status.success(), said(&output))
}

fn described(client: &mut Client) -> Vec<(String, Vec<(i8, i32)>)> {
    let request = DescribeUserScramCredentialsRequest { users: None };
    let Response::DescribeUserScramCredentials(body) = client.call(0, request.into()) else {
        panic!()
    };
    let infos = |infos: Vec<ScramCredentialInfo>| {
        infos.iter().map(|it| (it.mechanism, it.iterations)).collect()
    };
    body.results.into_iter().map(|it| (it.user.into(), infos(it.credential_infos))).collect()
}

#[test]
fn users_are_in_the_log_and_may_be_added_offline() {
    let data = tempfile::tempdir().unwrap();
    let (mut running, _) = server(data.path(), &[]);
    let upsertion = ScramCredentialUpsertion {
        name: "alice".into(),
        mechanism: 2,
        iterations: 8_192,
        salt: b"salt".to_vec().into(),
        salted_password: b"salted password".to_vec().into(),
    };
    let request =
        AlterUserScramCredentialsRequest { deletions: Vec::new(), upsertions: vec![upsertion] };
    let mut client = running.client(0);
    let Response::AlterUserScramCredentials(body) = client.call(0, request.into()) else {
        panic!()
    };
    assert_eq!((&*body.results[0].user, body.results[0].error_code), ("alice", 0));
    running.kill();
    drop(running);
    assert_eq!(user(data.path(), &["add", "bob"], "pencil\n"), (true, String::new()));
    let (is_set, words) = user(data.path(), &["add", "carol"], "\n");
    assert!(!is_set && words.contains("the password is empty"), "{words}");
    let (_, list) = user(data.path(), &["list"], "");
    let expected = "alice: SCRAM-SHA-512, 8192 iterations\nbob: SCRAM-SHA-256, 4096 iterations\n";
    assert_eq!(list, expected);
    let (running, outside) = server(data.path(), &[]);
    let expected = [("alice".to_owned(), vec![(2, 8_192)]), ("bob".to_owned(), vec![(1, 4_096)])];
    assert_eq!(described(&mut running.client(0)), expected);
    let mut client = Client::connect(outside);
    assert_eq!(handshake(&mut client, 1, "SCRAM-SHA-256"), ErrorCode::None);
    let first = authenticate(&mut client, b"n,,n=bob,r=abc");
    assert!(first.auth_bytes.starts_with(b"r=abc"), "{first:?}");
    assert!(first.auth_bytes.ends_with(b",i=4096"));
    let last = authenticate(&mut client, b"c=biws,r=abc,p=AAAA");
    assert_eq!(last.error_code, ErrorCode::SaslAuthenticationFailed.code());
    assert_eq!(
        last.error_message.as_deref(),
        Some(
            "Authentication failed during authentication due to invalid credentials with SASL \
             mechanism SCRAM-SHA-256"
        )
    );
    drop(running);
    assert!(user(data.path(), &["remove", "bob"], "").0);
    let (is_removed, words) = user(data.path(), &["remove", "bob"], "");
    assert!(!is_removed && words.contains("does not exist"), "{words}");
}

#[test]
fn a_flood_of_connections_that_do_not_authenticate_keeps_no_other_out() {
    let data = tempfile::tempdir().unwrap();
    let (server, outside) = server(data.path(), &[]);
    let idle: Vec<_> = (0..4_200).filter_map(|_| Client::try_connect(outside)).collect();
    logs_in(outside, ALICE);
    server.says("newer clients are not authenticated");
    assert!(is_served(&mut server.client(0)));
    drop(idle);
}

#[test]
fn clients_of_other_protocols_are_named_once() {
    let data = tempfile::tempdir().unwrap();
    let (server, outside) = server(data.path(), &[]);
    let hello: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00";
    let request = support::frame(12, 1, &MetadataRequest::default().into());
    for (bytes, words) in [
        (&b"GET / HTTP/1.1\r\n"[..], "this looks like HTTP"),
        (hello, "this looks like TLS, and this listener has none"),
        (&request, "listener OUTSIDE wants clients with security.protocol=SASL_PLAINTEXT"),
    ] {
        for _ in 0..3 {
            let mut client = Client::connect(outside);
            client.send_raw(bytes);
            assert!(client.is_closed(), "{words}");
        }
        server.says(words);
        assert_eq!(server.lines_with(words), 1, "{words}");
    }
}

#[test]
fn failing_again_and_again_takes_neither_memory_nor_lines() {
    let data = tempfile::tempdir().unwrap();
    let no_delay = "connection.failed.authentication.delay.ms=0";
    let (server, outside) = server(data.path(), &[no_delay]);
    let fail = |users: std::ops::Range<usize>| {
        for user in users {
            let mut client = Client::connect(outside);
            assert_eq!(handshake(&mut client, 1, "PLAIN"), ErrorCode::None);
            let answer = authenticate(&mut client, format!("\0user{user}\0other").as_bytes());
            assert_eq!(answer.error_code, ErrorCode::SaslAuthenticationFailed.code());
        }
        server.peak_memory()
    };
    let before = fail(0..3_000);
    let after = fail(3_000..9_000);
    assert!(after < before + (2 << 20), "{before} bytes, then {after}");
    assert!(server.lines_with("authentication failed") <= 100);
    logs_in(outside, ALICE);
}

#[test]
fn the_first_start_may_add_the_first_user() {
    let (directory, secrets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (data, file) = (directory.path().join("data"), secrets.path().join("password"));
    std::fs::write(&file, "pencil\n").unwrap();
    let file = file.to_str().unwrap();
    let first = |name: &'static str| ["--first-user", name, "--first-user-password-file", file];
    let (mut running, _) = server(&data, &first("admin"));
    let users = [("admin".to_owned(), vec![(1, 4_096)])];
    assert_eq!(described(&mut running.client(0)), users);
    assert!(running.stop().success());
    drop(running);
    let mut again = first("other");
    again[3] = "/none";
    let (running, _) = server(&data, &again);
    running.says("the first user is not added, as the data directory is not new");
    assert_eq!(described(&mut running.client(0)), users);
}

#[test]
fn a_first_user_needs_a_password() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = binary();
    command.args(["serve", "--shards", "1", "--first-user", "admin", "--data"]);
    let output = command.arg(directory.path()).args(configs(1, 2)).output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("MUSTER_FIRST_USER_PASSWORD is not set"), "{text}");
}
