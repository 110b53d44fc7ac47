//! Decodes and encodes Kafka's messages and records.
//!
//! The crate does no I/O, has no unsafe code, and does not panic on any input: every length is
//! checked against the bytes that follow before memory is reserved for it. A decoded value borrows
//! strings and bytes from its frame, so that decoding a valid request allocates for arrays only.
//!
//! Where to look:
//! - [`wire`]: the primitive types; [`field`]: how a type reads and writes itself; `message!`:
//!   declares a message once for all its versions.
//! - [`api`]: the table of API keys and versions, from which ApiVersions, decoding, encoding and
//!   routing derive.
//! - [`messages`]: one file per API. [`records`]: the records of a shard's log.
//! - [`record_batch`]: RecordBatch v2 with its CRC-32C.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod declare;

pub mod answer_budget;
pub mod api;
pub mod consumer_protocol;
pub mod error_code;
pub mod field;
pub mod frame;
pub mod header;
pub mod limits;
pub mod messages;
pub mod record_batch;
pub mod records;
pub mod types;
pub mod wall;
pub mod wire;

pub use answer_budget::AnswerBudget;
pub use api::{
    ApiKey, BrokerRequest, ClusterRequest, ControllerRequest, ControllerResponse, GroupRequest,
    GroupResponse, PartitionRequest, Request, Response, Role, Routed, ShareRequest, ShareResponse,
    TransactionRequest,
};
pub use error_code::ErrorCode;
pub use field::{Field, Nullable, Version};
pub use types::{Bytes, Gap, Records, SecretBytes, Str, Uuid};
pub use wall::Wall;
pub use wire::{DecodeError, Reader};
