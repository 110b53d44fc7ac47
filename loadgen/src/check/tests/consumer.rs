//! A small and correct consumer group (KIP-848): members reconcile one by one. A partition is
//! assigned only when its previous owner has reported that it gave the partition up, has left, or
//! was removed.

use std::collections::BTreeMap;

use super::world::{
    Behaviour, Bug, Caller, Coordinator, Me, PARTITIONS, REBALANCE, Request, Response, SESSION,
    Set, time,
};
use crate::event::EventKind;

const UNKNOWN_MEMBER_ID: i16 = 25;
const FENCED_MEMBER_EPOCH: i16 = 110;
const UNRELEASED_INSTANCE_ID: i16 = 111;
const STALE_MEMBER_EPOCH: i16 = 113;

pub(super) struct Consumers {
    bug: Bug,
    epoch: i32,
    members: BTreeMap<u64, Member>,
}

struct Member {
    slot: usize,
    epoch: i32,
    previous: i32,
    target: Set,
    assigned: Set,
    pending: Set,
    last_accepted: u64,
    revokes_until: Option<u64>,
    /// Whether this is a static member that left and will return.
    away: bool,
}

impl Consumers {
    pub(super) fn new(bug: Bug) -> Self {
        Self { bug, epoch: 0, members: BTreeMap::new() }
    }

    /// Bumps the epoch, and moves as few partitions as possible.
    fn rebalance(&mut self) {
        self.epoch += 1;
        let count = self.members.len().max(1);
        let quota = (PARTITIONS as usize).div_ceil(count);
        let mut free: Set = (0..PARTITIONS).collect();
        for member in self.members.values_mut() {
            member.target = member.target.iter().copied().take(quota).collect();
            member.target.iter().for_each(|one| {
                free.remove(one);
            });
        }
        for member in self.members.values_mut() {
            while member.target.len() < quota && !free.is_empty() {
                member.target.extend(free.pop_first());
            }
        }
    }

    fn join(&mut self, now: u64, from: Caller, id: u64) -> Response {
        let before = self.members.iter().find(|(_, m)| from.is_static && m.slot == from.slot);
        let before = before.map(|(id, member)| (*id, member.away));
        let (mut target, mut assigned) = (Set::new(), Set::new());
        match before {
            Some((known, away)) if known != id && !away => {
                return Response::Error(UNRELEASED_INSTANCE_ID);
            }
            Some((known, _)) => {
                let old = self.members.remove(&known).unwrap();
                (target, assigned) = (old.target, old.assigned);
            }
            None => {
                if let Some(old) = self.members.remove(&id) {
                    (target, assigned) = (old.target, old.assigned);
                }
            }
        }
        let member = Member {
            slot: from.slot,
            epoch: 0,
            previous: 0,
            target,
            assigned,
            pending: Set::new(),
            last_accepted: now,
            revokes_until: None,
            away: false,
        };
        self.members.insert(id, member);
        if before.is_none_or(|(_, away)| !away) {
            self.rebalance();
        }
        self.reconcile(now, id, &Set::new())
    }

    fn reconcile(&mut self, now: u64, id: u64, owned: &Set) -> Response {
        let has: Set = self
            .members
            .iter()
            .filter(|(other, _)| **other != id)
            .flat_map(|(_, member)| member.assigned.union(&member.pending).copied())
            .collect();
        let sloppy = self.bug == Bug::TwoOwners;
        let group_epoch = self.epoch;
        let member = self.members.get_mut(&id).unwrap();
        member.last_accepted = now;
        if member.pending.is_disjoint(owned) {
            member.pending.clear();
            member.revokes_until = None;
        }
        let surplus: Set = member.assigned.difference(&member.target).copied().collect();
        if member.pending.is_empty() && !surplus.is_disjoint(owned) {
            member.assigned.retain(|one| !surplus.contains(one));
            member.pending = surplus;
            member.revokes_until = Some(now + REBALANCE);
        } else if member.pending.is_empty() {
            member.assigned.retain(|one| member.target.contains(one));
            let free = member.target.iter().filter(|one| sloppy || !has.contains(one));
            let free: Vec<_> = free.copied().collect();
            member.assigned.extend(free);
            if member.epoch != group_epoch {
                (member.previous, member.epoch) = (member.epoch, group_epoch);
            }
        }
        Response::Assignment { epoch: member.epoch, partitions: member.assigned.clone() }
    }
}

