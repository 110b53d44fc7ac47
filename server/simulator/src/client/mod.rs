//! The clients: members as muster-load has them, and raw clients that know what they were promised.

mod admin;
mod committer;
mod founder;
mod hostile;
mod links;
mod members;
mod producer;
mod raw;
mod reader;

pub(crate) use admin::Admin;
pub(crate) use committer::Committer;
pub(crate) use founder::{Founder, TopicPlan};
pub(crate) use hostile::Hostile;
pub(crate) use members::{MemberSeat, member_group, seat_members};
pub(crate) use producer::Producer;
pub(crate) use raw::{Raw, RawSeat, Surroundings, Wish, read_response};
pub(crate) use reader::{Reader, each_batch};
