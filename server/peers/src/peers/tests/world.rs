//! Shards with connections in memory. The bytes that one end sends arrive at the other in pieces. A
//! listening port is an entry of a map.

use super::*;
use crate::limits::UNACKNOWLEDGED_MS;
use crate::output::{Dial, DialError, MayBe};
use std::collections::{BTreeSet, VecDeque};

pub(super) type At = (NodeId, u16);

pub(super) struct World {
    pub(super) now: i64,
    pub(super) shards: BTreeMap<At, Shard>,
    /// The shards of processes that have ended.
    pub(super) past: Vec<(At, Shard)>,
    wires: Vec<Wire>,
    /// The directions in which bytes vanish.
    pub(super) cut: BTreeSet<(At, At)>,
    /// Whether some of what was sent arrives turns later.
    pub(super) is_late: bool,
    pub(super) random: fastrand::Rng,
}

pub(super) struct Shard {
    pub(super) peers: Peers,
    /// The time at which its clock began.
    begun: i64,
    pub(super) events: Vec<PeerEvent>,
    /// Notices about nodes that are connected, or cannot be reached.
    pub(super) reached: Vec<String>,
    /// All other notices.
    pub(super) notices: Vec<String>,
    pub(super) dials: Vec<(i64, Dial)>,
}

/// An open connection. End 0 has dialled.
struct Wire {
    ends: [(At, Connection); 2],
    /// The bytes on their way to each end.
    way: [VecDeque<u8>; 2],
    /// Whether each end is closed. The other one may not have noticed.
    is_closed: [bool; 2],
    /// The time since which no bytes of each end are acknowledged.
    silent: [Option<i64>; 2],
}

impl Wire {
    /// The number of an end.
    fn end(&self, at: At, connection: Connection) -> Option<usize> {
        self.ends.iter().position(|it| *it == (at, connection))
    }
}

impl Shard {
    pub(super) fn tick(&self, now: i64) -> Tick {
        tick_at(now - self.begun)
    }
}

