//! Connections against a tiny server in this process, which misbehaves as the test says.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use kafka_protocol::messages::metadata_response::MetadataResponseBroker;
use kafka_protocol::messages::{
    ApiVersionsResponse, BrokerId, FindCoordinatorResponse, MetadataResponse,
    api_versions_response::ApiVersion, find_coordinator_response::Coordinator,
};
use kafka_protocol::protocol::{Encodable, StrBytes};
use muster_codec::messages::HeartbeatRequest;

use super::channel::{CallError, Channel};
use super::command::*;
use super::*;
use crate::event::{Event, EventKind, Stop};
use crate::plan::*;
use crate::security::Security;
use crate::wire::Malformed;

mod lines;
mod members;
mod producers;
mod security;

/// A server that runs `serve` for each connection, on its own thread.
fn server(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(stream.unwrap()));
        }
    });
    address
}

fn target(server: &str) -> Target {
    Target {
        bootstrap: vec![server.into()],
        client_id: "test".into(),
        security: Security::default(),
        connect_timeout: Duration::from_secs(5),
        request_timeout: Duration::from_millis(300),
        cores: vec![0],
        members_per_connection: 1,
        seed: 1,
    }
}

/// The next request, from its API key on. `None` when the client has closed the connection.
fn receive(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame).ok()?;
    Some(frame)
}

fn framed(body: &[u8]) -> Vec<u8> {
    let mut frame = (body.len() as u32).to_be_bytes().to_vec();
    frame.extend_from_slice(body);
    frame
}

/// An answer to Heartbeat in version 4, with this correlation id and error code.
fn heartbeat_answer(correlation: i32, code: i16) -> Vec<u8> {
    let mut body = correlation.to_be_bytes().to_vec();
    body.extend_from_slice(&[0, 0, 0, 0, 0]);
    body.extend_from_slice(&code.to_be_bytes());
    body.push(0);
    framed(&body)
}

/// Sends a heartbeat and returns its result. The server answers with these bytes, piece by piece.
/// If `closes` is set, it then closes the connection.
fn call(pieces: Vec<Vec<u8>>, closes: bool) -> Result<i16, CallError> {
    let server = server(move |mut stream| {
        stream.set_nodelay(true).unwrap();
        while receive(&mut stream).is_some() {
            for piece in &pieces {
                stream.write_all(piece).unwrap();
                stream.flush().unwrap();
                std::thread::sleep(Duration::from_millis(2));
            }
            if closes {
                return;
            }
        }
    });
    Runtime::new().unwrap().run(async move {
        let mut channel = channel(&server).await.unwrap();
        channel.call(4, &HeartbeatRequest::default(), |answer| answer.error_code).await
    })
}

async fn channel(server: &str) -> Result<Channel, String> {
    let dialer = Dialer::new(Arc::new(target(server)), None, Default::default());
    let (host, port) = host_and_port(server)?;
    dialer.channel(host, port).await
}

#[test]
fn an_answer_may_arrive_in_single_bytes() {
    let pieces = heartbeat_answer(1, 27).into_iter().map(|byte| vec![byte]).collect();
    assert_eq!(call(pieces, false).unwrap(), 27);
}

#[test]
fn an_answer_with_another_correlation_id_is_refused() {
    let error = call(vec![heartbeat_answer(2, 0)], false).unwrap_err();
    let expected = Malformed::Correlation { expected: 1, got: 2 };
    assert!(matches!(&error, CallError::Malformed(found) if *found == expected), "{error}");
}

#[test]
fn a_huge_length_is_refused_at_once() {
    let error = call(vec![vec![0x7f, 0xff, 0xff, 0xff]], false).unwrap_err();
    assert!(matches!(error, CallError::Malformed(Malformed::Length(i32::MAX))), "{error}");
}

#[test]
fn a_connection_that_ends_within_a_frame_is_closed() {
    let error = call(vec![heartbeat_answer(1, 0)[..9].to_vec()], true).unwrap_err();
    assert!(matches!(error, CallError::Closed), "{error}");
}

#[test]
fn silence_ends_with_the_request_timeout() {
    let began = Instant::now();
    let error = call(vec![], false).unwrap_err();
    assert!(matches!(error, CallError::TimedOut(_)), "{error}");
    assert!(began.elapsed() >= Duration::from_millis(300));
}

/// Each fault is reported as one sentence, before a core starts.
#[test]
fn each_fault_of_a_server_is_reported_in_one_sentence() {
    let closes = server(|mut stream| drop(receive(&mut stream)));
    let speaks_tls = server(|mut stream| {
        receive(&mut stream);
        stream.write_all(&[0x15, 3, 3, 0, 2, 2, 0x46]).unwrap();
    });
    let speaks_http = server(|mut stream| {
        receive(&mut stream);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let is_silent = server(|mut stream| drop(stream.read_to_end(&mut Vec::new())));
    let cases = [
        (closes.as_str(), "closed it without an answer: is this a Kafka listener"),
        (&speaks_tls, "it speaks TLS: turn TLS on"),
        (&speaks_http, "its answers are not Kafka's protocol"),
        (&is_silent, "no answer within 300ms"),
        ("127.0.0.1:1", "nothing listens on 127.0.0.1:1"),
        ("nowhere.invalid:9092", "the name nowhere.invalid cannot be resolved"),
        ("9092", "9092 is not HOST:PORT"),
    ];
    for (server, expected) in cases {
        let Err(error) = start(target(server)) else { panic!("{server} is no broker") };
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn echoed_heartbeats_are_counted_and_answers_are_no_echo() {
    let echoes = server(|mut stream| {
        while let Some(frame) = receive(&mut stream) {
            stream.write_all(&framed(&frame)).unwrap();
        }
    });
    let result = echo(target(&echoes), 3, 4, 1).unwrap();
    assert!(result.heartbeats > 0);
    assert_eq!(result.latency.len(), result.heartbeats);

    let answers = server(|mut stream| {
        while let Some(frame) = receive(&mut stream) {
            let correlation = i32::from_be_bytes(frame[4..8].try_into().unwrap());
            stream.write_all(&heartbeat_answer(correlation, 0)).unwrap();
        }
    });
    let error = echo(target(&answers), 1, 1, 1).unwrap_err();
    assert!(error.contains("came back changed"), "{error}");
}
