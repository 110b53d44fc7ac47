//! The meaning of error codes for a member, and their names.

use muster_codec::{ApiKey, ErrorCode};

/// Why a member can't continue, in one sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Fatal(pub(super) String);

pub(super) type Step<T = ()> = Result<T, Fatal>;

/// How clients react to an error that has no specific meaning for the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Remedy {
    /// Retry after the back-off.
    Retry,
    /// Retry, but look up the coordinator first.
    LookUp,
    GiveUp,
}

/// The error of an answer, or `None`. As in Kafka's clients, an unknown code counts as an unknown
/// server error.
pub(super) fn refusal(code: i16) -> Option<ErrorCode> {
    let error = ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError);
    (error != ErrorCode::None).then_some(error)
}

/// Whether Kafka's clients retry after this error (`RetriableException`). CONCURRENT_TRANSACTIONS
/// is not in the list: only producers receive it, and they check for it separately.
pub(super) fn is_retriable(error: ErrorCode) -> bool {
    use ErrorCode as E;
    matches!(
        error,
        E::CorruptMessage
            | E::UnknownTopicOrPartition
            | E::LeaderNotAvailable
            | E::NotLeaderOrFollower
            | E::RequestTimedOut
            | E::ReplicaNotAvailable
            | E::NetworkException
            | E::CoordinatorLoadInProgress
            | E::CoordinatorNotAvailable
            | E::NotCoordinator
            | E::NotEnoughReplicas
            | E::NotEnoughReplicasAfterAppend
            | E::NotController
            | E::KafkaStorageError
            | E::FetchSessionIdNotFound
            | E::InvalidFetchSessionEpoch
            | E::ListenerNotFound
            | E::FencedLeaderEpoch
            | E::UnknownLeaderEpoch
            | E::OffsetNotAvailable
            | E::PreferredLeaderNotAvailable
            | E::EligibleLeadersNotAvailable
            | E::ElectionNotNeeded
            | E::UnstableOffsetCommit
            | E::ThrottlingQuotaExceeded
            | E::UnknownTopicId
            | E::InconsistentTopicId
            | E::FetchSessionTopicIdError
            | E::ShareSessionNotFound
            | E::InvalidShareSessionEpoch
            | E::ShareSessionLimitReached
    )
}

pub(super) fn remedy(error: ErrorCode) -> Remedy {
    match error {
        ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable => Remedy::LookUp,
        error if is_retriable(error) => Remedy::Retry,
        _ => Remedy::GiveUp,
    }
}

/// The sentence for an error that clients treat as fatal. `said` is the server's own message.
pub(super) fn fatal(api: ApiKey, group: &str, error: ErrorCode, said: Option<&str>) -> Fatal {
    fatal_of(api, &format!("group {group}"), error, said)
}

/// Like [`fatal`], for something other than a group, such as a producer.
pub(super) fn fatal_of(api: ApiKey, of: &str, error: ErrorCode, said: Option<&str>) -> Fatal {
    let hint = said.filter(|said| !said.is_empty()).unwrap_or_else(|| hint(error));
    let colon = if hint.is_empty() { "" } else { ": " };
    let name = error_name(error);
    Fatal(format!("{} of {of} was refused with {name}{colon}{hint}", api.name()))
}

/// The cluster lacks this API, or the version that is needed.
pub(super) fn unsupported(api: ApiKey, needed: &str) -> Fatal {
    Fatal(format!("the cluster does not support {}{needed}", api.name()))
}

fn hint(error: ErrorCode) -> &'static str {
    match error {
        ErrorCode::GroupAuthorizationFailed => "the user needs READ on the group",
        ErrorCode::TopicAuthorizationFailed => "the user needs READ on the topics",
        ErrorCode::InconsistentGroupProtocol => {
            "the group's members have another protocol, or no assignor in common"
        }
        ErrorCode::InvalidSessionTimeout => {
            "the session timeout is outside the broker's group.min.session.timeout.ms and \
             group.max.session.timeout.ms"
        }
        ErrorCode::GroupMaxSizeReached => {
            "the group has as many members as the broker allows (group.max.size, or \
             group.consumer.max.size)"
        }
        ErrorCode::UnsupportedVersion => {
            "the cluster does not support this group protocol, or has it switched off"
        }
        ErrorCode::UnsupportedAssignor => {
            "the broker does not have this assignor (group.consumer.assignors)"
        }
        ErrorCode::FencedInstanceId => "another member has joined with the same group.instance.id",
        ErrorCode::InvalidProducerEpoch | ErrorCode::ProducerFenced => {
            "another producer with this transactional.id has begun, or the transaction timed out"
        }
        ErrorCode::TransactionalIdAuthorizationFailed => {
            "the user needs WRITE on the transactional.id"
        }
        ErrorCode::InvalidTransactionTimeout => {
            "transaction-timeout is above the broker's transaction.max.timeout.ms"
        }
        ErrorCode::InvalidGroupId => "the group id is not valid",
        ErrorCode::InvalidRequest => "the broker considers the request malformed",
        ErrorCode::InvalidRegularExpression => "the subscription's pattern is not valid RE2",
        _ => "",
    }
}

/// The error's name in the protocol guide, such as `UNKNOWN_MEMBER_ID`.
pub(crate) fn error_name(error: ErrorCode) -> String {
    let mut name = String::new();
    for letter in format!("{error:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fatal_errors_are_one_sentence() {
        let error = fatal(ApiKey::JoinGroup, "g", ErrorCode::GroupAuthorizationFailed, None);
        assert_eq!(
            error.0,
            "JoinGroup of group g was refused with GROUP_AUTHORIZATION_FAILED: \
             the user needs READ on the group"
        );
        let error =
            fatal(ApiKey::ConsumerGroupHeartbeat, "g", ErrorCode::InvalidRequest, Some("no"));
        assert!(error.0.ends_with("INVALID_REQUEST: no"), "{}", error.0);
        let unknown = refusal(999).unwrap();
        let error = fatal(ApiKey::Heartbeat, "g", unknown, None);
        assert!(error.0.ends_with("refused with UNKNOWN_SERVER_ERROR"), "{}", error.0);
        assert_eq!(refusal(0), None);
    }
}
