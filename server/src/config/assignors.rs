//! Assignors as configs name them: by name, or by the class name of Kafka's assignor.

use muster_coordinator::assignors::Assignor;

/// The assignor of consumer groups with this name.
pub(super) fn of_consumer_groups(name: &str) -> Option<Assignor> {
    match name {
        "org.apache.kafka.coordinator.group.assignor.UniformAssignor" => Some(Assignor::Uniform),
        "org.apache.kafka.coordinator.group.assignor.RangeAssignor" => Some(Assignor::Range),
        name => Assignor::by_name(name),
    }
}

/// Whether this is the name of the assignor of share groups; there is only one.
pub(super) fn is_of_share_groups(name: &str) -> bool {
    matches!(name, "simple" | "org.apache.kafka.coordinator.group.assignor.SimpleAssignor")
}
