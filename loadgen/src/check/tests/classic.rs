//! A small and correct classic group: JoinGroup gathers members, the leader's SyncGroup makes a
//! generation durable, and members that miss the join are not in it. Here the leader, which
//! computes assignments, is part of the coordinator. The members of a group are all eager or all
//! cooperative.

use std::collections::BTreeMap;

use super::world::{
    Behaviour, Bug, Caller, Coordinator, Me, PARTITIONS, REBALANCE, Request, Response, SESSION,
    Set, time,
};
use crate::event::EventKind;

const ILLEGAL_GENERATION: i16 = 22;
const UNKNOWN_MEMBER_ID: i16 = 25;
const REBALANCE_IN_PROGRESS: i16 = 27;

pub(super) struct Classics {
    bug: Bug,
    cooperative: bool,
    group: Group,
    /// The state that was written with the last sync of a leader.
    durable: Group,
    waiting: BTreeMap<u64, Caller>,
}

#[derive(Clone)]
struct Group {
    generation: i32,
    phase: Phase,
    members: BTreeMap<u64, Member>,
    leader: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    Stable,
    /// Gathers members until this time.
    Joining(u64),
    /// Waits for the leader's sync. Members that have not synced by this time are removed.
    Syncing(u64),
}

#[derive(Clone)]
struct Member {
    slot: usize,
    is_static: bool,
    last_accepted: u64,
    has_joined: bool,
    has_synced: bool,
    owned: Set,
    owned_in: i32,
    assigned: Set,
}

impl Classics {
    pub(super) fn new(bug: Bug, cooperative: bool) -> Self {
        let group =
            Group { generation: 0, phase: Phase::Stable, members: BTreeMap::new(), leader: 0 };
        let (durable, waiting) = (group.clone(), BTreeMap::new());
        Self { bug, cooperative, group, durable, waiting }
    }

    fn join(
        &mut self,
        now: u64,
        from: Caller,
        (id, owned, owned_in): (Option<u64>, Set, i32),
        out: &mut Vec<(Caller, Response)>,
    ) {
        let members = &self.group.members;
        let same = members.iter().find(|(_, m)| from.is_static && m.slot == from.slot);
        let same = same.map(|(known, _)| *known);
        let id = match id {
            Some(id) if !members.contains_key(&id) => {
                return out.push((from, Response::Error(UNKNOWN_MEMBER_ID)));
            }
            Some(id) => id,
            None => from.number(),
        };
        let mut assigned = Set::new();
        if let Some(known) = same.filter(|known| *known != id) {
            // A static member is back: in a stable group it takes its own place again.
            let old = self.group.members.remove(&known).unwrap();
            self.waiting.remove(&known);
            assigned = old.assigned;
            if self.group.leader == known {
                self.group.leader = id;
            }
        }
        let returned = same.is_some() && !assigned.is_empty() && self.group.phase == Phase::Stable;
        let before = self.group.members.get(&id).map(|member| member.assigned.clone());
        let member = Member {
            slot: from.slot,
            is_static: from.is_static,
            last_accepted: now,
            has_joined: true,
            has_synced: returned,
            owned,
            owned_in,
            assigned: before.unwrap_or(assigned),
        };
        self.group.members.insert(id, member);
        if returned {
            self.durable = self.group.clone();
            let epoch = self.group.generation;
            return out.push((from, Response::Joined { id, epoch }));
        }
        if !matches!(self.group.phase, Phase::Joining(_)) {
            self.prepare(now, Some(id), out);
        }
        self.waiting.insert(id, from);
        self.complete_if_all(now, out);
    }

    /// Begins a rebalance: all members have to join, except `but`, which is joining already.
    fn prepare(&mut self, now: u64, but: Option<u64>, out: &mut Vec<(Caller, Response)>) {
        self.group.phase = Phase::Joining(now + REBALANCE);
        for (id, member) in &mut self.group.members {
            member.has_joined = Some(*id) == but;
        }
        let waiting = std::mem::take(&mut self.waiting).into_values();
        out.extend(waiting.map(|caller| (caller, Response::Error(REBALANCE_IN_PROGRESS))));
    }

