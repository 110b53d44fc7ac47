//! The faults of a world. Members stop in every way, pause, or lose their connection, and a
//! coordinator restarts.

use super::*;

impl<C: Coordinator, B: Behaviour> World<C, B> {
    pub(super) fn fault(&mut self) {
        let at = self.random.usize(..self.slots.len());
        match self.random.u8(..12) {
            0..3 => self.stop(at, Stop::Crash),
            3..5 => self.stop(at, Stop::Leave),
            5 if self.slots[at].is_static => self.stop(at, Stop::Close),
            6..8 => self.slots[at].deaf = true,
            8..10 => self.slots[at].paused_until = self.now + self.random.u64(100..5000),
            10 => self.restart(),
            _ => {}
        }
        let after = self.random.u64(100..2500);
        self.later(after, Step::Fault);
    }

    fn stop(&mut self, at: usize, how: Stop) {
        let after = self.random.u64(10..4000);
        self.later(after, Step::Start { slot: at });
        if !self.slots[at].up || self.slots[at].paused_until > self.now {
            return;
        }
        let id = self.slots[at].behaviour.commits().map(|(id, _)| id);
        self.with_member(at, |me, _| match how {
            Stop::Crash => me.lost(),
            Stop::Leave | Stop::Close | Stop::Shutdown => me.revoked(&me.owned.clone()),
        });
        if let Some(id) = id.filter(|_| how != Stop::Crash) {
            self.send(at, Request::Leave { id, comes_back: how == Stop::Close });
        }
        self.with_member(at, |me, _| me.emit(EventKind::Stopped { how }));
        self.slots[at].up = false;
        self.slots[at].commits.clear();
    }

    fn restart(&mut self) {
        self.coordinator.restart(self.now);
        self.restarted.push(self.now);
        for at in 0..self.slots.len() {
            if self.slots[at].up && self.slots[at].paused_until <= self.now {
                self.broke(at);
            } else {
                self.slots[at].deaf = true;
            }
        }
    }
}
