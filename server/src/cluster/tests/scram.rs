//! AlterUserScramCredentials: changes and refusals.

use super::*;
use crate::admin::describe_user_scram_credentials;
use crate::cluster::alter_user_scram_credentials;
use crate::security::{ScramCredential, ScramMechanism};
use muster_codec::messages::*;

const SHA_256: i8 = 1;

/// A user, an error code, and mechanisms with their iterations.
type Described = (String, i16, Vec<(i8, i32)>);

fn upsertion(
    name: &'static str,
    mechanism: i8,
    iterations: i32,
) -> ScramCredentialUpsertion<'static> {
    ScramCredentialUpsertion {
        name: name.into(),
        mechanism,
        iterations,
        salt: b"salt".to_vec().into(),
        salted_password: b"salted".to_vec().into(),
    }
}

fn deletion(name: &'static str, mechanism: i8) -> ScramCredentialDeletion<'static> {
    ScramCredentialDeletion { name: name.into(), mechanism }
}

/// Applies a request. Returns each user with its error.
fn alter(
    controller: &mut Controller,
    deletions: Vec<ScramCredentialDeletion<'static>>,
    upsertions: Vec<ScramCredentialUpsertion<'static>>,
) -> Vec<(String, i16, Option<String>)> {
    let request = AlterUserScramCredentialsRequest { deletions, upsertions };
    let response = controller.decide(|view, _| alter_user_scram_credentials(view, &request));
    let results = response.results.into_iter();
    results.map(|it| (it.user.into(), it.error_code, it.error_message.map(Into::into))).collect()
}

#[test]
fn credentials_are_set_described_kept_and_removed() {
    let mut controller = Controller::new(&[]);
    let set = vec![upsertion("alice", 1, 4_096), upsertion("bob", 2, 16_384)];
    let none = |name: &str| (name.to_owned(), 0, None);
    assert_eq!(alter(&mut controller, vec![], set), [none("alice"), none("bob")]);
    let mechanism = ScramMechanism::Sha256;
    let expected = ScramCredential::new(mechanism, b"salt", b"salted", 4_096);
    assert_eq!(controller.image.scram_credential("alice", mechanism), Some(&expected));
    let mut again = ClusterImage::new(&Config::default());
    controller.image.records(&Config::default()).iter().for_each(|record| again.apply(record));
    assert_eq!(again.scram_credential("alice", mechanism), Some(&expected));

    let all = describe(&mut controller, &[]);
    assert_eq!(all, [("alice".into(), 0, vec![(1, 4_096)]), ("bob".into(), 0, vec![(2, 16_384)])]);
    let named = describe(&mut controller, &["bob", "carol", "alice", "alice"]);
    assert_eq!(
        named,
        [
            ("alice".into(), ErrorCode::DuplicateResource.code(), vec![]),
            ("bob".into(), 0, vec![(2, 16_384)]),
            ("carol".into(), ErrorCode::ResourceNotFound.code(), vec![]),
        ]
    );
    assert_eq!(alter(&mut controller, vec![deletion("alice", SHA_256)], vec![]), [none("alice")]);
    assert_eq!(controller.image.scram_credential_count(), 1);
}

fn describe(controller: &mut Controller, names: &[&'static str]) -> Vec<Described> {
    let users = names.iter().map(|name| ScramUserName { name: (*name).into() }).collect();
    let request = DescribeUserScramCredentialsRequest { users: Some(users) };
    controller.decide(|view, _| {
        let results = describe_user_scram_credentials(view, &request).results.into_iter();
        let response: Vec<_> = results.map(owned).collect();
        Change { records: Vec::new(), response }
    })
}

fn owned(it: DescribeUserScramCredentialsResult<'_>) -> Described {
    let infos = it.credential_infos.iter().map(|it| (it.mechanism, it.iterations)).collect();
    (it.user.into(), it.error_code, infos)
}

#[test]
fn kafkas_refusals() {
    let mut controller = Controller::new(&[]);
    let refused = |name: &str, error: ErrorCode, words: &str| {
        (name.to_owned(), error.code(), Some(words.to_owned()))
    };
    use ErrorCode::*;
    let upsertions = vec![
        upsertion("", 1, 4_096),
        upsertion("few", 1, 4_095),
        upsertion("many", 2, 16_385),
        upsertion("twice", 1, 4_096),
        upsertion("twice", 2, 4_096),
        upsertion("unknown", 3, 4_096),
    ];
    let deletions = vec![deletion("gone", SHA_256), deletion("zero", 0)];
    let twice = "A user credential cannot be altered twice in the same request";
    let missing = "Attempt to delete a user credential that does not exist";
    let unknown = "Unknown SCRAM mechanism";
    assert_eq!(
        alter(&mut controller, deletions, upsertions),
        [
            refused("", UnacceptableCredential, "Username must not be empty"),
            refused("few", UnacceptableCredential, "Too few iterations"),
            refused("gone", ResourceNotFound, missing),
            refused("many", UnacceptableCredential, "Too many iterations"),
            refused("twice", DuplicateResource, twice),
            refused("unknown", UnsupportedSaslMechanism, unknown),
            refused("zero", UnsupportedSaslMechanism, unknown),
        ]
    );
    assert_eq!(controller.image.scram_credential_count(), 0);
}
