//! Configs that clients have altered at runtime. For their resource they override the server's
//! values.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Config names and values that replace defaults.
pub type Overrides = BTreeMap<String, String>;

/// Kafka's resource type of topics.
pub const TOPIC_RESOURCE: i8 = 2;
/// Kafka's resource type of brokers. The name is the node id, or empty for all brokers.
pub const BROKER_RESOURCE: i8 = 4;
/// Kafka's resource type of loggers, which have no configs in muster.
pub const LOGGER_RESOURCE: i8 = 8;
/// Kafka's resource type of client metrics subscriptions. Any name that is not empty is allowed.
pub const CLIENT_METRICS_RESOURCE: i8 = 16;
/// Kafka's resource type of groups. The name is the group id; the group need not exist.
pub const GROUP_RESOURCE: i8 = 32;

/// Access to the altered configs of all resources.
pub trait Altered {
    /// The altered configs of one resource; `resource_type` is Kafka's number.
    fn configs(&self, resource_type: i8, name: &str) -> Option<&Overrides>;
}

impl<A: Altered> Altered for Arc<A> {
    fn configs(&self, resource_type: i8, name: &str) -> Option<&Overrides> {
        A::configs(self, resource_type, name)
    }
}
