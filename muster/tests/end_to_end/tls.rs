//! TLS on the real binary: requests and long answers, client certificates, bad key stores, other
//! protocols, and certificates that are loaded again.

mod altered;

use crate::support::http::metric_until;
use crate::support::{
    Client, Server, command_with, create_topic, frame, free_ports, produce, said,
};
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Request};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Two listeners, one of them with TLS, and the files for it.
struct Place {
    files: TempDir,
    ca: CertifiedIssuer<'static, KeyPair>,
    plain: u16,
    tls: u16,
}

/// A private key, and its certificate, both in DER.
type Identity = (Vec<u8>, CertificateDer<'static>);

impl Place {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let place = Self {
            files: tempfile::tempdir().unwrap(),
            ca,
            plain: free_ports(1),
            tls: free_ports(1),
        };
        place.put_key_store("server");
        std::fs::write(place.path("ca.pem"), place.ca.pem()).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    fn identity(&self, name: &str) -> (KeyPair, rcgen::Certificate) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.ca).unwrap();
        (key, certificate)
    }

    fn put_key_store(&self, name: &str) {
        let (key, certificate) = self.identity(name);
        let text = format!("{}{}", key.serialize_pem(), certificate.pem());
        std::fs::write(self.path("new.pem"), text).unwrap();
        std::fs::rename(self.path("new.pem"), self.path("server.pem")).unwrap();
    }

    fn client(&self, name: &str) -> Identity {
        let (key, certificate) = self.identity(name);
        (key.serialize_der(), certificate.der().clone())
    }

    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let listeners =
            format!("listeners=INSIDE://127.0.0.1:{},OUTSIDE://127.0.0.1:{}", self.plain, self.tls);
        let file = |name| self.path(name).display().to_string();
        let own = [
            listeners,
            "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:SSL".to_owned(),
            "ssl.keystore.type=PEM".to_owned(),
            format!("ssl.keystore.location={}", file("server.pem")),
            "ssl.truststore.type=PEM".to_owned(),
            format!("ssl.truststore.location={}", file("ca.pem")),
        ];
        own.into_iter().chain(more.iter().map(|it| (*it).to_owned())).collect()
    }

    fn serve(&self, data: &Path, more: &[&str]) -> Server {
        let arguments = self.arguments(more);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Server::with_arguments(data, self.plain, 1, &arguments)
    }

    /// The output of a server that refuses to start.
    fn refused(&self, more: &[&str]) -> String {
        let data = tempfile::tempdir().unwrap();
        let arguments = self.arguments(more);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = command_with(data.path(), 1, &arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 0, "nothing was made");
        said(&output)
    }

    fn connect(
        &self,
        version: &'static rustls::SupportedProtocolVersion,
        identity: Option<Identity>,
    ) -> Tls {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.ca.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some((key, certificate)) => {
                let key = PrivateKeyDer::try_from(key).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        };
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(Arc::new(config), name).unwrap();
        let socket = TcpStream::connect(("127.0.0.1", self.tls)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Tls(StreamOwned::new(session, socket))
    }
}

/// A client that uses TLS.
struct Tls(StreamOwned<ClientConnection, TcpStream>);

impl Tls {
    /// Sends a request. Returns the bytes of its answer.
    fn call(&mut self, version: i16, request: &Request<'_>) -> std::io::Result<Vec<u8>> {
        self.0.write_all(&frame(version, 1, request))?;
        self.0.flush()?;
        let mut length = [0; 4];
        self.0.read_exact(&mut length)?;
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut answer)?;
        Ok(answer)
    }

    fn certificate(&self) -> CertificateDer<'static> {
        self.0.conn.peer_certificates().unwrap()[0].clone().into_owned()
    }
}

fn metadata() -> Request<'static> {
    MetadataRequest::default().into()
}

