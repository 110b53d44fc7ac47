//! The input and the output of a call of a member.

use super::io::{Nodes, Outgoing, Span, Versions};
use crate::event::Event;
use crate::time::Time;
use crate::topics::Topics;

/// The input of each call of a member.
pub struct Context<'a> {
    pub now: Time,
    pub topics: &'a Topics,
    pub versions: &'a Versions,
    pub nodes: &'a mut Nodes,
    pub random: &'a mut fastrand::Rng,
}

/// The requests to send and the events to report. The caller empties the lists, and passes the same
/// output to the next call, so that the memory is used again.
#[derive(Default)]
pub struct Output {
    pub requests: Vec<Outgoing>,
    pub events: Vec<Event>,
    pub spans: Vec<Span>,
}
