//! The turns of clients that send invalid requests.

use crate::client::garbage;
use crate::coverage::Seen;
use crate::net::Owner;
use crate::world::{Machine, World};

impl<M: Machine> World<M> {
    /// Sends invalid bytes: on a new connection, or on one on which the server may already have
    /// half of a request.
    pub(super) fn act_hostile(&mut self, client: u32) {
        if !self.is_chaos() {
            return;
        }
        let shard = self.node.any(&mut self.clients.random);
        let link = match self.clients.raws[client as usize].links.first().copied() {
            Some(link) if self.clients.random.chance(0.5) => link,
            known => {
                known.into_iter().for_each(|link| self.hang_up(link));
                self.network.connect(self.sim.queue(), Owner::Client(client), shard)
            }
        };
        self.network.link_mut(link).stop_tracking();
        self.clients.raws[client as usize].links = vec![link];
        let bytes = garbage(&mut self.clients.random);
        self.sim.note(format_args!("client {client} sends {} bytes of garbage", bytes.len()));
        self.sim.saw(Seen::Garbage);
        self.network.send(self.sim.queue(), link, bytes);
        self.arm_client(client);
    }
}
