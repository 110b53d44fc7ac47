//! The server's configuration: Kafka's keys, types, defaults and rules.
