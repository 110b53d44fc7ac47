//! The real clients beside the members of a run: passes orders to them, and handles their events.

use std::time::Instant;

use loadgen::topics::Topics;

use super::{ENDING, Session, TICK};

impl Session {
    pub(super) fn order_clients(&mut self) {
        let orders = std::mem::take(&mut self.orders.clients);
        orders.into_iter().for_each(|order| self.tools.clients.order(order));
    }

    /// Passes on the events of real clients. Must be called before [`Session::judge`] handles the
    /// events that members had at the same time.
    pub(super) fn hear_clients(&mut self) {
        let now = self.tools.engine.now();
        let nothing = Topics::default();
        let topics = self.tools.conductor.topics().unwrap_or(&nothing);
        let news = self.tools.clients.news(now, topics);
        news.notes.iter().for_each(|note| self.tools.live.note(note));
        news.events.into_iter().for_each(|event| self.merge.insert(event));
    }

    /// Ends the remaining clients. After the normal end of a run there are none.
    pub(super) fn end_clients(&mut self) {
        self.tools.clients.kill_all();
        let until = Instant::now() + ENDING;
        while self.tools.clients.are_running() && Instant::now() < until {
            self.receive_for(TICK);
            self.hear_clients();
        }
    }
}
