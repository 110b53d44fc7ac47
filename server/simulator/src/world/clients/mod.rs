//! The clients in a run: their connections, timers, requests and answers.

mod cast;
mod hostile;
mod links;
mod members;
mod raw;

use crate::client::{Raw, Sharer, SimClient, SimMember};
use crate::random::Random;
use loadgen::member::Nodes;
use loadgen::topics::Topics;

/// Members of groups, and raw clients, which keep a book of their answers.
pub(crate) struct Clients {
    members: Vec<SimMember>,
    raws: Vec<SimClient>,
    /// The random numbers for the actions of the clients.
    random: Random,
    /// The random numbers for the creation of the clients.
    cast_random: Random,
    /// The topics, and the addresses of brokers, that members have learned.
    topics: Topics,
    nodes: Nodes,
}

impl Clients {
    /// No clients yet.
    pub(super) fn new(random: Random, cast_random: Random) -> Self {
        Self {
            members: Vec::new(),
            raws: Vec::new(),
            random,
            cast_random,
            topics: Topics::default(),
            nodes: Nodes::default(),
        }
    }

    pub(super) fn members(&self) -> &[SimMember] {
        &self.members
    }

    /// Adds raw clients after the existing ones; returns the number of the first new client.
    pub(super) fn add(&mut self, raws: impl Iterator<Item = Raw>) -> u32 {
        let first = self.raws.len() as u32;
        self.raws.extend(raws.map(SimClient::new));
        first
    }

    /// The raw clients.
    pub(super) fn raws(&self) -> impl Iterator<Item = &Raw> {
        self.raws.iter().map(|sim| &sim.raw)
    }

    pub(super) fn raw(&self, client: u32) -> &Raw {
        &self.raws[client as usize].raw
    }

    /// The raw client with this number, if it is a member of a share group.
    pub(super) fn sharer_mut(&mut self, client: u32) -> Option<&mut Sharer> {
        self.raws[client as usize].raw.as_sharer_mut()
    }

    /// The members of share groups.
    pub(super) fn sharers_mut(&mut self) -> impl Iterator<Item = &mut Sharer> {
        self.raws.iter_mut().filter_map(|sim| sim.raw.as_sharer_mut())
    }

    /// Whether no raw client waits for an answer.
    pub(super) fn are_answered(&self) -> bool {
        self.raws.iter().all(|sim| !sim.waits)
    }

    /// The topics that members use.
    pub(super) fn topics(&self) -> &Topics {
        &self.topics
    }

    /// Notes that groups have moved to other shards.
    pub(super) fn groups_moved(&mut self) {
        self.raws.iter_mut().for_each(|sim| sim.raw.groups_moved());
    }

    /// Replaces the members.
    #[cfg(test)]
    pub(super) fn set_members(&mut self, members: Vec<SimMember>) {
        self.members = members;
    }
}
