//! Connections of clients: they send requests, receive answers, and end in different ways.

use crate::coverage::Seen;
use crate::disk::Crash;
use crate::event::TimedEvent;
use crate::net::{Asked, LinkId, Owner};
use crate::world::{Machine, World};
use loadgen::member::Failure;
use std::collections::BTreeSet;

/// A request that is ready to be sent.
pub(super) struct RequestFrame {
    pub(super) api: i16,
    pub(super) version: i16,
    pub(super) token: u32,
    pub(super) correlation: i32,
    /// Length, header and body.
    pub(super) frame: Vec<u8>,
    /// The time after which the client gives up.
    pub(super) patience: u64,
}

impl<M: Machine> World<M> {
    /// Sends a request, which may break the connection.
    pub(super) fn ask(&mut self, id: LinkId, request: RequestFrame) {
        let RequestFrame { api, version, token, correlation, frame, patience } = request;
        let sent = self.sim.now();
        let asked = Asked { correlation, api, version, token, sent, frame: frame[4..].to_vec() };
        let link = self.network.link_mut(id);
        link.ask(asked);
        let owner = link.owner();
        self.sim.note(format_args!("{owner:?} asks {api} v{version} #{correlation} on {}", id.0));
        self.network.send(self.sim.queue(), id, frame);
        self.sim.after(patience, TimedEvent::Expired { link: id, correlation });
        if self.network.cuts() {
            let soon = 2 * self.network.delay();
            self.sim.after(soon, TimedEvent::Lost { link: id });
        }
    }

    /// Called when bytes arrive at a client. Passes on the answers that are now complete.
    pub(crate) fn came(&mut self, id: LinkId) {
        let link = self.network.link_mut(id);
        link.come();
        let owner = link.owner();
        while let Some((asked, frame)) = self.network.link_mut(id).next_answer() {
            self.notify(owner, asked, Ok(&frame));
        }
        if self.network.link(id).has_ended() {
            self.lose(id);
        }
    }

    /// Called when a client notices that its connection is gone. If the server runs, it is
    /// notified, too.
    pub(crate) fn lose(&mut self, id: LinkId) {
        self.end_link(id, None);
    }

    /// Called when a request has timed out. The client closes the connection.
    pub(crate) fn expired(&mut self, id: LinkId, correlation: i32) {
        let link = self.network.link(id);
        let waits = |asked: &&Asked| asked.correlation == correlation;
        let Some(asked) = link.unanswered().find(waits).filter(|_| link.is_client_open()) else {
            return;
        };
        // A client that was throttled since has to wait longer for this answer, which is no
        // violation.
        let is_muted = link.muted_until() > asked.sent;
        // A connection to an earlier process is gone, but the client may not know this.
        let is_live = link.life() == self.node.life(link.shard());
        if is_live && !is_muted && self.calm_since.is_some_and(|since| asked.sent > since) {
            let (api, owner) = (asked.api, link.owner());
            self.sim.violate(format_args!("no answer to {owner:?}, API {api}, #{correlation}"));
        }
        self.sim.saw(Seen::TimedOut);
        self.end_link(id, Some(correlation));
    }

    /// Closes a client's connection.
    pub(super) fn hang_up(&mut self, id: LinkId) {
        let link = self.network.link_mut(id);
        if link.is_client_open() {
            link.give_up();
            self.end_server_side(id);
        }
    }

    fn end_link(&mut self, id: LinkId, expired: Option<i32>) {
        let link = self.network.link_mut(id);
        if !link.is_client_open() {
            return;
        }
        let owner = link.owner();
        let given_up = link.give_up();
        self.sim.note(format_args!("{owner:?} loses link {}", id.0));
        self.end_server_side(id);
        self.forget_link(owner, id);
        for asked in given_up {
            let failure = match expired == Some(asked.correlation) {
                true => Failure::TimedOut,
                false => Failure::Disconnected,
            };
            self.notify(owner, asked, Err(failure));
        }
    }

    fn end_server_side(&mut self, id: LinkId) {
        // The answers to a raw client must fit the order of its requests. So the server ends its
        // old connection at once, before the client sends another request.
        let delay = match self.network.link(id).owner() {
            Owner::Member { .. } => self.network.end_delay(),
            Owner::Client(_) => 0,
        };
        match delay {
            0 => self.ended(id),
            delay => {
                if self.node.faults().chance(0.5) {
                    self.on_node(|node| node.input_ended(id));
                }
                self.sim.after(delay, TimedEvent::Ended { link: id });
            }
        }
    }

    /// Called when the process has ended. Clients lose their connections, but after a power loss
    /// some clients notice this only by timeouts. `accepted` has the connections of the process,
    /// and `has` says whether it had a shard.
    pub(crate) fn lose_all(
        &mut self,
        accepted: &BTreeSet<LinkId>,
        how: Crash,
        has: impl Fn(u32) -> bool,
    ) {
        for id in self.network.open_links() {
            if !has(self.network.link(id).shard()) {
                continue;
            }
            let was_there = accepted.contains(&id);
            let is_silent = how == Crash::PowerLoss && self.node.faults().chance(0.1);
            if was_there && !is_silent {
                let at = self.network.close(id, self.sim.now());
                self.sim.at(at, TimedEvent::Lost { link: id });
            } else {
                self.network.close_silently(id);
            }
        }
    }

    fn notify(&mut self, owner: Owner, asked: Asked, outcome: Result<&[u8], Failure>) {
        match owner {
            Owner::Member { member, life } => self.notify_member(member, life, asked, outcome),
            Owner::Client(client) => self.notify_client(client, &asked, outcome.ok()),
        }
    }

    fn forget_link(&mut self, owner: Owner, id: LinkId) {
        match owner {
            Owner::Member { member, .. } => {
                self.clients.members[member as usize].links.retain(|(_, link)| *link != id);
            }
            Owner::Client(client) => {
                let shard = self.network.link(id).shard();
                let sim = &mut self.clients.raws[client as usize];
                sim.links.retain(|link| *link != id);
                sim.raw.lost(shard);
                self.judge_deliveries(client, self.sim.now());
            }
        }
    }
}
