//! DescribeUserScramCredentials: each user's SCRAM mechanisms and iteration counts, no secrets.

use super::View;
use crate::cluster::ClusterImage;
use crate::security::ScramMechanism;
use muster_codec::ErrorCode;
use muster_codec::messages::{
    DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult, ScramCredentialInfo,
};
use std::collections::BTreeMap;

/// Describes the named users, or all users.
pub fn describe_user_scram_credentials<'r>(
    view: &View<'r>,
    request: &'r DescribeUserScramCredentialsRequest<'_>,
) -> DescribeUserScramCredentialsResponse<'r> {
    let mut named = BTreeMap::<&str, usize>::new();
    for user in request.users.iter().flatten() {
        *named.entry(&user.name).or_default() += 1;
    }
    let results = if named.is_empty() {
        all(view.image)
    } else {
        named.into_iter().map(|(name, times)| user(view.image, name, times)).collect()
    };
    DescribeUserScramCredentialsResponse { results, error_message: None, ..Default::default() }
}

fn all(image: &ClusterImage) -> Vec<DescribeUserScramCredentialsResult<'_>> {
    let mut results = Vec::<DescribeUserScramCredentialsResult<'_>>::new();
    for (name, mechanism, credential) in image.scram_credentials() {
        let info = info(mechanism, credential.iterations);
        match results.last_mut().filter(|last| last.user == name) {
            Some(last) => last.credential_infos.push(info),
            None => results.push(described(name, vec![info])),
        }
    }
    results
}

fn user<'r>(
    image: &ClusterImage,
    name: &'r str,
    times: usize,
) -> DescribeUserScramCredentialsResult<'r> {
    let refused = |error: ErrorCode, words: &str| DescribeUserScramCredentialsResult {
        user: name.into(),
        error_code: error.code(),
        error_message: Some(format!("{words}{name}").into()),
        credential_infos: Vec::new(),
    };
    if times > 1 {
        let words =
            "Cannot describe SCRAM credentials for the same user twice in a single request: ";
        return refused(ErrorCode::DuplicateResource, words);
    }
    let of = |mechanism| {
        let credential = image.scram_credential(name, mechanism)?;
        Some(info(mechanism, credential.iterations))
    };
    let infos: Vec<_> = ScramMechanism::ALL.into_iter().filter_map(of).collect();
    if infos.is_empty() {
        let words = "Attempt to describe a user credential that does not exist: ";
        return refused(ErrorCode::ResourceNotFound, words);
    }
    described(name, infos)
}

fn described<'r>(
    name: &'r str,
    credential_infos: Vec<ScramCredentialInfo>,
) -> DescribeUserScramCredentialsResult<'r> {
    let user = name.into();
    DescribeUserScramCredentialsResult {
        user,
        error_code: ErrorCode::None.code(),
        error_message: None,
        credential_infos,
    }
}

fn info(mechanism: ScramMechanism, iterations: i32) -> ScramCredentialInfo {
    ScramCredentialInfo { mechanism: mechanism.number(), iterations }
}
