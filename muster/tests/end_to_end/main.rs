//! The binary `muster` under test, in processes of its own. All of these tests are one program:
//! each further one would compile and link `support/` and the server again.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, unreachable_pub)]

mod acls;
mod amplification;
mod at_rest;
mod at_rest_matrix;
mod audit;
mod back_pressure;
mod bad_input;
mod compaction;
mod configs;
mod crash;
mod crash_consumer_groups;
mod crash_migration;
mod crash_mixed;
mod damage_while_serving;
mod descriptors;
mod disk_reserve;
mod disk_room;
mod doctor;
mod durability;
mod fairness;
mod fetch_memory;
mod first_hour;
mod full_disk;
mod hanging_disk;
mod incidents;
mod kafka_answers;
mod large_groups;
mod listeners;
mod log_exchange;
mod log_tools;
mod logging;
mod metrics;
mod operator;
mod partitions_at_rest;
mod power_loss;
mod reasons;
mod recover;
mod recovered;
mod sasl;
mod sessions;
mod share_exchange;
mod share_groups;
mod snapshots;
mod soak;
mod streams_groups;
mod supervised;
mod support;
mod telemetry;
mod tls;
mod transactional_offsets;
mod transactions;
mod write_errors;