/// A tick is 50 ms.
pub(super) fn tick_at(now: i64) -> Tick {
    Tick(1 + (now / 50) as u32)
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            now: 0,
            shards: BTreeMap::new(),
            past: Vec::new(),
            wires: Vec::new(),
            cut: BTreeSet::new(),
            is_late: false,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Starts all shards of a process.
    pub(super) fn start(&mut self, node: u16, shards: u16, session: u64) {
        for shard in 0..shards {
            self.start_as(identity(node, (shard, shards), session));
        }
    }

    pub(super) fn start_as(&mut self, own: Identity) {
        let nodes = (1..=3).map(|it| (NodeId(it), None));
        let at = (own.node, own.shard);
        let (begun, peers) = (self.now, Peers::new(own, nodes, self.now, tick_at(0)));
        let shard =
            Shard { peers, begun, events: vec![], reached: vec![], notices: vec![], dials: vec![] };
        self.shards.insert(at, shard);
    }

    /// The process ends: its connections are reset, and its ports refuse connections.
    pub(super) fn stop(&mut self, node: u16) {
        self.past.extend(self.shards.extract_if(.., |at, _| at.0 == NodeId(node)));
        self.reset(|ends| ends.iter().any(|it| it.0.0 == NodeId(node)));
    }

    /// Connections end, and what is on its way is lost. Both ends notice.
    pub(super) fn reset(&mut self, is_reset: impl Fn(&[(At, Connection); 2]) -> bool) {
        let reset: Vec<Wire> = self.wires.extract_if(.., |it| is_reset(&it.ends)).collect();
        for (at, connection) in reset.into_iter().flat_map(|it| it.ends) {
            self.call(at, |peers, out| peers.closed(connection, out));
        }
    }

    pub(super) fn of(&mut self, node: u16, shard: u16) -> &mut Shard {
        self.shards.get_mut(&(NodeId(node), shard)).unwrap()
    }

    pub(super) fn say(&mut self, from: u16, to: u16, message: &PeerMessage) {
        self.of(from, 0).peers.say(NodeId(to), message);
    }

    /// Calls a shard that runs, and carries out what follows.
    pub(super) fn call<T>(
        &mut self,
        at: At,
        call: impl FnOnce(&mut Peers, &mut Output) -> T,
    ) -> Option<T> {
        let mut out = Output::default();
        let shard = self.shards.get_mut(&at)?;
        shard.peers.advance(self.now, shard.tick(self.now));
        let result = call(&mut shard.peers, &mut out);
        self.follow(at, out);
        Some(result)
    }

    fn follow(&mut self, at: At, mut out: Output) {
        let Some(shard) = self.shards.get_mut(&at) else { return };
        shard.events.append(&mut out.events);
        for (_, notice) in out.notices {
            let is_common = matches!(notice, Notice::Connected(..) | Notice::Unreachable(..));
            let notices = if is_common { &mut shard.reached } else { &mut shard.notices };
            notices.push(notice.to_string());
        }
        shard.dials.extend(out.dial.iter().map(|it| (self.now, *it)));
        for connection in out.close {
            for wire in &mut self.wires {
                if let Some(end) = wire.end(at, connection) {
                    wire.is_closed[end] = true;
                }
            }
        }
        self.close_wires();
        out.dial.into_iter().for_each(|it| self.dial(at, it));
    }

    /// An end is closed if the other one is, unless the direction is cut: then nothing shows it. It
    /// is closed as well if its bytes are not acknowledged in time.
    fn close_wires(&mut self) {
        let (now, cut) = (self.now, &self.cut);
        let mut closed = Vec::new();
        self.wires.retain_mut(|wire| {
            for end in [0, 1] {
                let [to, from] = [wire.ends[end], wire.ends[1 - end]];
                let is_heard = wire.is_closed[1 - end] && !cut.contains(&(from.0, to.0));
                let is_late = wire.silent[end].is_some_and(|it| it + UNACKNOWLEDGED_MS <= now);
                if !wire.is_closed[end] && (is_heard || is_late) {
                    wire.is_closed[end] = true;
                    closed.push(to);
                }
            }
            wire.is_closed != [true; 2]
        });
        for (at, connection) in closed {
            self.call(at, |peers, out| peers.closed(connection, out));
        }
    }

    fn dial(&mut self, from: At, Dial { connection, node, shard }: Dial) {
        let to = (node, shard);
        if self.cut.contains(&(from, to)) || self.cut.contains(&(to, from)) {
            self.call(from, |peers, out| peers.dial_failed(connection, DialError::TimedOut, out));
        } else if let Some(accepted) = self.call(to, |peers, out| peers.accepted(MayBe::Any, out)) {
            let ends = [(from, connection), (to, accepted)];
            let (way, is_closed, silent) = Default::default();
            self.wires.push(Wire { ends, way, is_closed, silent });
            self.call(from, |peers, out| peers.dialled(connection, out));
        } else {
            self.call(from, |peers, out| peers.dial_failed(connection, DialError::Refused, out));
        }
    }

    /// A turn of each shard, and then all that was sent arrives.
    pub(super) fn turn(&mut self) {
        self.close_wires();
        let all: Vec<At> = self.shards.keys().copied().collect();
        for at in all {
            self.call(at, Peers::end_turn);
            self.send(at);
        }
        while self.deliver() && !(self.is_late && self.random.u8(..6) == 0) {}
    }

    fn send(&mut self, at: At) {
        let Some(shard) = self.shards.get(&at) else { return };
        let sent = shard.peers.to_send().map(|(connection, pieces)| {
            (connection, pieces.flatten().copied().collect::<Vec<u8>>())
        });
        for (connection, bytes) in sent.collect::<Vec<_>>() {
            let wire = self.wires.iter_mut().find(|it| it.ends.contains(&(at, connection)));
            let wire = wire.expect("an open connection");
            let end = usize::from(wire.ends[0] == (at, connection));
            let other = wire.ends[end].0;
            if self.cut.contains(&(at, other)) || self.cut.contains(&(other, at)) {
                wire.silent[1 - end].get_or_insert(self.now);
            } else {
                wire.silent[1 - end] = None;
            }
            if !self.cut.contains(&(at, other)) && !wire.is_closed[end] {
                wire.way[end].extend(&bytes);
            }
            self.call(at, |peers, _| peers.sent(connection, bytes.len()));
        }
    }

    /// Bytes that are no frame are on their way, on the connection that the first node has dialled.
    pub(super) fn damage(&mut self, from: u16, to: u16) {
        let is_of = |it: &&mut Wire| {
            let [dialled, accepted] = it.ends;
            (dialled.0.0, accepted.0.0) == (NodeId(from), NodeId(to))
        };
        self.wires.iter_mut().find(is_of).expect("a connection").way[1].extend([0; 8]);
    }

    /// Delivers some of the bytes under way on one connection, and sends the receiver's reaction.
    fn deliver(&mut self) -> bool {
        let most = self.random.usize(1..2_000);
        let ways = self.wires.iter_mut().flat_map(|it| it.ends.iter().zip(&mut it.way));
        let mut ways: Vec<_> = ways.filter(|(_, way)| !way.is_empty()).collect();
        if ways.is_empty() {
            return false;
        }
        let ((at, connection), way) = ways.swap_remove(self.random.usize(..ways.len()));
        let bytes: Vec<u8> = way.drain(..most.min(way.len())).collect();
        let (at, connection) = (*at, *connection);
        self.call(at, |peers, out| peers.received(connection, &bytes, out));
        self.send(at);
        true
    }

    /// Time passes. Each shard has a turn every 10 ms.
    pub(super) fn pass(&mut self, milliseconds: i64) {
        let until = self.now + milliseconds;
        while self.now < until {
            self.turn();
            self.now += 10;
        }
        self.turn();
    }

    /// The connections between live ends, from who has dialled to who has accepted.
    pub(super) fn connected(&self) -> Vec<(At, At)> {
        let is_up = |it: &&Wire| {
            let [(from, dialled), (to, accepted)] = it.ends;
            let mut links = self.shards[&from].peers.nodes[&to.0].links.values();
            let is_live = |it: &Incoming| it.is_live();
            links.any(|it| it.up().is_some_and(|up| up.connection == dialled))
                && self.shards[&to].peers.accepted.get(&accepted).is_some_and(is_live)
        };
        let mut all: Vec<(At, At)> =
            self.wires.iter().filter(is_up).map(|it| (it.ends[0].0, it.ends[1].0)).collect();
        all.sort_unstable();
        all
    }

    pub(super) fn wires(&self) -> usize {
        self.wires.len()
    }
}
