//! Random histories of three nodes: processes that end and return, connections that are reset, and
//! directions in which bytes vanish.

use super::world::{At, World};
use super::*;

const SEEDS: u64 = 25;

struct History {
    world: World,
    /// The number of shards of each node.
    shards: u16,
    sessions: u64,
    numbers: u64,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut world = World::new(seed);
        let shards = world.random.u16(1..=3);
        let mut history = Self { world, shards, sessions: 0, numbers: 0 };
        (1..=3).for_each(|it| history.start(it));
        history
    }

    fn start(&mut self, node: u16) {
        self.sessions += 1;
        self.world.start(node, self.shards, self.sessions);
    }

    fn all(&self) -> Vec<At> {
        self.world.shards.keys().copied().collect()
    }

    fn step(&mut self) {
        match self.world.random.u8(..60) {
            0 => {
                let node = self.world.random.u16(1..=3);
                self.world.stop(node);
            }
            1..4 => {
                let node = self.world.random.u16(1..=3);
                if !self.world.shards.contains_key(&(NodeId(node), 0)) {
                    self.start(node);
                }
            }
            4 => {
                let reset = self.world.random.u16(1..=3);
                self.world.reset(|ends| ends[0].0.0 == NodeId(reset));
            }
            5 => {
                let [from, to] = [(); 2].map(|()| NodeId(self.world.random.u16(1..=3)));
                for shard in 0..self.shards {
                    self.world.cut.insert(((from, shard), (to, shard)));
                }
            }
            6..8 => self.world.cut.clear(),
            _ => {}
        }
        for at in self.all() {
            let to = self.world.random.u16(1..=3);
            // Slot s is on shard s modulo the number of shards.
            let group = 1 + at.1 + self.shards * self.world.random.u16(..5);
            self.numbers += 1;
            let message = message(group, (at.0.0, to), self.numbers);
            self.world.call(at, |peers, _| peers.say(NodeId(to), &message));
        }
        let pause = self.world.random.i64(0..40);
        self.world.pass(pause);
    }
}

/// Checks what raft relies on: messages of a process come in their order, none comes twice, and
/// none of an older process comes once a newer one is known.
fn check(seed: u64, at: At, shard: &world::Shard) {
    let mut lines = shard.notices.iter();
    assert!(!lines.any(|it| it.contains("two processes")), "seed {seed} {at:?}");
    let mut known: BTreeMap<NodeId, Session> = BTreeMap::new();
    let mut older: BTreeMap<NodeId, Vec<Session>> = BTreeMap::new();
    let mut last: BTreeMap<(NodeId, Session), u64> = BTreeMap::new();
    for event in &shard.events {
        match event {
            PeerEvent::Connected { node, session } => {
                let before = known.insert(*node, *session).filter(|it| it != session);
                older.entry(*node).or_default().extend(before);
                let older = &older[node];
                assert!(!older.contains(session), "seed {seed} {at:?}: {session:?} of {node:?}");
            }
            PeerEvent::Heard { from, .. } => {
                assert_eq!(known.get(&from.0), Some(&from.1), "seed {seed} {at:?}");
            }
            PeerEvent::Said { from, message, .. } => {
                assert_eq!(known.get(&from.0), Some(&from.1), "seed {seed} {at:?}");
                let number = number_of(message);
                let before = last.insert(*from, number);
                assert!(before < Some(number), "seed {seed} {at:?}: {number} after {before:?}");
            }
            PeerEvent::Lost { .. } | PeerEvent::Described { .. } | PeerEvent::Dropped { .. } => {}
        }
    }
}

#[test]
fn messages_arrive_in_their_order_or_not_at_all() {
    let mut said = 0;
    for seed in 0..SEEDS {
        let mut history = History::new(seed);
        history.world.is_late = true;
        for _ in 0..200 {
            history.step();
        }
        history.world.is_late = false;
        history.world.cut.clear();
        for node in 1..=3 {
            if !history.world.shards.contains_key(&(NodeId(node), 0)) {
                history.start(node);
            }
        }
        // Some connections are noticed to be silent only after a while.
        history.world.pass(12_000);
        let connections = usize::from(history.shards) * 6;
        assert_eq!(history.world.connected().len(), connections, "seed {seed}");
        assert_eq!(history.world.wires(), connections, "seed {seed}");
        let World { shards, past, .. } = history.world;
        for (at, shard) in shards.into_iter().chain(past) {
            check(seed, at, &shard);
            said += shard.events.iter().filter(|it| matches!(it, PeerEvent::Said { .. })).count();
        }
    }
    assert!(said > 2_000, "{said}");
}
