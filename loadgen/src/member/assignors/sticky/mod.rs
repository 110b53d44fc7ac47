//! `StickyAssignor` and `CooperativeStickyAssignor`. If all members have equal topics, the numbers
//! of their partitions are as even as possible, and no assignment that is as even moves fewer
//! partitions ([`equal`]). Otherwise members keep their partitions at first. Then partitions move
//! one by one until no move makes the numbers more even ([`general`]).

use super::{Assignment, Group, Partition};

mod equal;
mod general;

/// The rank that means "no owner".
const NO_OWNER: u32 = u32::MAX;

/// The claims of members to a partition.
#[derive(Clone, Copy)]
struct Claim {
    /// The member that owns the partition: the only one that claims it in the newest generation of
    /// all claims. `NO_OWNER` if there is no claim, or several in that generation.
    owner: u32,
    generation: i32,
    claimed: bool,
}

impl Claim {
    const NONE: Self = Self { owner: NO_OWNER, generation: i32::MIN, claimed: false };

    fn by(&mut self, rank: u32, generation: i32) {
        if !self.claimed || generation > self.generation {
            *self = Self { owner: rank, generation, claimed: true };
        } else if generation == self.generation && self.owner != rank {
            self.owner = NO_OWNER;
        }
    }

    /// Whether the partition must not go to this member yet, because another member has to give
    /// it up first.
    fn withholds_from(&self, rank: u32) -> bool {
        self.claimed && self.owner != rank
    }
}

pub(super) fn assign(group: &Group<'_>) -> Vec<Assignment> {
    let claims = claims(group);
    collect(group, &owners(group, &claims), |_, _| true)
}

pub(super) fn assign_cooperatively(group: &Group<'_>) -> Vec<Assignment> {
    let claims = claims(group);
    let is_free = |at: usize, rank: u32| !claims[at].withholds_from(rank);
    collect(group, &owners(group, &claims), is_free)
}

fn claims(group: &Group<'_>) -> Vec<Claim> {
    let mut claims = vec![Claim::NONE; group.partitions as usize];
    for (rank, member) in (0..).zip(&group.by_rank) {
        for partition in &member.subscription.owned {
            if let Some(at) = position(group, *partition) {
                claims[at].by(rank, member.subscription.generation);
            }
        }
    }
    claims
}

/// The index of a partition in the group; `None` if it has no subscribers or does not exist.
fn position(group: &Group<'_>, partition: Partition) -> Option<usize> {
    let topic = &group.topics[group.place(partition.topic)?];
    (partition.number < topic.partitions).then(|| (topic.first + partition.number) as usize)
}

/// The rank of the member that gets each partition.
fn owners(group: &Group<'_>, claims: &[Claim]) -> Vec<u32> {
    let mut members = group.by_rank.windows(2);
    if members.all(|pair| pair[0].has_topics_of(&pair[1])) {
        equal::owners(group.by_rank.len(), claims)
    } else {
        general::owners(group, claims)
    }
}

fn collect(
    group: &Group<'_>,
    owners: &[u32],
    is_free: impl Fn(usize, u32) -> bool,
) -> Vec<Assignment> {
    let mut assignments = vec![Assignment::new(); group.by_rank.len()];
    for topic in &group.topics {
        for number in 0..topic.partitions {
            let at = (topic.first + number) as usize;
            if is_free(at, owners[at]) {
                assignments[owners[at] as usize].push(topic.partition(number));
            }
        }
    }
    assignments
}
