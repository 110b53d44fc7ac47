//! Files in the form of `client.properties`, and token endpoints in this process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::properties::{CommandConfig, load};
use super::*;

const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required";
const SCRAM: &str = "org.apache.kafka.common.security.scram.ScramLoginModule required";
const BEARER: &str = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required";

fn read(text: &str) -> Result<CommandConfig, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    load(file.path())
}

fn data(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "src/driver/tests/data", name].iter().collect()
}

fn password(config: CommandConfig) -> Password {
    match config.security.sasl.unwrap() {
        Sasl::Password(password) => password,
        Sasl::Bearer(_) => panic!("no password"),
    }
}

fn bearer(config: CommandConfig) -> Bearer {
    match config.security.sasl.unwrap() {
        Sasl::Bearer(bearer) => bearer,
        Sasl::Password(_) => panic!("no token"),
    }
}

#[test]
fn nothing_said_is_plaintext() {
    let config = read("# a comment\ngroup.id=g\nkey.deserializer : x\n").unwrap();
    assert!(config.security.tls.is_none() && config.security.sasl.is_none());
    assert_eq!(config.unused, ["group.id", "key.deserializer"]);
}

#[test]
fn a_user_with_a_password() {
    let config = read(&format!(
        "security.protocol=sasl_plaintext\nsasl.mechanism=SCRAM-SHA-512\n\
         sasl.jaas.config={SCRAM} \\\n    username=\"alice\" \\\n    password=\"s=e;c\";\n"
    ));
    let config = config.unwrap();
    assert!(config.security.tls.is_none());
    let login = password(config);
    assert_eq!(login.mechanism, Mechanism::ScramSha512);
    assert_eq!((login.username.as_str(), login.password.as_str()), ("alice", "s=e;c"));
    let plain = format!(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n\
         sasl.jaas.config={PLAIN} username=a password=b;"
    );
    let config = read(&plain).unwrap();
    assert_eq!(config.security.tls.as_ref().map(|tls| tls.verify), Some(Verify::Name));
    assert_eq!(password(config).mechanism, Mechanism::Plain);
}

#[test]
fn certificates_as_files_and_as_text() {
    let pem = |name: &str| std::fs::read_to_string(data(name)).unwrap();
    // As in Kafka's documentation, a value continues over several lines of the file.
    let joined = |name: &str| pem(name).trim_end().replace('\n', " \\\n    ");
    let text = read(&format!(
        "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.certificates={}\n\
         ssl.keystore.type=PEM\nssl.keystore.certificate.chain={}\nssl.keystore.key={}\n\
         ssl.endpoint.identification.algorithm=\n",
        joined("server.pem"),
        joined("server.pem"),
        pem("server-key.pem").trim_end().replace('\n', "\\n"),
    ));
    let both = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(both.path(), pem("server-key.pem") + &pem("server.pem")).unwrap();
    let files = read(&format!(
        "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={}\n\
         ssl.keystore.type=PEM\nssl.keystore.location={}\n",
        data("server.pem").display(),
        both.path().display(),
    ));
    for (config, verify) in [(text, Verify::Authority), (files, Verify::Name)] {
        let tls = config.unwrap().security.tls.unwrap();
        assert_eq!(tls.verify, verify);
        assert_eq!(Pem::roots(tls.ca.as_ref()).unwrap().len(), 1);
        let (chain, key) = tls.identity.unwrap();
        assert_eq!(chain.certificates().unwrap().len(), 1);
        key.private_key().unwrap();
    }
}

