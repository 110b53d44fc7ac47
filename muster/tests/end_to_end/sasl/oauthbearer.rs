//! OAUTHBEARER: tokens that are accepted or refused, how long they are valid, and keys that change.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// An issuer of tokens, and the file with its public key.
struct Issuer {
    files: TempDir,
    pair: EcdsaKeyPair,
}

impl Issuer {
    fn new() -> Self {
        let issuer = Self { files: tempfile::tempdir().unwrap(), pair: pair() };
        issuer.put_keys(&[&issuer.pair]);
        issuer
    }

    fn path(&self) -> String {
        self.files.path().join("jwks.json").display().to_string()
    }

    fn put_keys(&self, pairs: &[&EcdsaKeyPair]) {
        let new = self.files.path().join("new");
        std::fs::write(&new, jwks(pairs)).unwrap();
        std::fs::rename(new, self.path()).unwrap();
    }

    fn message(&self, seconds: i64) -> Vec<u8> {
        message(&self.pair, "alice", seconds)
    }
}

pub(super) fn pair() -> EcdsaKeyPair {
    let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
    let secret = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, secret.as_ref(), &random).unwrap()
}

/// The key set (JWKS) of these keys.
pub(super) fn jwks(pairs: &[&EcdsaKeyPair]) -> String {
    let keys: Vec<_> = pairs.iter().enumerate().map(|(id, pair)| jwk(id, pair)).collect();
    serde_json::json!({ "keys": keys }).to_string()
}

fn jwk(id: usize, pair: &EcdsaKeyPair) -> serde_json::Value {
    let point = pair.public_key().as_ref();
    let [x, y] = [&point[1..33], &point[33..]].map(|it| BASE64URL.encode(it));
    serde_json::json!({"kty": "EC", "crv": "P-256", "kid": id.to_string(), "x": x, "y": y})
}

/// A first SASL message, with a token that expires in `seconds`.
pub(super) fn message(pair: &EcdsaKeyPair, name: &str, seconds: i64) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let claims = serde_json::json!({"sub": name, "iat": now - 60, "exp": now + seconds});
    let header = serde_json::json!({"alg": "ES256"});
    let part = [header, claims].map(|it| BASE64URL.encode(it.to_string())).join(".");
    let signature = pair.sign(&SystemRandom::new(), part.as_bytes()).unwrap();
    format!("n,,\x01auth=Bearer {part}.{}\x01\x01", BASE64URL.encode(signature)).into_bytes()
}

pub(super) fn served_with(data: &Path, keys: &str, more: &[&str]) -> (Server, u16) {
    let url =
        format!("listener.name.outside.oauthbearer.sasl.oauthbearer.jwks.endpoint.url={keys}");
    let own = ["listener.name.outside.sasl.enabled.mechanisms=OAUTHBEARER", &url];
    let arguments: Vec<&str> = own.into_iter().chain(more.iter().copied()).collect();
    server(data, &arguments)
}

fn served(data: &Path, issuer: &Issuer) -> (Server, u16) {
    served_with(data, &format!("file://{}", issuer.path()), &[])
}

/// The server's answer to a first SASL message.
pub(super) fn answer(client: &mut Client, message: &[u8]) -> SaslAuthenticateResponse<'static> {
    assert_eq!(handshake(client, 1, "OAUTHBEARER"), ErrorCode::None);
    authenticate(client, message)
}

#[test]
fn a_token_lets_a_client_in_until_it_expires() {
    let (issuer, data) = (Issuer::new(), tempfile::tempdir().unwrap());
    let (server, outside) = served(data.path(), &issuer);
    let mut client = Client::connect(outside);
    let accepted = answer(&mut client, &issuer.message(3));
    assert_eq!((accepted.error_code, &*accepted.auth_bytes), (0, &[][..]));
    assert!((1_000..=3_000).contains(&accepted.session_lifetime_ms), "{accepted:?}");
    assert!(is_served(&mut client));
    assert_eq!(answer(&mut client, &issuer.message(3)).error_code, 0, "it authenticates again");
    let began = Instant::now();
    while is_served(&mut client) {
        assert!(began.elapsed() < PATIENCE);
    }
    server.says("User:alice did not authenticate again in time");
    let mut client = Client::connect(outside);
    answer(&mut client, &issuer.message(60));
    let other = answer(&mut client, &message(&issuer.pair, "bob", 60));
    assert!(other.error_message.unwrap().contains("Cannot change principals"));
}

#[test]
fn the_shorter_of_two_lifetimes_holds() {
    let (issuer, data) = (Issuer::new(), tempfile::tempdir().unwrap());
    let longest = "listener.name.outside.oauthbearer.connections.max.reauth.ms=20000";
    let (_server, outside) =
        served_with(data.path(), &format!("file://{}", issuer.path()), &[longest]);
    let lifetime = |seconds| {
        answer(&mut Client::connect(outside), &issuer.message(seconds)).session_lifetime_ms
    };
    assert_eq!(lifetime(60), 20_000);
    assert!((8_000..=10_000).contains(&lifetime(10)));
    assert_eq!(lifetime(-10), 0, "it expired, within the difference of clocks that is allowed");
}

