//! The states of a client, with requests in and out of order.

use super::*;
use crate::security::Secret;
use muster_codec::Uuid;

struct Counted(u8);

impl Ids for Counted {
    fn next_id(&mut self) -> Uuid {
        self.0 += 1;
        Uuid([self.0; 16])
    }
}

const ALICE: &[u8] = b"\0alice\0secret";
const WRONG: &[u8] = b"\0alice\0other";

/// A listener with PLAIN and one SCRAM mechanism.
fn sasl() -> Sasl {
    let users = ["alice", "bob"].map(|name| (name.to_owned(), Secret::new("secret")));
    Sasl {
        mechanisms: vec![Mechanism::Plain, Mechanism::Scram(ScramMechanism::Sha256)],
        plain_users: users.into(),
        bearer: None,
        lifetimes_ms: Vec::new(),
        receive_bytes_max: 1_000,
    }
}

fn token(authenticator: &mut Authenticator, token: &[u8]) -> Result<Progress, Failure> {
    authenticator.token(token, &sasl(), |_, _| None, &mut Counted(0), Wall(0))
}

fn expected(authenticator: &Authenticator) -> Vec<ApiKey> {
    ApiKey::ALL.iter().copied().filter(|api| authenticator.expects(*api)).collect()
}

#[test]
fn versions_then_a_handshake_then_tokens_are_expected() {
    let mut client = Authenticator::new(&sasl());
    assert_eq!(expected(&client), [ApiKey::SaslHandshake, ApiKey::ApiVersions]);
    client.versions_answered();
    assert_eq!(expected(&client), [ApiKey::SaslHandshake], "versions are asked for once");
    assert!(!client.handshake(1, "SCRAM-SHA-512", &sasl()), "it is not enabled");
    assert!(!client.handshake(1, "plain", &sasl()));
    assert!(client.handshake(1, "PLAIN", &sasl()));
    assert_eq!(expected(&client), [ApiKey::SaslAuthenticate]);
    assert!(client.is_in_exchange() && !client.takes_tokens_only());
    let done = token(&mut client, ALICE).unwrap();
    let (mechanism, principal) = (Mechanism::Plain, Principal::user("alice"));
    assert_eq!(done, Progress::Done { answer: Vec::new(), mechanism, principal, expires_at: None });
}

#[test]
fn tokens_stand_alone_after_a_handshake_of_version_0() {
    let mut client = Authenticator::new(&sasl());
    assert!(!client.takes_tokens_only());
    assert!(client.handshake(0, "PLAIN", &sasl()));
    assert!(client.takes_tokens_only() && !client.is_in_exchange());
}

#[test]
fn failures_do_not_say_whether_there_is_a_user() {
    let mut client = Authenticator::new(&sasl());
    client.handshake(1, "PLAIN", &sasl());
    let wrong = token(&mut client, WRONG).unwrap_err();
    client.handshake(1, "PLAIN", &sasl());
    let unknown = token(&mut client, b"\0carol\0secret").unwrap_err();
    assert_eq!((&wrong.why, &wrong.words), (&unknown.why, &unknown.words));
    client.handshake(1, "SCRAM-SHA-256", &sasl());
    let mechanism = client.mechanism();
    let unknown = token(&mut client, b"n,,n=carol,r=abc").unwrap_err();
    let general = "Authentication failed during authentication due to invalid credentials with \
                   SASL mechanism SCRAM-SHA-256";
    assert_eq!(client.words(&unknown, mechanism), general);
}

#[test]
fn the_same_user_authenticates_again_by_the_same_mechanism() {
    let before = || (Mechanism::Plain, Principal::user("alice"), 7);
    let mut client = Authenticator::again(&sasl(), before());
    assert_eq!(expected(&client), [ApiKey::SaslHandshake]);
    assert!(client.handshake(1, "PLAIN", &sasl()));
    assert!(matches!(token(&mut client, ALICE), Ok(Progress::Done { .. })));
    assert_eq!(client.again_since(), Some(7));

    let mut other_user = Authenticator::again(&sasl(), before());
    assert!(other_user.handshake(1, "PLAIN", &sasl()));
    let failure = token(&mut other_user, b"\0bob\0secret").unwrap_err();
    let words = "Cannot change principals during re-authentication from User.alice: User.bob";
    assert_eq!(failure.words.as_deref(), Some(words));

    let mut other_mechanism = Authenticator::again(&sasl(), before());
    assert!(other_mechanism.handshake(1, "SCRAM-SHA-256", &sasl()), "refused with the token");
    assert!(token(&mut other_mechanism, ALICE).is_err());
}
