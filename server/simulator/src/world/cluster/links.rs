//! The connections between the nodes of a cluster. A shard of a node has one with the same shard of
//! each other node. Messages arrive in their order. What is on its way is lost with the connection.

use crate::event::Pair;
use crate::node::PeerLetter;
use crate::profile::{MS, SECOND};
use crate::random::Random;
use std::collections::{BTreeMap, VecDeque};

/// The shortest and the longest pause before a node dials again.
const DIAL_PAUSE: (u64, u64) = (50 * MS, SECOND);

#[derive(Default)]
struct Link {
    /// The number of the connection, if there is one.
    connection: Option<u64>,
    /// Whether the nodes dial, or will.
    is_dialled: bool,
    /// Whether the last attempt was refused.
    is_refused: bool,
    /// The messages on their way to the first node, and to the second one.
    letters: [VecDeque<PeerLetter>; 2],
    /// When the last of it arrives.
    last: [u64; 2],
}

pub(super) struct Links {
    all: BTreeMap<Pair, Link>,
    connections: u64,
    delay: (u64, u64),
    random: Random,
}

impl Links {
    pub(super) fn new(delay: (u64, u64), random: Random) -> Self {
        Self { all: BTreeMap::new(), connections: 0, delay, random }
    }

    /// Ends all faults.
    pub(super) fn calm(&mut self) {
        self.delay = (20, 2 * MS);
    }

    pub(super) fn delay(&mut self) -> u64 {
        self.random.skewed(self.delay.0, self.delay.1)
    }

    fn link(&mut self, pair: Pair) -> &mut Link {
        self.all.entry(pair).or_default()
    }

    /// Whether the nodes have yet to begin to dial. Then they dial until they are connected.
    pub(super) fn begins_to_dial(&mut self, pair: Pair) -> bool {
        let link = self.link(pair);
        link.connection.is_none() && !std::mem::replace(&mut link.is_dialled, true)
    }

    /// The pause before the next attempt.
    pub(super) fn dial_pause(&mut self) -> u64 {
        self.random.between(DIAL_PAUSE.0, DIAL_PAUSE.1)
    }

    /// Connects a pair.
    pub(super) fn connect(&mut self, pair: Pair) {
        self.connections += 1;
        let connection = Some(self.connections);
        *self.link(pair) = Link { connection, ..Link::default() };
    }

    /// Notes that an attempt was refused. Returns whether it is the first one.
    pub(super) fn refused(&mut self, pair: Pair) -> bool {
        !std::mem::replace(&mut self.link(pair).is_refused, true)
    }

    /// Ends the connections of a node. Returns those that there were.
    pub(super) fn end_all(&mut self, node: u32) -> Vec<Pair> {
        let mut ended = Vec::new();
        for (pair, link) in self.all.iter_mut().filter(|(pair, _)| pair.nodes.contains(&node)) {
            if link.connection.take().is_some() {
                *link = Link::default();
                ended.push(*pair);
            }
        }
        ended
    }

    /// Sends a message. Returns its connection and the time when it arrives; None if there is no
    /// connection.
    pub(super) fn send(
        &mut self,
        now: u64,
        (from, to, shard): (u32, u32, u32),
        letter: PeerLetter,
    ) -> Option<(u64, u64)> {
        let at = now + self.delay();
        let link = self.link(Pair::new(from, to, shard));
        let connection = link.connection?;
        let direction = usize::from(from < to);
        link.letters[direction].push_back(letter);
        link.last[direction] = link.last[direction].max(at);
        Some((connection, link.last[direction]))
    }

    /// The oldest message on its way from a node to another one, if its connection still exists.
    pub(super) fn arrive(
        &mut self,
        (from, to, shard): (u32, u32, u32),
        connection: u64,
    ) -> Option<PeerLetter> {
        let link = self.link(Pair::new(from, to, shard));
        let is_same = link.connection == Some(connection);
        if is_same { link.letters[usize::from(from < to)].pop_front() } else { None }
    }
}