/// A fetch of all records in the first partition of a topic.
fn fetch(topic: &'static str) -> Request<'static> {
    let partition = FetchPartition {
        partition_max_bytes: 50 << 20,
        current_leader_epoch: -1,
        ..Default::default()
    };
    let topics =
        vec![FetchTopic { topic: topic.into(), partitions: vec![partition], ..Default::default() }];
    FetchRequest { max_bytes: 50 << 20, topics, ..Default::default() }.into()
}

#[test]
pub fn answers_are_the_same_as_without_tls_however_long() {
    let (place, data) = (Place::new(), tempfile::tempdir().unwrap());
    let server = place.serve(data.path(), &[]);
    create_topic(&server, "topic", 1);
    let mut plain = server.client(0);
    for round in 0..40 {
        let value = vec![round as u8; 300_000];
        produce(&mut plain, "topic", &value).unwrap();
    }
    plain.send_raw(&frame(11, 1, &fetch("topic")));
    let expected = plain.receive_frame().unwrap();
    assert!(expected.len() > 40 * 300_000);
    for version in [&TLS12, &TLS13] {
        let mut client = place.connect(version, None);
        for _ in 0..3 {
            assert!(client.call(11, &fetch("topic")).unwrap() == expected);
            client.call(12, &metadata()).unwrap();
        }
    }
    // A client that reads nothing for a while still gets everything in the end.
    let mut slow = place.connect(&TLS13, None);
    slow.call(12, &metadata()).unwrap();
    (0..3).for_each(|_| slow.0.write_all(&frame(11, 1, &fetch("topic"))).unwrap());
    slow.0.flush().unwrap();
    for _ in 0..20 {
        plain.call(12, MetadataRequest::default().into());
    }
    let mut all = vec![0; 3 * (expected.len() + 4)];
    slow.0.read_exact(&mut all).unwrap();
    assert!(all.chunks(expected.len() + 4).all(|it| it[4..] == expected));
}

#[test]
fn clients_show_certificates_where_they_are_required() {
    let (place, data) = (Place::new(), tempfile::tempdir().unwrap());
    let server = place.serve(data.path(), &["ssl.client.auth=required"]);
    for version in [&TLS12, &TLS13] {
        let mut known = place.connect(version, Some(place.client("known")));
        known.call(12, &metadata()).unwrap();
        assert!(place.connect(version, None).call(12, &metadata()).is_err());
        let foreign = Place::new().client("foreign");
        assert!(place.connect(version, Some(foreign)).call(12, &metadata()).is_err());
    }
    let refused = "WARN refused a certificate host=\"/127.0.0.1\" reason=\"TLS:";
    server.says(&format!("{refused} peer sent no certificates"));
    server.says(&format!("{refused} invalid peer certificate"));
}

#[test]
fn a_password_is_asked_for_within_tls() {
    let (place, data) = (Place::new(), tempfile::tempdir().unwrap());
    let server = place.serve(
        data.path(),
        &[
            "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:SASL_SSL",
            "listener.name.outside.sasl.enabled.mechanisms=PLAIN",
            "listener.name.outside.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.\
             PlainLoginModule required user_alice=\"secret\";",
        ],
    );
    let log_in = |token: &'static [u8]| {
        let mut client = place.connect(&TLS13, None);
        let handshake = SaslHandshakeRequest { mechanism: "PLAIN".into() };
        let authenticate = SaslAuthenticateRequest { auth_bytes: token.to_vec().into() };
        let answers = [
            client.call(1, &handshake.into()).unwrap(),
            client.call(1, &authenticate.into()).unwrap(),
        ];
        // The error code follows the correlation id.
        let errors = answers.map(|it| i16::from_be_bytes([it[4], it[5]]));
        (errors, client.call(12, &metadata()).is_ok())
    };
    assert_eq!(log_in(b"\0alice\0secret"), ([0, 0], true));
    let failed = ErrorCode::SaslAuthenticationFailed.code();
    assert_eq!(log_in(b"\0alice\0other"), ([0, failed], false));
    assert!(place.connect(&TLS13, None).call(12, &metadata()).is_err(), "without a password");
    let mut without_tls = Client::connect(place.tls);
    without_tls.send_raw(&frame(12, 1, &metadata()));
    assert!(without_tls.is_closed());
    let line = server.line_with("authentication failed");
    assert!(line.contains("user=alice") && line.contains("wrong name or password"), "{line}");
}

