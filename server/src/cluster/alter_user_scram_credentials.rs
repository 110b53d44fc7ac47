//! AlterUserScramCredentials: sets and removes credentials, by the rules of Kafka's
//! `ScramControlManager`.

use super::change::{Change, Refused};
use super::limits::{SCRAM_CREDENTIAL_BYTES_MAX, SCRAM_CREDENTIALS_MAX};
use super::scram_credentials::record;
use super::{ClusterImage, View};
use crate::security::{ScramCredential, ScramMechanism};
use muster_codec::ErrorCode;
use muster_codec::messages::{
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult, ScramCredentialUpsertion,
};
use muster_codec::records::ClusterRecord;
use std::collections::BTreeMap;

/// Changes credentials. If a request names a user twice, all changes of this user are refused.
pub fn alter_user_scram_credentials(
    view: &View<'_>,
    request: &AlterUserScramCredentialsRequest<'_>,
) -> Change<AlterUserScramCredentialsResponse<'static>> {
    let deletions = request.deletions.iter().map(|it| (&*it.name, Asked::Deletion(it.mechanism)));
    let upsertions = request.upsertions.iter().map(|it| (&*it.name, Asked::Upsertion(it)));
    let mut users = BTreeMap::<&str, Decided>::new();
    let mut left = SCRAM_CREDENTIALS_MAX.saturating_sub(view.image.scram_credential_count());
    for (name, asked) in deletions.chain(upsertions) {
        let decided = match users.remove(name) {
            None => decide(view.image, name, &asked, &mut left),
            Some(Err(refused)) => Err(refused),
            Some(Ok(_)) => {
                let words = "A user credential cannot be altered twice in the same request";
                Err(Refused::new(ErrorCode::DuplicateResource, words))
            }
        };
        users.insert(name, decided);
    }
    let (mut records, mut results) = (Vec::new(), Vec::new());
    for (name, decided) in users {
        let user = name.to_owned().into();
        let (error_code, error_message) = match decided {
            Ok(record) => {
                records.push(record);
                (ErrorCode::None.code(), None)
            }
            Err(refused) => (refused.error.code(), refused.error_message()),
        };
        results.push(AlterUserScramCredentialsResult { user, error_code, error_message });
    }
    Change { records, response: AlterUserScramCredentialsResponse { results, throttle_time_ms: 0 } }
}

enum Asked<'r> {
    Deletion(i8),
    Upsertion(&'r ScramCredentialUpsertion<'r>),
}

type Decided = Result<ClusterRecord<'static>, Refused>;

/// Returns the record that changes the credential. `left` is the number of credentials that may
/// still be added.
fn decide(image: &ClusterImage, name: &str, asked: &Asked<'_>, left: &mut usize) -> Decided {
    if name.is_empty() {
        return Err(unacceptable("Username must not be empty"));
    }
    match asked {
        Asked::Deletion(number) => {
            let mechanism = mechanism(*number)?;
            if image.scram_credential(name, mechanism).is_none() {
                let words = "Attempt to delete a user credential that does not exist";
                return Err(Refused::new(ErrorCode::ResourceNotFound, words));
            }
            Ok(record(name, mechanism, None))
        }
        Asked::Upsertion(upsertion) => {
            let mechanism = mechanism(upsertion.mechanism)?;
            let credential = credential(mechanism, upsertion)?;
            if image.scram_credential(name, mechanism).is_none() {
                *left = left.checked_sub(1).ok_or_else(|| {
                    let words = format!(
                        "There are {SCRAM_CREDENTIALS_MAX} credentials already \
                         (SCRAM_CREDENTIALS_MAX)."
                    );
                    Refused::new(ErrorCode::PolicyViolation, words)
                })?;
            }
            Ok(record(name, mechanism, Some(&credential)))
        }
    }
}

fn mechanism(number: i8) -> Result<ScramMechanism, Refused> {
    ScramMechanism::by_number(number)
        .ok_or_else(|| Refused::new(ErrorCode::UnsupportedSaslMechanism, "Unknown SCRAM mechanism"))
}

fn credential(
    mechanism: ScramMechanism,
    asked: &ScramCredentialUpsertion<'_>,
) -> Result<ScramCredential, Refused> {
    let ScramCredentialUpsertion { name, iterations, salt, salted_password, .. } = asked;
    if *iterations < ScramCredential::ITERATIONS_MIN {
        return Err(unacceptable("Too few iterations"));
    }
    if *iterations > ScramCredential::ITERATIONS_MAX {
        return Err(unacceptable("Too many iterations"));
    }
    if name.len() + salt.len() > SCRAM_CREDENTIAL_BYTES_MAX {
        let words = format!(
            "Name and salt may have {SCRAM_CREDENTIAL_BYTES_MAX} bytes (SCRAM_CREDENTIAL_BYTES_MAX)"
        );
        return Err(unacceptable(&words));
    }
    Ok(ScramCredential::new(mechanism, salt, salted_password, *iterations))
}

fn unacceptable(words: &str) -> Refused {
    Refused::new(ErrorCode::UnacceptableCredential, words)
}
