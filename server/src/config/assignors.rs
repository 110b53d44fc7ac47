//! The assignors of groups as configs name them: by their names, or by the classes that have them
//! in Kafka.

use muster_coordinator::assignors::Assignor;

/// An assignor of consumer groups.
pub(super) fn of_consumer_groups(name: &str) -> Option<Assignor> {
    match name {
        "org.apache.kafka.coordinator.group.assignor.UniformAssignor" => Some(Assignor::Uniform),
        "org.apache.kafka.coordinator.group.assignor.RangeAssignor" => Some(Assignor::Range),
        name => Assignor::by_name(name),
    }
}

/// Whether it is the assignor of share groups.
pub(super) fn is_of_share_groups(name: &str) -> bool {
    matches!(name, "simple" | "org.apache.kafka.coordinator.group.assignor.SimpleAssignor")
}