#[test]
fn bad_key_stores_are_named_before_anything_is_made() {
    let place = Place::new();
    let location = |name| format!("listener.name.outside.ssl.keystore.location={name}");
    let missing = place.refused(&[&location("/none.pem")]);
    assert!(
        missing.contains("listener OUTSIDE: ssl.keystore.location=/none.pem: No such file"),
        "{missing}"
    );
    std::fs::write(place.path("junk.pem"), "junk").unwrap();
    let junk = place.refused(&[&location(&place.path("junk.pem").display().to_string())]);
    assert!(junk.contains("junk.pem: it is not PEM"), "{junk}");
    let rules = place.refused(&["ssl.principal.mapping.rules=RULE:x"]);
    assert!(rules.contains("ssl.principal.mapping.rules: no / after the pattern"), "{rules}");
    let versions = place.refused(&["ssl.enabled.protocols=TLSv1"]);
    assert!(versions.contains("TLSv1: there are TLSv1.3 and TLSv1.2"), "{versions}");
}

#[test]
fn a_client_of_another_protocol_is_named_once() {
    let (place, data) = (Place::new(), tempfile::tempdir().unwrap());
    let server = place.serve(data.path(), &[]);
    let says = |port: u16, bytes: &[u8], words: &str| {
        for _ in 0..3 {
            let mut client = Client::connect(port);
            client.send_raw(bytes);
            assert!(client.is_closed());
        }
        server.says(words);
        assert_eq!(server.lines_with(words), 1, "{words}");
    };
    says(place.tls, b"GET / HTTP/1.1\r\n", "looks like HTTP");
    let request = frame(12, 1, &metadata());
    says(place.tls, &request, "looks like a Kafka client without TLS");
    says(place.tls, b"SSH-2.0", "TLS expected");
    says(
        place.plain,
        b"\x16\x03\x01\x02\x00\x01\x00",
        "looks like TLS, and this listener has none",
    );
    says(place.tls, &[22, 3, 1, 0, 1, 1].repeat(100), "in 100 records");
}

#[test]
pub fn half_handshakes_are_closed_after_a_while_and_others_do_not_wait() {
    let (place, data) = (Place::new(), tempfile::tempdir().unwrap());
    let server = place.serve(data.path(), &[]);
    let began = Instant::now();
    let mut half: Vec<Client> = (0..50).map(|_| Client::connect(place.tls)).collect();
    half.iter_mut().for_each(|it| it.send_raw(&[22, 3, 1, 1, 0, 1, 0]));
    place.connect(&TLS13, None).call(12, &metadata()).unwrap();
    assert!(began.elapsed() < Duration::from_secs(9));
    assert!(half.iter_mut().all(Client::is_closed));
    assert!(began.elapsed() >= Duration::from_millis(9_900));
    server.says("TLS: its handshake took too long");
}

#[test]
fn certificates_are_loaded_again_and_bad_ones_are_not() {
    let (place, data) = (Place::new(), tempfile::tempdir().unwrap());
    let server = place.serve(data.path(), &[]);
    let served = || {
        let mut client = place.connect(&TLS13, None);
        client.call(12, &metadata()).unwrap();
        (client.certificate(), client)
    };
    let (first, mut open) = served();
    place.put_key_store("renewed");
    server.says("listener OUTSIDE: loaded its certificate again");
    let (second, _) = served();
    assert!(second != first);
    open.call(12, &metadata()).unwrap();
    std::fs::write(place.path("server.pem"), "junk").unwrap();
    server.says("listener OUTSIDE keeps its certificate, as the new one is bad");
    assert!(served().0 == second);
    let pid = server.pid().to_string();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    server.says("loads the certificates again");
    assert!(served().0 == second, "the key store is junk");
}

#[test]
fn what_is_not_decrypted_is_counted_for_clients() {
    const CLIENTS: usize = 20;
    const BYTES: usize = 16 << 10;
    let place = Place::new();
    let data = tempfile::tempdir().unwrap();
    let admin = free_ports(1);
    let listener = format!("admin.listener=127.0.0.1:{admin}");
    let _server = place.serve(data.path(), &[&listener]);
    let part = [&b"\x16\x03\x01\x40\x00"[..], &vec![1; BYTES - 1]].concat();
    let _clients: Vec<TcpStream> = (0..CLIENTS)
        .map(|_| {
            let mut client = TcpStream::connect(("127.0.0.1", place.tls)).unwrap();
            client.write_all(&part).unwrap();
            client
        })
        .collect();
    let all = (CLIENTS * BYTES) as f64;
    metric_until(admin, "muster_clients_held_bytes{", |held| held >= all);
}
