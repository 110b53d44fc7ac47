//! The rule `two-owners`: no partition has two owners at once, by the protocol's own rule.
//!
//! A member owns a partition from [`EventKind::Assigned`] until it gave it up itself, or until its
//! lease may have run out ([`super::lease`]): after that the coordinator may give it to another,
//! although the member does not know yet. So a claim is certain in the interval
//!
//! ```text
//! from  when the member read the assignment            (the coordinator decided before that)
//! to    when it began to give the partition up, or its lease may have ended, whichever is first
//! ```
//!
//! and all that while the coordinator held the partition for this member: it was given before, and
//! could be taken back only by the member's own word, which it had not sent yet, or after its lease.
//! Two such intervals of different members that overlap show that the coordinator gave the partition
//! twice. That holds
//!
//! - if the second member's answer was delayed until the partition was long taken from it again: its
//!   own lease counts from the request that was answered, and so has ended;
//! - for members that crash (their claims end at once, the coordinator gives the partitions away
//!   later) and for static ones that close and return (the claim ends, and begins with the return);
//! - in a classic group for eager members (they give up all before they join) and for cooperative
//!   ones: these keep partitions while they join, and say so; a leader gives a partition away only
//!   in the generation after the one in which its owner gave it up, or missed the join, for which
//!   the lease allows. Static members that miss it stay in the group, but not sooner. What a member
//!   kept over a rebalance was given again for sure only when it has settled in the new generation.
//!
//! A lease grows with each later answer, so claims that overlap are looked at again whenever one of
//! the two members is heard of, and before one ends. One moment is taken for granted: that a
//! coordinator does not work off requests of a closed connection after those of the next one.

use std::collections::HashMap;
use std::sync::Arc;

use super::found::Found;
use super::group::{Facts, Member, Members};
use super::lease::{CLOCK_SLACK, certain_until};
use crate::event::{Event, EventKind};
use crate::plan::{MemberIndex, Partition};
use crate::time::Time;

#[derive(Default)]
pub(super) struct Owners {
    claims: HashMap<Partition, Claims>,
}

/// The two latest claims: more can't be told apart from their consequences.
#[derive(Clone, Copy)]
struct Claims {
    newest: Claim,
    older: Option<Claim>,
}

#[derive(Clone, Copy)]
struct Claim {
    member: MemberIndex,
    /// [`Member::life`] in which it was made: the claim ends with it.
    life: u32,
    since: Time,
    epoch: i32,
}

impl Owners {
    pub(super) fn assigned(
        &mut self,
        event: &Event,
        epoch: i32,
        partitions: &[Partition],
        members: &mut Members,
    ) {
        let member = event.member;
        let life = members.entry(member).or_default().life;
        let claim = Claim { member, life, since: event.at, epoch };
        for partition in partitions {
            let Some(claims) = self.claims.get_mut(partition) else {
                self.claims.insert(*partition, Claims { newest: claim, older: None });
                continue;
            };
            claims.add(claim, members);
            if let Some(older) = claims.older {
                for side in [older.member, member] {
                    members.entry(side).or_default().contested.insert(*partition);
                }
            }
        }
    }

    pub(super) fn released(&mut self, member: MemberIndex, partitions: &[Partition]) {
        for partition in partitions {
            let Some(claims) = self.claims.get_mut(partition) else { continue };
            match (claims.newest.member == member, claims.older) {
                (true, Some(older)) if older.member != member => {
                    *claims = Claims { newest: older, older: None };
                }
                (true, _) => {
                    self.claims.remove(partition);
                }
                (false, Some(older)) if older.member == member => claims.older = None,
                (false, _) => {}
            }
        }
    }

    /// Whether the member owns all of these, as far as it knows.
    pub(super) fn holds_all(
        &self,
        member: MemberIndex,
        offsets: &[(Partition, i64)],
        members: &Members,
    ) -> bool {
        offsets.iter().all(|(partition, _)| {
            self.claims.get(partition).is_some_and(|claims| {
                [Some(claims.newest), claims.older]
                    .into_iter()
                    .flatten()
                    .any(|claim| claim.member == member && claim.stands(members))
            })
        })
    }

    /// Looks at what this member and others claim, which they did up to `now`.
    pub(super) fn judge(
        &mut self,
        member: MemberIndex,
        now: Time,
        members: &mut Members,
        facts: &Facts,
        found: &mut Found,
    ) {
        let Some(this) = members.get_mut(&member) else { return };
        let mut contested = std::mem::take(&mut this.contested);
        contested.retain(|partition| {
            let Some(claims) = self.claims.get_mut(partition) else { return false };
            let Some(older) = claims.older.filter(|older| older.stands(members)) else {
                claims.older = None;
                return false;
            };
            let newest = claims.newest;
            if !newest.stands(members) {
                *claims = Claims { newest: older, older: None };
                return false;
            }
            let until =
                newest.certain_until(members, facts).min(older.certain_until(members, facts));
            if until.min(now) <= newest.since.max(older.since) + CLOCK_SLACK {
                return true;
            }
            claims.older = None;
            tell(*partition, older, newest, members, facts, now, found);
            false
        });
        if let Some(this) = members.get_mut(&member) {
            this.contested = contested;
        }
    }
}

impl Claims {
    fn add(&mut self, claim: Claim, members: &Members) {
        let others = [self.older, Some(self.newest)].into_iter().flatten();
        let standing = others.filter(|other| other.stands(members));
        // Of one that is assigned what it has, the first claim counts.
        let (same, others): (Vec<_>, Vec<_>) =
            standing.partition(|other| other.member == claim.member);
        let claim = same.first().map_or(claim, |first| Claim { since: first.since, ..claim });
        *self = Self { newest: claim, older: others.last().copied() };
    }
}

impl Claim {
    fn stands(&self, members: &Members) -> bool {
        members.get(&self.member).is_some_and(|member| member.life == self.life)
    }

    fn certain_until(&self, members: &Members, facts: &Facts) -> Time {
        members.get(&self.member).map_or(Time::ZERO, |member| {
            certain_until(member, self.epoch.max(member.settled), facts)
        })
    }

    fn events(&self, partition: Partition, member: Option<&Member>, facts: &Facts) -> Vec<Event> {
        let kind = EventKind::Assigned { epoch: self.epoch, partitions: Arc::from([partition]) };
        let group = facts.group.index;
        let assigned = Event { at: self.since, group, member: self.member, kind };
        let alive = member.and_then(|member| member.alive);
        [Some(assigned), alive.map(|alive| alive.event(group, self.member))]
            .into_iter()
            .flatten()
            .collect()
    }
}

fn tell(
    partition: Partition,
    older: Claim,
    newest: Claim,
    members: &Members,
    facts: &Facts,
    now: Time,
    found: &mut Found,
) {
    found.add("two-owners", now, &facts.group.id, || {
        let what = format!(
            "partition {} of topic {} was given to member {} in epoch {}, while member {} owned it \
             since epoch {} and its lease had not run out",
            partition.number,
            partition.topic.0,
            newest.member.0,
            newest.epoch,
            older.member.0,
            older.epoch
        );
        let sides = [older, newest];
        let events = sides
            .iter()
            .flat_map(|claim| claim.events(partition, members.get(&claim.member), facts));
        (what, events.collect())
    });
}
