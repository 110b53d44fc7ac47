//! The producer (transactional id, producer id and epoch) of a request. Sometimes a field is wrong.

use crate::transactional::Instance;
use crate::world::World;
use std::ops::RangeInclusive;

/// A transactional id, and the client that claims it.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub id: String,
    pub client: Instance,
}

/// A producer id that no server assigned.
pub(super) const NO_SUCH_PRODUCER: i64 = 1 << 40;

impl Claim {
    /// A client with correct fields.
    pub(super) fn right(world: &mut World) -> Self {
        let at = world.random.usize(..world.transactional_ids.len());
        Self { id: world.transactional_ids[at].name.clone(), client: client(world, at) }
    }

    pub(super) fn new(world: &mut World) -> Self {
        let mut claim = Self::right(world);
        match world.random.u32(..60) {
            0 => claim.client.epoch = claim.client.epoch.wrapping_sub(1),
            1 => claim.client.epoch = claim.client.epoch.wrapping_add(1),
            2 => claim.client.epoch = world.one(&[-1, 0, i16::MAX, i16::MAX - 1, i16::MIN]),
            3 => claim.client.producer_id = world.one(&[-1, NO_SUCH_PRODUCER, i64::MIN]),
            4 => claim.client.producer_id = Self::right(world).client.producer_id,
            5 => claim.id = format!("{}none", world.prefix),
            6 => claim.id = String::new(),
            _ => {}
        }
        claim
    }

    /// The versions of a request that suit this client. Clients of transaction version 2 send the
    /// versions from `newer` on, other clients the versions before it.
    pub(super) fn versions(&self, newer: i16) -> RangeInclusive<i16> {
        if self.client.is_v2 { newer..=i16::MAX } else { 0..=newer - 1 }
    }
}

/// The newest client of an id, or sometimes an earlier client, which was fenced. If the id has no
/// client, a client that does not exist.
fn client(world: &mut World, at: usize) -> Instance {
    let instances = world.transactional_ids[at].instances.clone();
    match instances.last() {
        None => Instance::new(NO_SUCH_PRODUCER, 0, world.chance(50)),
        Some(_) if world.chance(7) => world.one(&instances),
        Some(newest) => newest.clone(),
    }
}
