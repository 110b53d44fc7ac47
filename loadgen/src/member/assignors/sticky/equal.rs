//! Assignment of members with equal topics. Each member has a quota, and keeps its partitions up to
//! the quota. The other partitions are assigned in turn to members below their quotas. The result
//! is as even as possible, and no other result that is as even keeps more partitions. The time is
//! linear in the numbers of partitions and members.

use super::{Claim, NO_OWNER};

/// The rank of the new owner of each partition.
pub(super) fn owners(members: usize, claims: &[Claim]) -> Vec<u32> {
    let mut left = quotas(members, claims);
    let mut owners: Vec<u32> = claims.iter().map(|claim| keep(claim, &mut left)).collect();
    let free = owners.iter_mut().filter(|owner| **owner == NO_OWNER);
    distribute(free, &mut left);
    owners
}

/// The quota of each member. Quotas differ by at most one. The higher quota goes first to members
/// that own more partitions than the lower one.
fn quotas(members: usize, claims: &[Claim]) -> Vec<u32> {
    let mut owned = vec![0u32; members];
    for claim in claims.iter().filter(|claim| claim.owner != NO_OWNER) {
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

/// Returns the owner that keeps the partition. `left` is the unused part of each member's quota.
fn keep(claim: &Claim, left: &mut [u32]) -> u32 {
    match left.get_mut(claim.owner as usize) {
        Some(left) if *left > 0 => {
            *left -= 1;
            claim.owner
        }
        _ => NO_OWNER,
    }
}

/// Assigns one partition to each member in turn, so that a member gets partitions of many topics.
fn distribute<'a>(mut free: impl Iterator<Item = &'a mut u32>, left: &mut [u32]) {
    let mut below: Vec<u32> = (0..).take(left.len()).collect();
    while !below.is_empty() {
        below.retain(|rank| {
            let left = &mut left[*rank as usize];
            if *left == 0 {
                return false;
            }
            if let Some(owner) = free.next() {
                *owner = *rank;
            }
            *left -= 1;
            *left > 0
        });
    }
}
