//! The connections of a world: they delay requests and answers, and lose them when they break.

use std::sync::Arc;

use super::*;

impl<C: Coordinator, B: Behaviour> World<C, B> {
    /// Opens a new connection: requests and answers under way on the old one are lost.
    pub(super) fn reconnect(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        slot.connection += 1;
        (slot.deaf, slot.in_flight) = (false, None);
        (slot.last_arrival, slot.last_answer) = (self.now, self.now);
        let commits = std::mem::take(&mut slot.commits);
        self.with_member(at, |me, _| {
            commits.values().for_each(|id| me.emit(EventKind::CommitUnknown { id: *id }));
        });
    }

    pub(super) fn send(&mut self, at: usize, request: Request) -> u64 {
        self.count += 1;
        let delay =
            if self.random.u8(..) < 8 { self.random.u64(..1500) } else { self.random.u64(1..20) };
        let slot = &mut self.slots[at];
        let from = Caller {
            slot: at,
            is_static: slot.is_static,
            connection: slot.connection,
            request: self.count,
            sent: self.now,
        };
        slot.last_arrival = slot.last_arrival.max(self.now + delay);
        let after = slot.last_arrival - self.now;
        let waits = match request {
            Request::Join { .. } | Request::Sync { .. } => REQUEST_TIMEOUT + REBALANCE,
            _ => REQUEST_TIMEOUT,
        };
        self.later(after, Step::Arrive { from, request });
        self.later(waits, Step::TimedOut { from });
        from.request
    }

    fn lives(&self, caller: Caller) -> bool {
        let slot = &self.slots[caller.slot];
        slot.up && slot.connection == caller.connection
    }

    pub(super) fn arrive(&mut self, from: Caller, request: Request) {
        // The last requests of a member that left or crashed may arrive. A request is lost if its
        // connection was replaced, and in one of 256 other cases. After a lost request, the current
        // connection of the member loses everything.
        if self.slots[from.slot].connection != from.connection || self.random.u8(..) < 1 {
            self.slots[from.slot].deaf = true;
        }
        if self.slots[from.slot].deaf {
            return;
        }
        let mut out = Vec::new();
        match request {
            Request::Commit { id, epoch, offsets } => {
                let response = self.handle_commit(id, epoch, offsets);
                out.push((from, response));
            }
            Request::Fetch { partitions } => {
                let found = partitions.iter().map(|one| (*one, self.committed(*one)));
                out.push((from, Response::Fetched(found.collect())));
            }
            request => self.coordinator.handle(self.now, from, request, &mut out),
        }
        self.answers(out);
    }

    pub(super) fn answers(&mut self, out: Vec<(Caller, Response)>) {
        for (to, response) in out {
            let slow = self.random.u8(..) < 10;
            let delay = if slow { self.random.u64(..2400) } else { self.random.u64(1..20) };
            let slot = &mut self.slots[to.slot];
            slot.last_answer = slot.last_answer.max(self.now + delay);
            let after = slot.last_answer - self.now;
            self.later(after, Step::Answer { to, response });
        }
    }

    pub(super) fn answer(&mut self, to: Caller, mut response: Response) {
        if !self.lives(to) || self.slots[to.slot].deaf {
            return;
        }
        if self.random.u8(..) < 2 {
            self.slots[to.slot].deaf = true;
            return;
        }
        let slot = &mut self.slots[to.slot];
        if slot.paused_until > self.now {
            let after = slot.paused_until - self.now;
            return self.later(after, Step::Answer { to, response });
        }
        if let Some(id) = slot.commits.remove(&to.request) {
            return self.with_member(to.slot, |me, _| match response {
                Response::Error(error) => {
                    let refused = (0..PARTITIONS).map(|n| (partition(n), error)).collect();
                    me.emit(EventKind::CommitAnswered { id, refused });
                }
                _ => me.emit(EventKind::CommitAnswered { id, refused: Arc::from([]) }),
            });
        }
        if let Response::Fetched(offsets) = response {
            let offsets = offsets.iter().map(|(one, value)| (partition(*one), *value)).collect();
            let kind = EventKind::Fetched { sent: time(to.sent), offsets };
            return self.with_member(to.slot, |me, _| me.emit(kind));
        }
        if slot.in_flight != Some(to.request) {
            return;
        }
        slot.in_flight = None;
        if let (Bug::EpochBack, Response::Assignment { epoch, .. }) = (self.bug, &mut response)
            && self.random.u8(..) < 20
        {
            *epoch = (*epoch - 3).max(1);
        }
        self.deliver(to, Some(response));
    }

    fn deliver(&mut self, of: Caller, response: Option<Response>) {
        let after =
            self.with_member(of.slot, |me, behaviour| behaviour.answered(me, of.sent, response));
        let life = self.slots[of.slot].life;
        self.later(after.min(HEARTBEAT), Step::Wake { slot: of.slot, life });
    }

    pub(super) fn timed_out(&mut self, from: Caller) {
        let slot = &self.slots[from.slot];
        let waited =
            slot.in_flight == Some(from.request) || slot.commits.contains_key(&from.request);
        if !self.lives(from) || !waited {
            return;
        }
        if slot.paused_until > self.now {
            let after = slot.paused_until + 1 - self.now;
            return self.later(after, Step::TimedOut { from });
        }
        self.broke(from.slot);
    }

    pub(super) fn broke(&mut self, at: usize) {
        let in_flight = self.slots[at].in_flight;
        self.reconnect(at);
        self.with_member(at, |me, _| me.emit(EventKind::Disconnected));
        if in_flight.is_some() {
            let after = self.with_member(at, |me, behaviour| behaviour.answered(me, me.now, None));
            let life = self.slots[at].life;
            self.later(after.clamp(10, HEARTBEAT), Step::Wake { slot: at, life });
        }
    }
}
