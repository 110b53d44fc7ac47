//! Which APIs have large answers, and which have long requests.

use super::apis::has_long_requests;
use muster_codec::ApiKey;

/// APIs with large answers that are nevertheless answered at once, and why.
const AT_ONCE: [(ApiKey, &str); 13] = [
    (ApiKey::CreateTopics, "the topics are created in one operation of the log, with one answer"),
    (ApiKey::DeleteAcls, "the ACLs of a cluster are limited"),
    (ApiKey::DescribeAcls, "the ACLs of a cluster are limited"),
    (ApiKey::DescribeClientQuotas, "the quotas of a cluster are limited"),
    (ApiKey::DescribeLogDirs, "the answer is one element, with a look-up for each partition"),
    (ApiKey::DescribeProducers, "the producers of an answer are limited"),
    (ApiKey::DescribeUserScramCredentials, "the credentials of all users are limited"),
    (ApiKey::DescribeTransactions, "the partitions of open transactions are limited"),
    (ApiKey::DescribeShareGroupOffsets, "the leaders are asked group by group"),
    (ApiKey::GetTelemetrySubscriptions, "the metrics of all subscriptions are limited"),
    (ApiKey::StreamsGroupHeartbeat, "the endpoints of a group are encoded once for all answers"),
    (ApiKey::ReadShareGroupState, "the batches of a share partition are limited"),
    (ApiKey::ReadShareGroupStateSummary, "the answer is a look-up for each partition"),
];

#[test]
fn large_answers_are_in_slices_unless_there_is_a_reason() {
    for api in ApiKey::ALL.iter().filter(|api| api.has_large_answers()) {
        let reason = AT_ONCE.iter().find(|(at_once, _)| at_once == api);
        assert!(
            has_long_requests(*api) != reason.is_some(),
            "{}: in slices {}, at once {reason:?}",
            api.name(),
            has_long_requests(*api)
        );
    }
    assert!(AT_ONCE.iter().all(|(api, _)| api.has_large_answers()));
}
