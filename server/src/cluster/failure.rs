//! The response to a request whose change of the cluster was not written.

use muster_codec::{ControllerResponse, ErrorCode};

/// Sets an error in a response because the records of its request were not written.
pub(crate) fn fail(response: &mut ControllerResponse<'_>, error: ErrorCode) {
    let error_code = error.code();
    match response {
        ControllerResponse::CreateTopics(body) => {
            body.topics.iter_mut().for_each(|topic| topic.error_code = error_code);
        }
        ControllerResponse::DeleteTopics(body) => {
            body.responses.iter_mut().for_each(|topic| topic.error_code = error_code);
        }
        ControllerResponse::CreatePartitions(body) => {
            body.results.iter_mut().for_each(|topic| topic.error_code = error_code);
        }
        ControllerResponse::DescribeQuorum(body) => body.error_code = error_code,
        ControllerResponse::AlterConfigs(body) => {
            body.responses.iter_mut().for_each(|resource| resource.error_code = error_code);
        }
        ControllerResponse::CreateAcls(body) => {
            body.results.iter_mut().for_each(|acl| acl.error_code = error_code);
        }
        ControllerResponse::DeleteAcls(body) => {
            body.filter_results.iter_mut().for_each(|filter| filter.error_code = error_code);
        }
        ControllerResponse::AlterClientQuotas(body) => {
            body.entries.iter_mut().for_each(|entity| entity.error_code = error_code);
        }
        ControllerResponse::AlterUserScramCredentials(body) => {
            body.results.iter_mut().for_each(|user| user.error_code = error_code);
        }
        ControllerResponse::IncrementalAlterConfigs(body) => {
            body.responses.iter_mut().for_each(|resource| resource.error_code = error_code);
        }
    }
}
