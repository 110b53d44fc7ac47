//! TLS, PLAIN and OAUTHBEARER against a server in this process.

use std::path::PathBuf;

use bytes::Bytes;
use kafka_protocol::messages::{
    SaslAuthenticateResponse, SaslHandshakeResponse, SyncGroupResponse,
};
use muster_codec::messages::SyncGroupRequest;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;
use crate::security::{Bearer, Mechanism, Password, Pem, Sasl, Source, Tls, Tokens, Verify};

/// The length of an assignment that needs several TLS records, and several reads.
const LONG: usize = 300_000;

/// A file of the self-signed certificate for localhost and 127.0.0.1, valid for a hundred years.
fn data(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "src/driver/tests/data", name].iter().collect()
}

fn pem(name: &str) -> Option<Pem> {
    Some(Pem::File(data(name)))
}

/// A server that answers every request as a SyncGroup of version 4, with a long assignment.
fn tls_server() -> String {
    let certificate = CertificateDer::from_pem_file(data("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(data("server-key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    server(move |stream| {
        let session = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = StreamOwned::new(session, stream);
        while let Some(request) = receive(&mut stream) {
            let mut body = request[4..8].to_vec();
            body.push(0);
            let assignment = Bytes::from(vec![7; LONG]);
            let answer = SyncGroupResponse::default().with_assignment(assignment);
            answer.encode(&mut body, 4).unwrap();
            stream.write_all(&framed(&body)).unwrap();
        }
    })
}

fn sync(server: &str, tls: &Tls) -> Result<usize, String> {
    let tls = TlsClient::new(tls)?;
    Runtime::new()?.run(async {
        let dialer = Dialer::new(Arc::new(target(server)), Some(tls), Default::default());
        let (host, port) = host_and_port(server)?;
        let mut channel = dialer.open(host, port).await?;
        let answer = channel.call(4, &SyncGroupRequest::default(), |it| it.assignment.len()).await;
        answer.map_err(|error| error.to_string())
    })
}

#[test]
fn long_answers_arrive_through_tls() {
    let server = tls_server();
    let trusting = Tls { ca: pem("server.pem"), ..Tls::default() };
    assert_eq!(sync(&server, &trusting), Ok(LONG));
    let blind = Tls { verify: Verify::Nothing, ..Tls::default() };
    assert_eq!(sync(&server, &blind), Ok(LONG));
}

#[test]
fn a_certificate_of_another_name_is_refused() {
    let server = tls_server();
    let ca = pem("server.pem");
    let other = Tls { ca, server_name: Some("elsewhere".into()), ..Tls::default() };
    let error = sync(&server, &other).unwrap_err();
    assert!(error.contains("not valid for name"), "{error}");
    let any = Tls { verify: Verify::Authority, ..other };
    assert_eq!(sync(&server, &any), Ok(LONG));
    let unknown = Tls { ca: None, ..any };
    let error = sync(&server, &unknown).unwrap_err();
    assert!(error.contains("no trusted authority") || error.contains("to trust"), "{error}");
    let missing = Tls { ca: pem("missing.pem"), ..Tls::default() };
    let error = sync(&server, &missing).unwrap_err();
    assert!(error.contains("missing.pem"), "{error}");
    let keyless = Tls { ca: pem("server-key.pem"), ..Tls::default() };
    let error = sync(&server, &keyless).unwrap_err();
    assert!(error.contains("there is none in it"), "{error}");
}

/// The token of alice with an extension, in the format of RFC 7628.
const BEARER: &[u8] = b"n,,\x01auth=Bearer a.b.c\x01tenant=7\x01\x01";

/// A broker that offers PLAIN and OAUTHBEARER. It knows alice, her password and her token. It
/// refuses other tokens as Kafka does.
fn sasl_server() -> String {
    server(|mut stream| {
        while let Some(request) = receive(&mut stream) {
            let mut body = request[4..8].to_vec();
            let known = request.ends_with(b"\0alice\0secret") || request.ends_with(BEARER);
            match (request[1], known) {
                (18, _) => members::api_versions().encode(&mut body, 3).unwrap(),
                (17, _) => handshake(&request).encode(&mut body, 1).unwrap(),
                (36, true) => SaslAuthenticateResponse::default().encode(&mut body, 0).unwrap(),
                (36, false) if contains(&request, b"auth=Bearer") => {
                    SaslAuthenticateResponse::default()
                        .with_auth_bytes(Bytes::from_static(b"{\"status\":\"invalid_token\"}"))
                        .encode(&mut body, 0)
                        .unwrap();
                }
                (36, false) => SaslAuthenticateResponse::default()
                    .with_error_code(58)
                    .with_error_message(Some(StrBytes::from_static_str("no such user")))
                    .encode(&mut body, 0)
                    .unwrap(),
                _ => members::metadata(own_port(&stream)).encode(&mut body, 4).unwrap(),
            }
            stream.write_all(&framed(&body)).unwrap();
        }
    })
}

fn contains(request: &[u8], part: &[u8]) -> bool {
    request.windows(part.len()).any(|some| some == part)
}

fn handshake(request: &[u8]) -> SaslHandshakeResponse {
    let known = request.ends_with(b"PLAIN") || request.ends_with(b"OAUTHBEARER");
    SaslHandshakeResponse::default()
        .with_error_code(if known { 0 } else { 33 })
        .with_mechanisms(vec![StrBytes::from_static_str("PLAIN")])
}

fn own_port(stream: &TcpStream) -> i32 {
    i32::from(stream.local_addr().unwrap().port())
}

#[test]
fn only_the_right_password_and_mechanism_are_accepted() {
    let server = sasl_server();
    let start_as = |mechanism, password: &str| {
        let (username, password) = ("alice".to_owned(), password.to_owned());
        let sasl = Some(Sasl::Password(Password { mechanism, username, password }));
        let security = Security { sasl, tls: None };
        start(Target { security, ..target(&server) }).map(drop)
    };
    assert_eq!(start_as(Mechanism::Plain, "secret"), Ok(()));
    let error = start_as(Mechanism::Plain, "wrong").unwrap_err();
    assert!(error.contains("user alice is refused: no such user"), "{error}");
    let error = start_as(Mechanism::ScramSha256, "secret").unwrap_err();
    assert!(error.contains("it does not offer SCRAM-SHA-256, but PLAIN"), "{error}");
}

#[test]
fn a_token_is_sent_with_its_extensions() {
    let server = sasl_server();
    let start_with = |token: &str| {
        let tokens = Arc::new(Tokens::of(Source::Fixed(token.into())).unwrap());
        let extensions = vec![("tenant".to_owned(), "7".to_owned())];
        let sasl = Some(Sasl::Bearer(Bearer { tokens, extensions }));
        start(Target { security: Security { sasl, tls: None }, ..target(&server) }).map(drop)
    };
    assert_eq!(start_with("a.b.c"), Ok(()));
    let error = start_with("d.e.f").unwrap_err();
    assert!(error.contains("the token is refused: {\"status\":\"invalid_token\"}"), "{error}");
}