#[test]
fn all_that_is_not_understood_is_named() {
    let sasl = "security.protocol=SASL_PLAINTEXT\n";
    for (text, named) in [
        ("security.protocol=TLS".to_owned(), "security.protocol cannot be TLS"),
        ("ssl.protocol=TLSv1.3\nsasl.x=1".into(), "sasl.x, ssl.protocol are not understood"),
        ("config.providers=file".into(), "config.providers is not understood"),
        ("ssl.key.password=x".into(), "ssl.key.password is not understood"),
        ("ssl.truststore.location=a.jks".into(), "ssl.truststore.type has to be PEM"),
        (
            "ssl.keystore.type=PKCS12\nssl.keystore.location=a.p12".into(),
            "muster-load cannot read PKCS12",
        ),
        (
            "ssl.keystore.type=PEM\nssl.keystore.certificate.chain=x".into(),
            "needs ssl.keystore.key",
        ),
        ("ssl.keystore.key=x".into(), "needs ssl.keystore.certificate.chain"),
        (
            "ssl.truststore.type=PEM\nssl.truststore.location=a\nssl.truststore.certificates=b"
                .into(),
            "exclude each other",
        ),
        ("ssl.endpoint.identification.algorithm=dns".into(), "cannot be dns"),
        (sasl.into(), "sasl.jaas.config is missing"),
        (format!("{sasl}sasl.jaas.config={PLAIN} username=a;"), "sasl.mechanism GSSAPI"),
        (
            format!("{sasl}sasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} username=a;"),
            "password is missing",
        ),
        (
            format!("{sasl}sasl.mechanism=PLAIN\nsasl.jaas.config={SCRAM} username=a;"),
            "ScramLoginModule is not",
        ),
        (
            format!(
                "{sasl}sasl.mechanism=PLAIN\n\
                 sasl.jaas.config={PLAIN} username=a password=b serviceName=c;"
            ),
            "serviceName is not understood",
        ),
        (
            format!("{sasl}sasl.mechanism=OAUTHBEARER\nsasl.jaas.config={BEARER};"),
            "sasl.oauthbearer.token.endpoint.url",
        ),
        (
            format!(
                "{sasl}sasl.mechanism=OAUTHBEARER\nsasl.jaas.config={BEARER} extension_auth=x;"
            ),
            "extension_auth is not an extension",
        ),
        (
            format!(
                "{sasl}sasl.mechanism=OAUTHBEARER\nsasl.login.callback.handler.class=a.B\n\
                 sasl.jaas.config={BEARER};"
            ),
            "a.B is not known",
        ),
        ("a=\\u12".into(), "line 1: \\u needs four hexadecimal digits"),
    ] {
        let error = read(&text).map(drop).unwrap_err();
        assert!(error.contains(named), "{text}:\n{error}");
    }
    let error = load(std::path::Path::new("/none")).unwrap_err();
    assert!(error.starts_with("/none: can't be read"), "{error}");
}

#[test]
fn a_token_without_a_signature_is_made() {
    let config = read(&format!(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n\
         sasl.jaas.config={BEARER} unsecuredLoginStringClaim_sub=\"alice\" \
         extension_tenant=\"7\";"
    ));
    let bearer = bearer(config.unwrap());
    assert_eq!(bearer.extensions, [("tenant".to_owned(), "7".to_owned())]);
    let token = bearer.tokens.current().unwrap();
    let parts: Vec<&str> = token.split('.').collect();
    assert_eq!((parts.len(), parts[0], parts[2]), (3, "eyJhbGciOiJub25lIn0", ""));
}

/// The requests that an endpoint received, in the order of its answers.
type Requests = Arc<std::sync::Mutex<Vec<String>>>;

/// An endpoint. `answer` returns the status and the body for each request, by the request's number.
fn endpoint(
    tls: Option<Arc<ServerConfig>>,
    answer: impl Fn(usize) -> (u16, String) + Send + 'static,
) -> (String, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let scheme = if tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}/token", listener.local_addr().unwrap());
    let requests = Requests::default();
    let (seen, number) = (Arc::clone(&requests), AtomicUsize::new(0));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let answer = || answer(number.fetch_add(1, Ordering::SeqCst));
            let stream = stream.unwrap();
            // A client that does not trust the certificate closes the connection.
            let _ = match &tls {
                None => exchange(stream, &seen, answer),
                Some(config) => {
                    let session = ServerConnection::new(Arc::clone(config)).unwrap();
                    exchange(StreamOwned::new(session, stream), &seen, answer)
                }
            };
        }
    });
    (url, requests)
}