    fn complete_if_all(&mut self, now: u64, out: &mut Vec<(Caller, Response)>) {
        if self.group.members.values().all(|member| member.has_joined) {
            self.complete(now, out);
        }
    }

    fn complete(&mut self, now: u64, out: &mut Vec<(Caller, Response)>) {
        self.group.members.retain(|_, member| member.has_joined || member.is_static);
        self.group.generation += 1;
        let joined = self.group.members.iter().find(|(_, member)| member.has_joined);
        let Some((leader, _)) = joined else {
            self.group.phase = Phase::Stable;
            self.durable = self.group.clone();
            return;
        };
        self.group.leader = *leader;
        self.group.phase = Phase::Syncing(now + REBALANCE);
        self.assign();
        for (id, member) in &mut self.group.members {
            if member.has_joined {
                (member.last_accepted, member.has_synced) = (now, false);
            }
            if let Some(caller) = self.waiting.remove(id) {
                let epoch = self.group.generation;
                out.push((caller, Response::Joined { id: *id, epoch }));
            }
        }
    }

    /// Assigns as a leader does. In a cooperative group, members keep the partitions that they
    /// report, up to their share. A partition moves to another member only in the rebalance after
    /// its owner has given it up. In an eager group, all partitions are assigned again.
    fn assign(&mut self) {
        let count = self.group.members.len();
        let share = (PARTITIONS as usize).div_ceil(count);
        let mut owners: BTreeMap<u32, (i32, u64)> = BTreeMap::new();
        for (id, member) in &self.group.members {
            for one in &member.owned {
                let owner = owners.entry(*one).or_insert((member.owned_in, *id));
                if owner.0 < member.owned_in {
                    *owner = (member.owned_in, *id);
                }
            }
        }
        let mut free: Vec<u32> = (0..PARTITIONS).collect();
        if self.cooperative && self.bug != Bug::TwoOwners {
            free.retain(|one| !owners.contains_key(one));
        } else {
            let turn = self.group.generation as usize % PARTITIONS as usize;
            free.rotate_left(turn);
        }
        for (id, member) in &mut self.group.members {
            member.assigned.clear();
            if self.cooperative && self.bug != Bug::TwoOwners {
                let own = owners.iter().filter(|(_, owner)| owner.1 == *id).map(|(one, _)| *one);
                member.assigned.extend(own.take(share));
            }
        }
        for member in self.group.members.values_mut() {
            while member.assigned.len() < share && !free.is_empty() {
                member.assigned.extend(free.pop());
            }
        }
        if self.bug == Bug::TwoOwners
            && let Some(mut last) = self.group.members.last_entry()
        {
            last.get_mut().assigned.insert(0);
        }
    }

    fn sync(&mut self, from: Caller, id: u64, epoch: i32, out: &mut Vec<(Caller, Response)>) {
        let Some(member) = self.group.members.get_mut(&id) else {
            return out.push((from, Response::Error(UNKNOWN_MEMBER_ID)));
        };
        match self.group.phase {
            _ if epoch != self.group.generation => {
                out.push((from, Response::Error(ILLEGAL_GENERATION)));
            }
            Phase::Joining(_) => out.push((from, Response::Error(REBALANCE_IN_PROGRESS))),
            Phase::Stable => {
                member.has_synced = true;
                let partitions = member.assigned.clone();
                out.push((from, Response::Assignment { epoch, partitions }));
            }
            Phase::Syncing(until) => {
                member.has_synced = true;
                self.waiting.insert(id, from);
                if id == self.group.leader {
                    self.group.phase = Phase::Stable;
                    self.durable = self.group.clone();
                    for (id, caller) in std::mem::take(&mut self.waiting) {
                        let partitions = self.group.members[&id].assigned.clone();
                        out.push((caller, Response::Assignment { epoch, partitions }));
                    }
                } else {
                    self.group.phase = Phase::Syncing(until);
                }
            }
        }
    }

