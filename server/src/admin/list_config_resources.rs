//! ListConfigResources (KIP-1142): resources that have configs or can have them.

use super::View;
use crate::cluster::{
    BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, LOGGER_RESOURCE, TOPIC_RESOURCE,
};
use muster_codec::messages::{
    ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse,
};
use muster_codec::{AnswerBudget, ErrorCode, Str};

/// All resource types, in the order in which Kafka lists them.
const LISTED: [i8; 5] =
    [GROUP_RESOURCE, CLIENT_METRICS_RESOURCE, LOGGER_RESOURCE, BROKER_RESOURCE, TOPIC_RESOURCE];

/// Lists all topics and brokers, and those groups and client metrics subscriptions that have
/// configs. A request without types asks for all types; in version 0, all requests ask only for
/// subscriptions. The answer is UNKNOWN_SERVER_ERROR if it would exceed its budget.
pub fn list_config_resources<'r>(
    view: &View<'r>,
    version: i16,
    request: &ListConfigResourcesRequest,
) -> ListConfigResourcesResponse<'r> {
    ResourceList::new(version, request).next(view, usize::MAX)
}

/// A list of resources that is produced in parts.
#[derive(Debug)]
pub struct ResourceList {
    /// The resource types that are not finished, in reverse order: the next type is the last item.
    types: Vec<i8>,
    /// The name at which the list continues within the next type.
    from: String,
    budget: AnswerBudget,
    /// Whether the request names an unknown resource type.
    is_refused: bool,
}

impl ResourceList {
    pub fn new(version: i16, request: &ListConfigResourcesRequest) -> Self {
        let asked = &request.resource_types;
        let is_refused = asked.iter().any(|asked| !LISTED.contains(asked));
        let asked = if version == 0 { &[CLIENT_METRICS_RESOURCE][..] } else { asked };
        let is_asked = |listed: &i8| !is_refused && (asked.is_empty() || asked.contains(listed));
        let types = LISTED.into_iter().rev().filter(is_asked).collect();
        Self { types, from: String::new(), budget: AnswerBudget::of_answer(), is_refused }
    }

    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// At most `count` of the next resources, or one error that refuses the whole request.
    pub fn next<'r>(&mut self, view: &View<'r>, count: usize) -> ListConfigResourcesResponse<'r> {
        if self.is_refused {
            return refused(ErrorCode::UnsupportedVersion);
        }
        let mut config_resources = Vec::new();
        while let Some(resource_type) = self.types.last().copied() {
            let from = std::mem::take(&mut self.from);
            for resource_name in names(view, resource_type, &from) {
                if config_resources.len() == count {
                    self.from = resource_name.into_owned();
                    return ListConfigResourcesResponse { config_resources, ..Default::default() };
                }
                match self.budget.fit(ConfigResource { resource_name, resource_type }) {
                    Some(resource) => config_resources.push(resource),
                    None => {
                        self.types.clear();
                        return refused(ErrorCode::UnknownServerError);
                    }
                }
            }
            self.types.pop();
        }
        ListConfigResourcesResponse { config_resources, ..Default::default() }
    }
}

fn refused(error: ErrorCode) -> ListConfigResourcesResponse<'static> {
    ListConfigResourcesResponse { error_code: error.code(), ..Default::default() }
}

/// The names of a type's resources in order, starting at `from`. (Brokers are few, so brokers
/// before `from` are skipped one by one.)
fn names<'r>(
    view: &View<'r>,
    resource_type: i8,
    from: &str,
) -> Box<dyn Iterator<Item = Str<'r>> + 'r> {
    let image = view.image;
    match resource_type {
        GROUP_RESOURCE | CLIENT_METRICS_RESOURCE => {
            Box::new(image.configured(resource_type, from).map(Str::Borrowed))
        }
        TOPIC_RESOURCE => {
            Box::new(image.all_topics_from(from).map(|topic| Str::Borrowed(&*topic.name)))
        }
        BROKER_RESOURCE | LOGGER_RESOURCE => {
            let names = view.brokers.all().map(|(node, _)| Str::Owned(node.to_string()));
            let names: Vec<_> =
                names.skip_while(|name| !from.is_empty() && **name != *from).collect();
            Box::new(names.into_iter())
        }
        _ => Box::new(std::iter::empty()),
    }
}
