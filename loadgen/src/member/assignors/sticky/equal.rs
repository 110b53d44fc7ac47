//! All members have the same topics: each has its quota, keeps what it owns up to that, and what is
//! left over is dealt in turn to those below theirs. Optimal in balance and in partitions kept, in
//! time linear in partitions and members.

use super::{Claim, NOBODY};

/// The rank of the new owner of each partition.
pub(super) fn owners(members: usize, claims: &[Claim]) -> Vec<u32> {
    let mut room = quotas(members, claims);
    let mut owners: Vec<u32> = claims.iter().map(|claim| keep(claim, &mut room)).collect();
    let free = owners.iter_mut().filter(|owner| **owner == NOBODY);
    deal(free, &mut room);
    owners
}

/// How many partitions each member is to have. Those that own more than the lower quota are the
/// first to get the higher one.
fn quotas(members: usize, claims: &[Claim]) -> Vec<u32> {
    let mut owned = vec![0u32; members];
    for claim in claims.iter().filter(|claim| claim.owner != NOBODY) {
        owned[claim.owner as usize] += 1;
    }
    let lower = (claims.len() / members) as u32;
    let mut higher = claims.len() % members;
    let mut quotas = vec![lower; members];
    for wants_more in [true, false] {
        for (quota, owned) in quotas.iter_mut().zip(&owned) {
            if higher > 0 && (*owned > lower) == wants_more {
                *quota += 1;
                higher -= 1;
            }
        }
    }
    quotas
}

fn keep(claim: &Claim, room: &mut [u32]) -> u32 {
    match room.get_mut(claim.owner as usize) {
        Some(room) if *room > 0 => {
            *room -= 1;
            claim.owner
        }
        _ => NOBODY,
    }
}

/// One to each in turn, so that a member gets partitions of many topics.
fn deal<'a>(mut free: impl Iterator<Item = &'a mut u32>, room: &mut [u32]) {
    let mut below: Vec<u32> = (0..).take(room.len()).collect();
    while !below.is_empty() {
        below.retain(|rank| {
            let room = &mut room[*rank as usize];
            if *room == 0 {
                return false;
            }
            if let Some(owner) = free.next() {
                *owner = *rank;
            }
            *room -= 1;
            *room > 0
        });
    }
}
