//! ListConfigResources (KIP-1142): the resources that have configs, or may have.

use super::{BROKER_LOGGER_RESOURCE, View, nodes};
use crate::cluster::{BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE};
use muster_codec::messages::{
    ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse,
};
use muster_codec::{AnswerBudget, ErrorCode, Str};

/// muster has no client metrics, so none are listed.
const CLIENT_METRICS_RESOURCE: i8 = 16;

/// All resource types, in the order in which Kafka lists them.
const LISTED: [i8; 5] = [
    GROUP_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
];

/// Topics and brokers, and the groups that have configs of their own. Version 0 asks for client
/// metrics alone; no types stand for all types. UNKNOWN_SERVER_ERROR if the answer exceeds its
/// budget.
pub fn list_config_resources<'r>(
    view: &View<'r>,
    version: i16,
    request: &ListConfigResourcesRequest,
) -> ListConfigResourcesResponse<'r> {
    let asked = &request.resource_types;
    if asked.iter().any(|asked| !LISTED.contains(asked)) {
        let error_code = ErrorCode::UnsupportedVersion.code();
        return ListConfigResourcesResponse { error_code, ..Default::default() };
    }
    let is_asked = |listed: &i8| version > 0 && (asked.is_empty() || asked.contains(listed));
    let mut budget = AnswerBudget::of_answer();
    let listed = LISTED.into_iter().filter(is_asked).flat_map(|listed| resources(view, listed));
    match listed.map(|resource| budget.fit(resource)).collect() {
        Some(config_resources) => {
            ListConfigResourcesResponse { config_resources, ..Default::default() }
        }
        None => {
            let error_code = ErrorCode::UnknownServerError.code();
            ListConfigResourcesResponse { error_code, ..Default::default() }
        }
    }
}

fn resources<'r>(view: &View<'r>, resource_type: i8) -> Vec<ConfigResource<'r>> {
    let named = |resource_name| ConfigResource { resource_name, resource_type };
    match resource_type {
        GROUP_RESOURCE => {
            let groups = view.image.configured(GROUP_RESOURCE);
            groups.map(|group| named(Str::Borrowed(group))).collect()
        }
        TOPIC_RESOURCE => {
            let topics = view.image.all_topics_from("");
            topics.map(|topic| named(Str::Borrowed(&topic.name))).collect()
        }
        BROKER_RESOURCE | BROKER_LOGGER_RESOURCE => {
            nodes(view).map(|(node, _)| named(Str::Owned(node.to_string()))).collect()
        }
        _ => Vec::new(),
    }
}
