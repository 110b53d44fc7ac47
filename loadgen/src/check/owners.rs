//! The rule `two-owners`: by the protocol's own rule, no partition has two owners at once. In a
//! streams group the rule concerns the active tasks. The rule `task-twice` concerns the tasks of a
//! process in all roles: [`super::processes`].
//!
//! A member owns a partition from [`EventKind::Assigned`] until it gives the partition up, or until
//! its lease may have run out ([`super::lease`]). After the lease the coordinator may assign the
//! partition to another member, although this member does not know yet. So a claim is certain in
//! the interval
//!
//! ```text
//! from  when the member read the assignment            (the coordinator decided before that)
//! to    when it began to give the partition up, or its lease may have ended, whichever is first
//! ```
//!
//! During this interval the coordinator must not assign the partition to another member. It
//! assigned the partition to this member before the interval. It can take the partition back only
//! after the lease, or after a request in which the member gives the partition up; in the interval
//! the member has not sent such a request. So if the intervals of two members overlap, the
//! coordinator assigned the partition twice. This proof also holds
//!
//! - if the second member gets its answer long after the coordinator has taken the partition back
//!   from it: its lease counts from the sending of its request, and so has ended;
//! - for members that crash: their claims end at once, and the coordinator reassigns the partitions
//!   later;
//! - for static members that close and return: the claim ends, and a new one begins with the
//!   return;
//! - in a classic group for eager members: they give up all partitions before they join;
//! - in a classic group for cooperative members: they keep partitions while they join, and report
//!   them. The leader reassigns a partition only in the generation after its owner gave it up or
//!   missed the join, and the lease allows for that. A static member that misses the join stays in
//!   the group and keeps its partitions. A partition that a member kept over a rebalance is
//!   certainly its own again only when the member has settled in the new generation.
//!
//! Each later answer to a member makes its lease longer. So claims that overlap are checked again
//! at each event of one of the two members, and before one of the claims ends. The check makes one
//! assumption: a coordinator does not handle a request of a closed connection after a request of
//! the next connection. For real clients' claims the interval is computed in another way:
//! [`super::clients`].

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::clients;
use super::found::Found;
use super::group::{Facts, Member, Members};
use super::lease::{CLOCK_SLACK, certain_until};
use crate::event::{Event, EventKind};
use crate::plan::{MemberIndex, Partition};
use crate::time::Time;

pub(super) struct Owners {
    rule: Rule,
    claims: HashMap<Place, Claims>,
    /// For each member, the places that another member claims too.
    contested: HashMap<MemberIndex, BTreeSet<Place>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rule {
    TwoOwners,
    TaskTwice,
}

/// A partition, together with the group or the process in which only one member may own it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Place {
    /// The process of a streams group in which the owner must be unique; 0 stands for the whole
    /// group.
    pub(super) process: u32,
    pub(super) partition: Partition,
}

/// The place of a partition in a group that assigns each partition to one member.
pub(super) fn of_group(partition: &Partition) -> Place {
    Place { process: 0, partition: *partition }
}

/// The current claims of a partition, at most one per member. Most partitions have one claim.
struct Claims {
    newest: Claim,
    /// The claims before the newest, oldest first.
    older: Vec<Claim>,
}

#[derive(Clone, Copy)]
struct Claim {
    member: MemberIndex,
    /// The value of [`Member::life`] when the claim was made. The claim ends when this value
    /// changes.
    life: u32,
    since: Time,
    epoch: i32,
}

impl Owners {
    pub(super) fn new(rule: Rule) -> Self {
        Self { rule, claims: HashMap::new(), contested: HashMap::new() }
    }

    pub(super) fn assigned(
        &mut self,
        event: &Event,
        epoch: i32,
        places: impl Iterator<Item = Place>,
        members: &mut Members,
    ) {
        let member = event.member;
        let life = members.entry(member).or_default().life;
        let claim = Claim { member, life, since: event.at, epoch };
        for place in places {
            let Some(claims) = self.claims.get_mut(&place) else {
                self.claims.insert(place, Claims { newest: claim, older: Vec::new() });
                continue;
            };
            claims.add(claim, members);
            if !claims.older.is_empty() {
                for side in claims.iter() {
                    self.contested.entry(side.member).or_default().insert(place);
                }
            }
        }
    }

    pub(super) fn released(&mut self, member: MemberIndex, places: impl Iterator<Item = Place>) {
        for place in places {
            let Some(claims) = self.claims.get_mut(&place) else { continue };
            if !claims.retain(|claim| claim.member != member) {
                self.claims.remove(&place);
            }
        }
    }

    /// Forgets the contested places of a member, which has lost all its partitions.
    pub(super) fn gone(&mut self, member: MemberIndex) {
        self.contested.remove(&member);
    }

    /// Whether the member believes that it owns all of these partitions.
    pub(super) fn holds_all(
        &self,
        member: MemberIndex,
        offsets: &[(Partition, i64)],
        members: &Members,
    ) -> bool {
        offsets.iter().all(|(partition, _)| {
            self.claims.get(&of_group(partition)).is_some_and(|claims| {
                claims.iter().any(|claim| claim.member == member && claim.stands(members))
            })
        })
    }

