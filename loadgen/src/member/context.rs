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

/// Requests to send and events to report. The owner takes them out and passes it again.
#[derive(Default)]
pub struct Output {
    pub requests: Vec<Outgoing>,
    pub events: Vec<Event>,
    pub spans: Vec<Span>,
}
