//! Configs that clients altered while the server ran: by resource, in place of the defaults.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Config names and values that replace defaults.
pub type Overrides = BTreeMap<String, String>;

/// Kafka's number of topics among the resources that have configs.
pub const TOPIC_RESOURCE: i8 = 2;
/// Kafka's number of brokers; the name is the node id, or empty for all brokers.
pub const BROKER_RESOURCE: i8 = 4;
/// Kafka's number of loggers, whose configs muster does not have.
pub const LOGGER_RESOURCE: i8 = 8;
/// Kafka's number of subscriptions to metrics of clients. Any name may have configs.
pub const CLIENT_METRICS_RESOURCE: i8 = 16;
/// Kafka's number of groups; the name is the group id. The group need not exist.
pub const GROUP_RESOURCE: i8 = 32;

/// The configs of all resources that have any of their own.
pub trait Altered {
    /// The altered configs of one resource, by Kafka's number of its type and its name.
    fn configs(&self, resource_type: i8, name: &str) -> Option<&Overrides>;
}

impl<A: Altered> Altered for Arc<A> {
    fn configs(&self, resource_type: i8, name: &str) -> Option<&Overrides> {
        A::configs(self, resource_type, name)
    }
}