    fn heartbeat(&mut self, now: u64, id: u64, epoch: i32) -> Response {
        let Some(member) = self.group.members.get_mut(&id) else {
            return Response::Error(UNKNOWN_MEMBER_ID);
        };
        if epoch != self.group.generation {
            return Response::Error(ILLEGAL_GENERATION);
        }
        member.last_accepted = now;
        match self.group.phase {
            Phase::Joining(_) => Response::Error(REBALANCE_IN_PROGRESS),
            Phase::Stable | Phase::Syncing(_) => Response::Done,
        }
    }

    fn drop_members(&mut self, now: u64, gone: &[u64], out: &mut Vec<(Caller, Response)>) {
        for id in gone {
            self.group.members.remove(id);
            self.waiting.remove(id);
        }
        if gone.is_empty() {
            return;
        }
        if !matches!(self.group.phase, Phase::Joining(_)) {
            self.prepare(now, None, out);
        }
        self.complete_if_all(now, out);
    }
}

impl Coordinator for Classics {
    fn handle(
        &mut self,
        now: u64,
        from: Caller,
        request: Request,
        out: &mut Vec<(Caller, Response)>,
    ) {
        match request {
            Request::Join { id, owned, owned_in } => {
                self.join(now, from, (id, owned, owned_in), out)
            }
            Request::Sync { id, epoch } => self.sync(from, id, epoch, out),
            Request::Heartbeat { id, epoch, .. } => {
                let response = self.heartbeat(now, id, epoch);
                out.push((from, response));
            }
            Request::Leave { comes_back: true, .. } => {}
            Request::Leave { id, comes_back: false } => {
                let known = self.group.members.contains_key(&id);
                let gone = if known { vec![id] } else { Vec::new() };
                self.drop_members(now, &gone, out);
                out.push((from, Response::Done));
            }
            other => panic!("{other:?}"),
        }
    }

    fn tick(&mut self, now: u64, out: &mut Vec<(Caller, Response)>) {
        let session = if self.bug == Bug::EarlyEviction { SESSION / 4 } else { SESSION };
        let waits = |id: &u64| self.waiting.contains_key(id);
        let silent = |member: &Member| member.last_accepted + session <= now;
        let late = matches!(self.group.phase, Phase::Syncing(until) if until <= now);
        let members = self.group.members.iter();
        let gone = members.filter(|(id, member)| {
            !waits(id) && silent(member) || late && !member.has_synced && member.has_joined
        });
        let gone: Vec<u64> = gone.map(|(id, _)| *id).collect();
        self.drop_members(now, &gone, out);
        if matches!(self.group.phase, Phase::Joining(until) if until <= now) {
            self.complete(now, out);
        }
    }

    fn restart(&mut self, now: u64) {
        self.group = self.durable.clone();
        self.waiting.clear();
        self.group.members.values_mut().for_each(|member| member.last_accepted = now);
    }

    fn may_commit(&self, id: u64, epoch: i32) -> Result<(), i16> {
        match self.group.members.get(&id) {
            None => Err(UNKNOWN_MEMBER_ID),
            Some(_) if epoch != self.group.generation => Err(ILLEGAL_GENERATION),
            Some(_) if matches!(self.group.phase, Phase::Syncing(_)) => Err(REBALANCE_IN_PROGRESS),
            Some(_) => Ok(()),
        }
    }
}

/// A member of the group.
pub(super) struct Classic {
    cooperative: bool,
    id: Option<u64>,
    epoch: i32,
    owned_in: i32,
    state: State,
}

#[derive(Clone, PartialEq)]
enum State {
    Unjoined,
    Joining,
    Joined,
    Syncing,
    Stable,
    /// Gives up partitions until this time, and then joins.
    Revoking(u64, Set),
}

