//! The effects of a node on the network and on the judge.

use super::{Machine, World};
use crate::event::TimedEvent;
use crate::net::LinkId;
use crate::node::Effect;

impl<M: Machine> World<M> {
    /// Calls the node, and carries out the effects of the call.
    pub(super) fn on_node<T>(&mut self, act: impl FnOnce(&mut M) -> T) -> T {
        let done = act(&mut self.node);
        while let Some(effect) = self.node.next_effect() {
            self.carry_out(effect);
        }
        M::acted(self);
        done
    }

    fn carry_out(&mut self, effect: Effect<M::Fact>) {
        match effect {
            Effect::Planned { at, node, event } => {
                self.sim.at(at, TimedEvent::Machine { node, event });
            }
            Effect::Sent { shard, link, bytes, is_whole } => {
                self.leave(shard, link, &bytes);
                if is_whole && !bytes.is_empty() && self.network.link(link).is_in_answer() {
                    self.sim.violate(format_args!("link {}: half an answer left", link.0));
                }
            }
            Effect::Finished { link, is_empty } => {
                self.sim.note(format_args!("link {} closes when its output has left", link.0));
                if let Some(delay) = self.network.finish(link, is_empty) {
                    self.sim.after(delay, TimedEvent::Lost { link });
                }
            }
            Effect::Closed { link } => {
                let at = self.network.close(link, self.sim.now());
                self.sim.at(at, TimedEvent::Lost { link });
            }
            Effect::Showed { shard, fact } => M::judge_fact(self, shard, fact),
        }
    }

    /// Passes output of a shard to the network. Checks each answer that this output completes: the
    /// facts that the answer reports must be durable now.
    fn leave(&mut self, shard: u32, link: LinkId, bytes: &[u8]) {
        for frame in self.network.link_mut(link).leave(bytes) {
            self.answer_leaves(shard, link, frame);
        }
        if !bytes.is_empty() {
            self.network.give(self.sim.queue(), link, bytes.len());
        }
    }

    fn answer_leaves(&mut self, shard: u32, id: LinkId, frame: Vec<u8>) {
        let link = self.network.link_mut(id);
        let Some(asked) = link.answer(&frame) else {
            if link.forbids_answer() {
                self.sim.violate(format_args!("link {}: an answer to no request", id.0));
            }
            return;
        };
        M::judge_answer(self, shard, id, &asked, &frame);
        self.network.link_mut(id).keep_answer(asked, frame);
    }

    /// Passes bytes that arrive from a client to the server.
    pub(super) fn arrive(&mut self, link: LinkId) {
        if let Some(bytes) = self.network.link_mut(link).arrive() {
            self.on_node(|node| node.receive(link, bytes));
        }
    }

    /// Accepts a client that connects, if there is a server.
    pub(super) fn accept(&mut self, id: LinkId) {
        let shard = self.network.link(id).shard();
        if !self.node.listens(shard) {
            return self.lose(id);
        }
        let (life, principal) = (self.node.life(shard), self.principal_of(id));
        let link = self.network.link_mut(id);
        if link.is_client_open() {
            link.accept(life);
            self.on_node(|node| node.accept(id, shard, principal));
        }
    }

    /// Notes that the server's socket has accepted output.
    pub(super) fn taken(&mut self, link: LinkId) {
        let bytes = self.network.taken(self.sim.queue(), link);
        self.on_node(|node| node.taken(link, bytes));
    }

    /// Notifies the server that a client has closed its connection.
    pub(super) fn ended(&mut self, link: LinkId) {
        self.on_node(|node| node.ended(link));
    }
}
