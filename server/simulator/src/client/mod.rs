//! The clients: members of muster-load, and raw clients that check their answers. They decide which
//! request is next; `world/clients` sends it.

mod admin;
mod classic_id;
mod committer;
mod converter;
mod granter;
mod hostile;
mod limiter;
mod meddler;
mod members;
mod producer;
mod raw;
mod reader;
mod rules;
mod several;
mod sharer;
mod streams;
mod topic_creator;
mod transactor;
mod user;

pub(crate) use admin::Admin;
pub(crate) use classic_id::ClassicId;
pub(crate) use committer::Committer;
pub(crate) use converter::Converter;
pub(crate) use granter::{Granter, rules_of};
pub(crate) use hostile::{Hostile, garbage};
pub(crate) use limiter::{LIMITED, Limiter, Quotas, quotas_of};
pub(crate) use meddler::Meddler;
pub(crate) use members::{SimMember, is_static_cooperative, member_group, new_members};
pub(crate) use producer::Producer;
pub(crate) use raw::{Brokers, NextRequest, Raw, SimClient, Surroundings, read_response};
pub(crate) use reader::{Reader, each_batch};
pub(crate) use rules::{Book, Finding, Right, Rule, allow};
pub(crate) use several::Several;
pub(crate) use sharer::{
    Acknowledgement, CONFIGS as SHARE_CONFIGS, Delivery, Kind, Number, Sharer,
};
pub(crate) use streams::{Readiness, SOURCES as STREAMED, readiness};
pub(crate) use topic_creator::{TopicCreator, TopicPlan};
pub(crate) use transactor::{
    COMPACTED, PARTITIONS as TRANSACTED_PARTITIONS, TRANSACTED, Transactor,
};
pub(crate) use user::User;
