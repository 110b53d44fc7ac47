//! The keys of tokens, fetched over HTTPS. The web server has a certificate of its own authority.
//! In the tests its keys change, and its answers fail.

use super::oauthbearer::{answer, jwks, message, pair, served_with};
use super::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use ring::signature::EcdsaKeyPair;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// A web server that answers all requests with the status and body in `answer`.
struct Provider {
    port: u16,
    answer: Arc<Mutex<(u16, String)>>,
    files: TempDir,
}

impl Provider {
    fn new(keys: &[&EcdsaKeyPair]) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names = vec!["localhost".to_owned()];
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &ca).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                key.serialize_der().try_into().unwrap(),
            )
            .unwrap();
        let files = tempfile::tempdir().unwrap();
        std::fs::write(files.path().join("ca.pem"), ca.pem()).unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let answer = Arc::new(Mutex::new((200, jwks(keys))));
        let (config, answers) = (Arc::new(config), Arc::clone(&answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                // If the client does not trust the certificate, the connection ends here.
                let _ = respond(StreamOwned::new(connection, stream.unwrap()), &answers);
            }
        });
        Self { port, answer, files }
    }

    fn set(&self, status: u16, body: impl Into<String>) {
        *self.answer.lock().unwrap() = (status, body.into());
    }

    fn url(&self) -> String {
        format!("https://localhost:{}/keys", self.port)
    }

    /// The config that makes the server trust the authority.
    fn trust(&self) -> String {
        let ca = self.files.path().join("ca.pem");
        format!(
            "listener.name.outside.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.\
             oauthbearer.OAuthBearerLoginModule required ssl.truststore.type=\"PEM\" \
             ssl.truststore.location=\"{}\";",
            ca.display()
        )
    }
}

fn respond(
    mut stream: StreamOwned<ServerConnection, std::net::TcpStream>,
    answer: &Mutex<(u16, String)>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(&mut stream);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let (status, body) = answer.lock().unwrap().clone();
    let length = body.len();
    write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}")?;
    stream.conn.send_close_notify();
    stream.flush()
}

const REFRESH: &str = "sasl.oauthbearer.jwks.endpoint.refresh.ms=300";

#[test]
fn keys_are_fetched_again_and_bad_ones_leave_the_old_ones() {
    let (data, old, new) = (tempfile::tempdir().unwrap(), pair(), pair());
    let provider = Provider::new(&[&old]);
    let more = [&provider.trust(), REFRESH, "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms=50"];
    let (server, outside) = served_with(data.path(), &provider.url(), &more);
    server.says("listener OUTSIDE: 1 keys for tokens from https://localhost:");
    let is_accepted = |pair: &EcdsaKeyPair| {
        let token = message(pair, "alice", 60);
        answer(&mut Client::connect(outside), &token).auth_bytes.is_empty()
    };
    assert!(is_accepted(&old));
    provider.set(500, "out of order");
    server.says("keeps its keys for tokens, as the new ones are bad: https://localhost:");
    server.says("it answers with the status 500");
    assert!(is_accepted(&old));
    provider.set(200, jwks(&[&new]));
    server.says("listener OUTSIDE: loaded its 1 keys for tokens again");
    let began = Instant::now();
    while !is_accepted(&new) {
        assert!(began.elapsed() < PATIENCE);
    }
    assert!(!is_accepted(&old));
    provider.set(200, " ".repeat(2 << 20));
    let began = Instant::now();
    while server.lines_with("as the new ones are bad") < 2 {
        assert!(began.elapsed() < PATIENCE);
    }
    assert!(is_accepted(&new), "too long an answer changes nothing");
}

#[test]
fn a_provider_that_is_not_trusted_keeps_the_server_from_starting() {
    let (data, pair) = (tempfile::tempdir().unwrap(), pair());
    let provider = Provider::new(&[&pair]);
    let refused = |more: &[&str]| {
        let mut command = binary();
        command.args(["serve", "--shards", "1", "--data"]).arg(data.path());
        let output = command
            .args(configs(1, 2))
            .arg("listener.name.outside.sasl.enabled.mechanisms=OAUTHBEARER")
            .arg(format!("sasl.oauthbearer.jwks.endpoint.url={}", provider.url()))
            .args(more)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        said(&output)
    };
    let other = Provider::new(&[&pair]);
    let text = refused(&[&other.trust()]);
    assert!(text.contains("listener OUTSIDE: https://localhost:"), "{text}");
    assert!(text.contains("invalid peer certificate"), "{text}");
    provider.set(404, "");
    assert!(refused(&[&provider.trust()]).contains("it answers with the status 404"));
    let missing = provider.trust().replace("ca.pem", "none.pem");
    let text = refused(&[&missing]);
    assert!(text.contains("none.pem"), "{text}");
    assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 0, "nothing was made");
}