fn exchange(
    stream: impl Read + Write,
    seen: &Requests,
    answer: impl FnOnce() -> (u16, String),
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let from = head.len();
        if stream.read_line(&mut head)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(value) = head[from..].to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    seen.lock().unwrap().push(head + &String::from_utf8(body).unwrap());
    let (status, body) = answer();
    write!(
        stream.get_mut(),
        "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn granted(token: &str, seconds: u64) -> (u16, String) {
    (200, format!("{{\"access_token\":\"{token}\",\"expires_in\":{seconds}}}"))
}

fn asking(url: &str, more: &str) -> String {
    format!(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n\
         sasl.oauthbearer.token.endpoint.url={url}\n\
         sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer.secured.\
         OAuthBearerLoginCallbackHandler\n\
         sasl.jaas.config={BEARER} clientId=\"load\" clientSecret=\"s\" scope=\"a b\" {more};"
    )
}

#[test]
fn a_token_of_an_endpoint() {
    let (url, requests) = endpoint(None, |_| granted("a.b.c", 3600));
    let bearer = bearer(read(&asking(&url, "")).unwrap());
    assert_eq!(&*bearer.tokens.current().unwrap(), "a.b.c");
    let requests = requests.lock().unwrap();
    let request = &requests[0];
    assert!(request.starts_with("POST /token HTTP/1.1\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\ngrant_type=client_credentials&scope=a+b"), "{request}");
    let basic = "authorization: basic bg9hzdpz"; // load:s
    assert!(request.to_ascii_lowercase().contains(basic), "{request}");
}

#[test]
fn an_endpoint_with_a_certificate() {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificate = CertificateDer::from_pem_file(data("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(data("server-key.pem")).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let (url, _) = endpoint(Some(Arc::new(config)), |_| granted("a.b.c", 3600));
    let trusted = format!(
        "ssl.truststore.type=PEM ssl.truststore.location=\"{}\"",
        data("server.pem").display()
    );
    let bearer = bearer(read(&asking(&url, &trusted)).unwrap());
    assert_eq!(&*bearer.tokens.current().unwrap(), "a.b.c");
    let error = read(&asking(&url, "")).unwrap_err();
    assert!(error.contains("UnknownIssuer"), "{error}");
}

#[test]
fn an_endpoint_that_gives_no_token() {
    let long = "x".repeat(2 << 20);
    for (status, body, named) in [
        (
            401,
            "{\"error\":\"invalid_client\",\"error_description\":\"no such client\"}",
            "invalid_client (no such client, status 401)",
        ),
        (500, "<p>broken\n</p>", "it answers with status 500: <p>broken </p>"),
        (302, "elsewhere", "status 302"),
        (200, "{}", "its answer has none"),
        (200, "{\"access_token\":\"a\\u0001b\"}", "none that can be sent"),
        (200, long.as_str(), "limit"),
    ] {
        let body = body.to_owned();
        let (url, _) = endpoint(None, move |_| (status, body.clone()));
        let error = read(&asking(&url, "")).unwrap_err();
        assert!(error.contains(&format!("no token from {url}")), "{error}");
        assert!(error.contains(named), "{error}");
        assert!(error.len() < 500, "{}", error.len());
    }
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = read(&asking(&format!("http://{closed}/"), "")).unwrap_err();
    assert!(error.contains("refused"), "{error}");
    assert!(TcpStream::connect(closed).is_err());
}

/// The first two tokens are valid for one second each. Then the endpoint fails, which has an effect
/// only when the second token has expired.
#[test]
fn tokens_are_refreshed_before_they_expire() {
    let (url, requests) = endpoint(None, |number| match number {
        0 => granted("first", 1),
        1 => granted("second", 1),
        _ => (503, "busy".into()),
    });
    let tokens = bearer(read(&asking(&url, "")).unwrap()).tokens;
    assert_eq!(&*tokens.current().unwrap(), "first");
    let began = Instant::now();
    let wait_for = |wanted: &str| {
        loop {
            let current = tokens.current().map_or_else(|error| error, |token| token.to_string());
            if current.contains(wanted) {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{current}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait_for("second");
    wait_for("the token has expired, and there is no newer one: no token from");
    assert!(requests.lock().unwrap().len() >= 3);
}