impl Coordinator for Consumers {
    fn handle(
        &mut self,
        now: u64,
        from: Caller,
        request: Request,
        out: &mut Vec<(Caller, Response)>,
    ) {
        let response = match request {
            Request::Heartbeat { id, epoch: 0, .. } => self.join(now, from, id),
            Request::Heartbeat { id, epoch, owned } => match self.members.get(&id) {
                None => Response::Error(UNKNOWN_MEMBER_ID),
                Some(member) if member.away => Response::Error(UNKNOWN_MEMBER_ID),
                Some(member)
                    if epoch == member.epoch
                        || epoch == member.previous && owned.is_subset(&member.assigned) =>
                {
                    self.reconcile(now, id, &owned)
                }
                Some(_) => Response::Error(FENCED_MEMBER_EPOCH),
            },
            Request::Leave { id, comes_back: true } => {
                if let Some(member) = self.members.get_mut(&id) {
                    member.away = true;
                }
                Response::Done
            }
            Request::Leave { id, comes_back: false } => {
                if self.members.remove(&id).is_some() {
                    self.rebalance();
                }
                Response::Done
            }
            other => panic!("{other:?}"),
        };
        out.push((from, response));
    }

    fn tick(&mut self, now: u64, _: &mut Vec<(Caller, Response)>) {
        let session = if self.bug == Bug::EarlyEviction { SESSION / 4 } else { SESSION };
        let before = self.members.len();
        self.members.retain(|_, member| {
            member.last_accepted + session > now
                && member.revokes_until.is_none_or(|until| until > now)
        });
        if self.members.len() < before {
            self.rebalance();
        }
    }

    fn restart(&mut self, now: u64) {
        for member in self.members.values_mut() {
            member.last_accepted = now;
            member.revokes_until = member.revokes_until.map(|_| now + REBALANCE);
        }
    }

    fn may_commit(&self, id: u64, epoch: i32) -> Result<(), i16> {
        match self.members.get(&id) {
            None => Err(UNKNOWN_MEMBER_ID),
            Some(member) if member.epoch != epoch => Err(STALE_MEMBER_EPOCH),
            Some(_) => Ok(()),
        }
    }
}

/// A member of the group.
#[derive(Default)]
pub(super) struct Consumer {
    id: u64,
    epoch: i32,
    /// When the member gives up partitions, and the partitions that it has after that.
    target: Option<(u64, Set)>,
    confirmed: bool,
}

impl Consumer {
    pub(super) fn new() -> Self {
        Self::default()
    }

    fn take_up(&mut self, me: &mut Me) {
        let Some((_, target)) = self.target.take_if(|(at, _)| *at <= me.now) else { return };
        let gone = me.owned.difference(&target).copied().collect();
        me.revoked(&gone);
        self.confirmed &= gone.is_empty();
        let added = target.difference(&me.owned).copied().collect();
        me.assigned(self.epoch, &added);
        if self.confirmed {
            me.emit(EventKind::Settled { epoch: self.epoch });
        }
    }
}

impl Behaviour for Consumer {
    fn next(&mut self, me: &mut Me) -> Option<Request> {
        self.take_up(me);
        if self.epoch == 0 {
            self.id = me.fresh_id;
            me.emit(EventKind::Joining);
        }
        let owned = me.owned.clone();
        Some(Request::Heartbeat { id: self.id, epoch: self.epoch, owned })
    }

    fn answered(&mut self, me: &mut Me, sent: u64, response: Option<Response>) -> u64 {
        match response {
            Some(Response::Assignment { epoch, partitions }) => {
                if self.epoch == 0 {
                    me.emit(EventKind::Joined { member_id: "id".into(), epoch });
                } else if self.epoch != epoch {
                    me.emit(EventKind::Epoch { epoch });
                }
                self.epoch = epoch;
                self.confirmed = true;
                me.emit(EventKind::Alive { sent: time(sent), epoch });
                let revokes = !me.owned.is_subset(&partitions);
                if revokes {
                    me.emit(EventKind::MustRebalance { sent: time(sent) });
                }
                let takes = if revokes { sent % 70 } else { 0 };
                self.target.get_or_insert((me.now + takes, Set::new())).1 = partitions;
                let before = me.owned.clone();
                self.take_up(me);
                if before == me.owned { 300 } else { 1 }
            }
            Some(Response::Error(UNRELEASED_INSTANCE_ID)) => {
                me.emit(EventKind::Refused { api: 68, error: UNRELEASED_INSTANCE_ID });
                200
            }
            Some(Response::Error(error)) => {
                me.emit(EventKind::Fenced { error });
                me.lost();
                *self = Self::default();
                10
            }
            _ => 50,
        }
    }

    fn commits(&self) -> Option<(u64, i32)> {
        (self.epoch > 0).then_some((self.id, self.epoch))
    }
}