#[test]
fn a_refused_token_is_answered_and_then_acknowledged() {
    let (issuer, data) = (Issuer::new(), tempfile::tempdir().unwrap());
    let (server, outside) = served(data.path(), &issuer);
    let refusal = br#"{"status":"invalid_token"}"#;
    let mut client = Client::connect(outside);
    let refused = answer(&mut client, &message(&pair(), "alice", 60));
    assert_eq!((refused.error_code, &*refused.auth_bytes), (0, &refusal[..]));
    let ended = authenticate(&mut client, b"\x01");
    assert_eq!(ended.error_code, ErrorCode::SaslAuthenticationFailed.code());
    assert_eq!(ended.error_message.as_deref(), str::from_utf8(refusal).ok());
    assert!(!is_served(&mut client));
    server.says(
        "authentication failed host=/127.0.0.1 listener=OUTSIDE mechanism=\"OAUTHBEARER\" \
         reason=\"a token with a wrong signature\"",
    );
    assert_eq!(server.lines_with("a wrong signature"), 1, "once");
    // As in Kafka, the client may send another token instead.
    let mut client = Client::connect(outside);
    assert_eq!(&*answer(&mut client, &issuer.message(-60)).auth_bytes, refusal);
    assert_eq!(authenticate(&mut client, &issuer.message(60)).error_code, 0);
    assert!(is_served(&mut client));
    // After a refusal some clients do not send the byte 1 that acknowledges it. They disconnect, or
    // send requests as if they had been authenticated.
    let mut client = Client::connect(outside);
    answer(&mut client, &issuer.message(-60));
    drop(client);
    server.says("mechanism=\"OAUTHBEARER\" reason=\"a token that has expired\"");
    let mut client = Client::connect(outside);
    answer(&mut client, &message(&issuer.pair, " ", 60));
    assert!(!is_served(&mut client));
    server.says("mechanism=\"OAUTHBEARER\" reason=\"a token without a name\"");
    for malformed in [&b"\x01"[..], b"", b"n,,\x01\x01", b"\xff"] {
        let mut client = Client::connect(outside);
        let words = answer(&mut client, malformed).error_message.unwrap();
        assert!(words.ends_with("invalid credentials with SASL mechanism OAUTHBEARER"), "{words}");
        assert!(!is_served(&mut client));
    }
}

#[test]
fn keys_are_loaded_again_and_bad_ones_are_not() {
    let (issuer, data) = (Issuer::new(), tempfile::tempdir().unwrap());
    let (server, outside) = served(data.path(), &issuer);
    server.says("listener OUTSIDE: 1 keys for tokens from ");
    let is_accepted =
        |message: &[u8]| answer(&mut Client::connect(outside), message).auth_bytes.is_empty();
    assert!(is_accepted(&issuer.message(60)));
    let new = pair();
    issuer.put_keys(&[&new]);
    server.says("loaded its 1 keys for tokens again");
    let began = Instant::now();
    while !is_accepted(&message(&new, "alice", 60)) {
        assert!(began.elapsed() < PATIENCE);
    }
    assert!(!is_accepted(&issuer.message(60)));
    std::fs::write(issuer.path(), "junk").unwrap();
    server.says("listener OUTSIDE keeps its keys for tokens, as the new ones are bad: ");
    assert!(is_accepted(&message(&new, "alice", 60)));
}

#[test]
fn configs_without_usable_keys_are_refused() {
    let (issuer, data) = (Issuer::new(), tempfile::tempdir().unwrap());
    std::fs::write(issuer.path(), r#"{"keys":[]}"#).unwrap();
    let file = format!("file://{}", issuer.path());
    for (url, words) in [
        ("", "jwks.endpoint.url is missing: listener OUTSIDE has OAUTHBEARER"),
        ("http://issuer/keys", "neither a file"),
        ("file://none.json", "neither a file"),
        ("https://127.0.0.1:1/keys", "listener OUTSIDE: https://127.0.0.1:1/keys: "),
        ("file:///none.json", "listener OUTSIDE: /none.json: No such file"),
        (&file, "it has no key of the types RSA, P-256 and P-384"),
    ] {
        let mut command = binary();
        command.args(["serve", "--shards", "1", "--data"]).arg(data.path());
        let output = command
            .args(configs(1, 2))
            .arg("sasl.enabled.mechanisms=OAUTHBEARER")
            .arg("listener.name.outside.sasl.enabled.mechanisms=OAUTHBEARER")
            .arg(format!("sasl.oauthbearer.jwks.endpoint.url={url}"))
            .output()
            .unwrap();
        let text = said(&output);
        assert!(output.status.code() == Some(1) && text.contains(words), "{url}: {text}");
    }
    assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 0, "nothing was made");
}