    /// Compares the claims of this member up to `now` with the claims of others.
    pub(super) fn judge(
        &mut self,
        member: MemberIndex,
        now: Time,
        members: &Members,
        facts: &Facts,
        found: &mut Found,
    ) {
        let Some(mut contested) = self.contested.remove(&member) else { return };
        contested.retain(|place| {
            let Some(claims) = self.claims.get_mut(place) else { return false };
            claims.retain(|claim| claim.stands(members));
            while let Some((older, newer)) = claims.overlapping(member, now, members, facts) {
                report(self.rule, *place, older, newer, members, facts, now, found);
                claims.retain(|claim| claim.member != older.member);
            }
            !claims.older.is_empty()
        });
        if !contested.is_empty() {
            self.contested.insert(member, contested);
        }
    }
}

impl Claims {
    /// All claims, oldest first.
    fn iter(&self) -> impl Iterator<Item = &Claim> {
        self.older.iter().chain([&self.newest])
    }

    fn add(&mut self, claim: Claim, members: &Members) {
        self.older.push(std::mem::replace(&mut self.newest, claim));
        self.older.retain(|other| other.stands(members));
        // A repeated assignment does not renew a claim: the first one counts.
        if let Some(same) = self.older.iter().position(|other| other.member == claim.member) {
            self.newest.since = self.older.remove(same).since;
        }
    }

    /// Removes the claims for which `stays` is false. Returns false if none is left.
    fn retain(&mut self, stays: impl Fn(&Claim) -> bool) -> bool {
        self.older.retain(&stays);
        if stays(&self.newest) {
            return true;
        }
        self.older.pop().map(|claim| self.newest = claim).is_some()
    }

    /// Two claims to the partition that were certain at the same time: the claim of this member,
    /// and the claim of another member. The older claim comes first.
    fn overlapping(
        &self,
        member: MemberIndex,
        now: Time,
        members: &Members,
        facts: &Facts,
    ) -> Option<(Claim, Claim)> {
        let place = self.iter().position(|claim| claim.member == member)?;
        let own = *self.iter().nth(place)?;
        let until = own.certain_until(members, facts).min(now);
        let certain = |other: &Claim| {
            let until = other.certain_until(members, facts).min(until);
            let slack = own.slack(members).max(other.slack(members));
            until > own.since.max(other.since) + slack + facts.group.clock_error
        };
        let mut all = self.iter().copied().enumerate();
        let (other_place, other) = all.find(|(at, other)| *at != place && certain(other))?;
        Some(if other_place < place { (other, own) } else { (own, other) })
    }
}

impl Claim {
    fn stands(&self, members: &Members) -> bool {
        members.get(&self.member).is_some_and(|member| member.life == self.life)
    }

    fn certain_until(&self, members: &Members, facts: &Facts) -> Time {
        members.get(&self.member).map_or(Time::ZERO, |member| match &member.client {
            Some(client) => client.certain_until(self.since, facts),
            None => certain_until(member, self.epoch.max(member.settled), facts),
        })
    }

    /// The length up to which an overlap of this claim does not count.
    fn slack(&self, members: &Members) -> Duration {
        let is_client = members.get(&self.member).is_some_and(|member| member.client.is_some());
        if is_client { clients::SLACK } else { CLOCK_SLACK }
    }

    /// The name of the claimant in a sentence: `member 3` or `client python-0`. If `in_epoch` is
    /// not empty, this text and the epoch follow a member's name.
    fn claimant(&self, members: &Members, in_epoch: &str) -> String {
        match members.get(&self.member).and_then(|member| member.client.as_ref()) {
            Some(client) => format!("client {}", client.name),
            None if in_epoch.is_empty() => format!("member {}", self.member.0),
            None => format!("member {}{in_epoch}{}", self.member.0, self.epoch),
        }
    }

    fn began(&self, members: &Members) -> String {
        match members.get(&self.member).and_then(|member| member.client.as_ref()) {
            Some(_) => format!("{:.3} s", self.since.seconds()),
            None => format!("epoch {}", self.epoch),
        }
    }

    fn events(&self, partition: Partition, member: Option<&Member>, facts: &Facts) -> Vec<Event> {
        let partitions = Arc::from([partition]);
        let kind = match member.and_then(|member| member.client.as_ref()) {
            Some(_) => EventKind::ClientAssigned { partitions },
            None => EventKind::Assigned { epoch: self.epoch, partitions },
        };
        let group = facts.group.index;
        let assigned = Event { at: self.since, group, member: self.member, kind };
        let alive = member.and_then(|member| member.alive);
        [Some(assigned), alive.map(|alive| alive.event(group, self.member))]
            .into_iter()
            .flatten()
            .collect()
    }
}

#[allow(clippy::too_many_arguments)] // the parts of a violation
fn report(
    rule: Rule,
    place: Place,
    older: Claim,
    newest: Claim,
    members: &Members,
    facts: &Facts,
    now: Time,
    found: &mut Found,
) {
    let (rule, within) = match rule {
        Rule::TwoOwners => ("two-owners", String::new()),
        Rule::TaskTwice => ("task-twice", format!(" in process {}", place.process)),
    };
    found.add(rule, now, &facts.group.id, || {
        let partition = place.partition;
        let what = format!(
            "{} was assigned to {}, while {} owned it{within} since {} and its lease had not run \
             out",
            facts.name(partition),
            newest.claimant(members, " in epoch "),
            older.claimant(members, ""),
            older.began(members),
        );
        let sides = [older, newest];
        let events = sides
            .iter()
            .flat_map(|claim| claim.events(partition, members.get(&claim.member), facts));
        (what, events.collect())
    });
}
