//! Calls the judge for the rights of users.

use crate::client::{Raw, read_response};
use crate::coverage::Seen;
use crate::net::{Asked, LinkId, Owner};
use crate::world::{Machine, World};
use std::sync::Arc;

impl<M: Machine> World<M> {
    /// The principal that a client shows in its certificate.
    pub(in crate::world) fn principal_of(&self, link: LinkId) -> Option<Arc<str>> {
        let Owner::Client(client) = self.network.link(link).owner() else { return None };
        let Raw::User(user) = self.clients.raw(client) else { return None };
        Some(Arc::from(user.name()))
    }

    /// Passes the ACLs that a client knows of to the judge. Called when the client sends a change
    /// of ACLs, and when it gets the answer.
    pub(crate) fn note_book(&mut self, client: u32) {
        if let Raw::Granter(granter) = self.clients.raw(client) {
            self.judge.note_book(self.sim.now(), granter.book().clone());
        }
    }
}

impl World {
    /// Checks the answer to a user when it leaves a shard.
    pub(crate) fn judge_access(&mut self, shard: u32, link: LinkId, asked: &Asked, frame: &[u8]) {
        let Owner::Client(client) = self.network.link(link).owner() else { return };
        let Raw::User(user) = self.clients.raw(client) else { return };
        let Ok(response) = read_response(asked.api, asked.version, frame) else { return };
        let findings = match user.findings(&response) {
            Ok(findings) => findings,
            Err(what) => return self.sim.violate(format_args!("{}: {what}", user.name())),
        };
        let principal = format!("User:{}", user.name());
        let granted = findings.iter().filter(|it| it.is_granted).count();
        self.sim.add(Seen::Granted, granted as u64);
        self.sim.add(Seen::Denied, (findings.len() - granted) as u64);
        self.sim.add(Seen::LateImage, u64::from(self.judge.is_access_late(shard)));
        let checked = self.judge.check_access(shard, &principal, &findings, asked.sent);
        if let Err(what) = checked {
            let request = format!("API {} v{} #{}", asked.api, asked.version, asked.correlation);
            self.sim.violate(format_args!("{principal}, {request}: {what}"));
        }
    }
}
