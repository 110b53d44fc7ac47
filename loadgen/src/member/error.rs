//! The meaning of error codes for a member, and their texts.

use std::fmt;

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::ApiKey;

use super::streams::STREAMS_HEARTBEAT;

/// Why a member can't continue: one clear sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Fatal(pub(super) String);

/// An API that members use. `kafka-protocol` 0.18 does not know all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Api {
    Known(ApiKey),
    StreamsGroupHeartbeat,
}

pub(super) type Step<T = ()> = Result<T, Fatal>;

/// The reaction of clients to an error that has no specific meaning for the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Remedy {
    /// Try again after the back-off.
    Retry,
    /// The same, but look up the coordinator first.
    LookUp,
    GiveUp,
}

impl Api {
    pub(super) fn key(self) -> i16 {
        match self {
            Self::Known(api) => api as i16,
            Self::StreamsGroupHeartbeat => STREAMS_HEARTBEAT,
        }
    }
}

impl From<ApiKey> for Api {
    fn from(api: ApiKey) -> Self {
        Self::Known(api)
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(api) => write!(f, "{api:?}"),
            Self::StreamsGroupHeartbeat => f.write_str("StreamsGroupHeartbeat"),
        }
    }
}

pub(super) fn remedy(error: ResponseError) -> Remedy {
    match error {
        ResponseError::NotCoordinator | ResponseError::CoordinatorNotAvailable => Remedy::LookUp,
        error if error.is_retriable() => Remedy::Retry,
        _ => Remedy::GiveUp,
    }
}

/// The sentence for an error that clients treat as fatal. `said` is the server's own message.
pub(super) fn fatal(
    api: impl Into<Api>,
    group: &str,
    error: ResponseError,
    said: Option<&str>,
) -> Fatal {
    fatal_of(api, &format!("group {group}"), error, said)
}

/// The same sentence about something else than a group, such as a producer.
pub(super) fn fatal_of(
    api: impl Into<Api>,
    of: &str,
    error: ResponseError,
    said: Option<&str>,
) -> Fatal {
    let api = api.into();
    let hint = said.filter(|said| !said.is_empty()).unwrap_or_else(|| hint(error));
    let colon = if hint.is_empty() { "" } else { ": " };
    let name = name(error);
    Fatal(format!("{api} of {of} was refused with {name}{colon}{hint}"))
}

/// The cluster lacks an API, or the version of it that is needed.
pub(super) fn unsupported(api: impl Into<Api>, needed: &str) -> Fatal {
    Fatal(format!("the cluster does not support {}{needed}", api.into()))
}

fn hint(error: ResponseError) -> &'static str {
    match error {
        ResponseError::GroupAuthorizationFailed => "the user needs READ on the group",
        ResponseError::TopicAuthorizationFailed => "the user needs READ on the topics",
        ResponseError::InconsistentGroupProtocol => {
            "the group's members have another protocol, or no assignor in common"
        }
        ResponseError::InvalidSessionTimeout => {
            "the session timeout is outside the broker's group.min.session.timeout.ms and \
             group.max.session.timeout.ms"
        }
        ResponseError::GroupMaxSizeReached => {
            "the group has as many members as the broker allows (group.max.size, or \
             group.consumer.max.size)"
        }
        ResponseError::UnsupportedVersion => {
            "the cluster does not support this group protocol, or has it switched off"
        }
        ResponseError::UnsupportedAssignor => {
            "the broker does not have this assignor (group.consumer.assignors)"
        }
        ResponseError::FencedInstanceId => {
            "another member has joined with the same group.instance.id"
        }
        ResponseError::InvalidProducerEpoch | ResponseError::ProducerFenced => {
            "another producer with this transactional.id has begun, or the transaction timed out"
        }
        ResponseError::TransactionalIdAuthorizationFailed => {
            "the user needs WRITE on the transactional.id"
        }
        ResponseError::InvalidTransactionTimeout => {
            "transaction-timeout is above the broker's transaction.max.timeout.ms"
        }
        ResponseError::InvalidGroupId => "the group id is not valid",
        ResponseError::InvalidRequest => "the broker considers the request malformed",
        ResponseError::InvalidRegularExpression => "the subscription's pattern is not valid RE2",
        _ => "",
    }
}

/// The error's name as Kafka writes it: `NOT_COORDINATOR`.
fn name(error: ResponseError) -> String {
    let ResponseError::Unknown(code) = error else {
        let camel = format!("{error:?}");
        let mut name = String::with_capacity(camel.len() + 4);
        for (at, letter) in camel.char_indices() {
            if letter.is_uppercase() && at > 0 {
                name.push('_');
            }
            name.push(letter.to_ascii_uppercase());
        }
        return name;
    };
    format!("the unknown error code {code}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fatal_errors_are_one_sentence() {
        let error = fatal(ApiKey::JoinGroup, "g", ResponseError::GroupAuthorizationFailed, None);
        assert_eq!(
            error.0,
            "JoinGroup of group g was refused with GROUP_AUTHORIZATION_FAILED: \
             the user needs READ on the group"
        );
        let error =
            fatal(ApiKey::ConsumerGroupHeartbeat, "g", ResponseError::InvalidRequest, Some("no"));
        assert!(error.0.ends_with("INVALID_REQUEST: no"), "{}", error.0);
        let error = fatal(ApiKey::Heartbeat, "g", ResponseError::Unknown(999), None);
        assert!(error.0.ends_with("refused with the unknown error code 999"), "{}", error.0);
    }
}
