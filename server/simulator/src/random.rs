//! Random numbers: one generator for each part of the simulator, all seeded from the seed of the
//! run. So a change of one part does not change the numbers of other parts.

use muster_codec::Uuid;
use muster_coordinator::Ids;

/// The part of the simulator that uses a generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Salt {
    Profile = 1,
    Disk,
    Network,
    Members,
    Clients,
    Faults,
    Ids,
    Images,
    Mail,
    Rot,
    Links,
}

/// A generator.
#[derive(Debug, Clone)]
pub(crate) struct Random(fastrand::Rng);

impl Random {
    pub(crate) fn new(seed: u64, salt: Salt) -> Self {
        let mixed = (seed ^ (salt as u64) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self(fastrand::Rng::with_seed(mixed))
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.0.f64() < probability
    }

    /// A number from 0 to below `end`; 0 if `end` is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.0.u64(..end) }
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0.u64(low..=high.max(low))
    }

    /// A number that is mostly near `low` and seldom near `high`, like a delay.
    pub(crate) fn skewed(&mut self, low: u64, high: u64) -> u64 {
        let share = self.0.f64();
        low + ((high.saturating_sub(low)) as f64 * share * share * share * share) as u64
    }

    /// One of the values.
    ///
    /// # Panics
    /// If `all` is empty.
    pub(crate) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.fill(&mut bytes);
        bytes
    }

    pub(crate) fn generator(&mut self) -> &mut fastrand::Rng {
        &mut self.0
    }

    /// A new generator, seeded by this one.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.0.fork())
    }
}

/// The ids of one shard.
#[derive(Debug)]
pub(crate) struct SeededIds(pub(crate) Random);

impl Ids for SeededIds {
    fn next_id(&mut self) -> Uuid {
        let mut bytes = [0; 16];
        self.0.0.fill(&mut bytes);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Uuid(bytes)
    }
}