impl Classic {
    pub(super) fn eager() -> Self {
        Self { cooperative: false, ..Self::cooperative() }
    }

    pub(super) fn cooperative() -> Self {
        Self { cooperative: true, id: None, epoch: -1, owned_in: -1, state: State::Unjoined }
    }

    fn rejoin(&mut self, me: &Me, revokes: Set, takes: u64) {
        self.state = match revokes.is_empty() {
            true => State::Unjoined,
            false => State::Revoking(me.now + takes, revokes),
        };
    }

    fn synced(&mut self, me: &mut Me, sent: u64, epoch: i32, assigned: &Set) -> u64 {
        self.owned_in = epoch;
        me.emit(EventKind::Alive { sent: time(sent), epoch: self.epoch });
        let gone: Set = me.owned.difference(assigned).copied().collect();
        let added: Set = assigned.difference(&me.owned).copied().collect();
        // The new partitions have an event before the revoked ones. The order would matter only if
        // a partition were in both events.
        me.assigned(epoch, &added);
        if gone.is_empty() {
            me.emit(EventKind::Settled { epoch });
            self.state = State::Stable;
            return 300;
        }
        self.rejoin(me, gone, sent % 70);
        1
    }

    fn fenced(&mut self, me: &mut Me, error: i16) -> u64 {
        me.emit(EventKind::Fenced { error });
        me.lost();
        self.id = self.id.filter(|_| error == ILLEGAL_GENERATION);
        (self.epoch, self.state) = (-1, State::Unjoined);
        10
    }
}

impl Behaviour for Classic {
    fn next(&mut self, me: &mut Me) -> Option<Request> {
        if let State::Revoking(until, gone) = &self.state
            && *until <= me.now
        {
            me.revoked(&gone.clone());
            self.state = State::Unjoined;
        }
        match self.state {
            State::Unjoined => {
                me.emit(EventKind::Joining);
                self.state = State::Joining;
                let (owned, owned_in) = (me.owned.clone(), self.owned_in);
                Some(Request::Join { id: self.id, owned, owned_in })
            }
            State::Joined => {
                self.state = State::Syncing;
                Some(Request::Sync { id: self.id?, epoch: self.epoch })
            }
            State::Stable | State::Revoking(..) => {
                let owned = Set::new();
                Some(Request::Heartbeat { id: self.id?, epoch: self.epoch, owned })
            }
            State::Joining | State::Syncing => None,
        }
    }

    fn answered(&mut self, me: &mut Me, sent: u64, response: Option<Response>) -> u64 {
        match response {
            Some(Response::Joined { id, epoch }) => {
                (self.id, self.epoch, self.state) = (Some(id), epoch, State::Joined);
                me.emit(EventKind::Joined { member_id: "id".into(), epoch });
                me.emit(EventKind::Alive { sent: time(sent), epoch });
                1
            }
            Some(Response::Assignment { epoch, partitions }) => {
                self.synced(me, sent, epoch, &partitions)
            }
            Some(Response::Done) => {
                me.emit(EventKind::Alive { sent: time(sent), epoch: self.epoch });
                300
            }
            Some(Response::Error(REBALANCE_IN_PROGRESS)) => {
                me.emit(EventKind::MustRebalance { sent: time(sent) });
                if !matches!(self.state, State::Revoking(..)) {
                    let gone = if self.cooperative { Set::new() } else { me.owned.clone() };
                    self.rejoin(me, gone, sent % 70);
                }
                1
            }
            Some(Response::Error(error)) => self.fenced(me, error),
            _ => {
                if matches!(self.state, State::Joining | State::Syncing) {
                    self.state = State::Unjoined;
                }
                50
            }
        }
    }

    fn commits(&self) -> Option<(u64, i32)> {
        let member = matches!(self.state, State::Stable | State::Revoking(..));
        self.id.filter(|_| member).map(|id| (id, self.epoch))
    }
}
