//! The connections that this shard dials, and sends on.

use super::{Description, Node, Peers};
use crate::check::check;
use crate::hello::{Hello, HelloBytes};
use crate::limits::{DIALLING_MS, GREETING_MS, LASTING_MS, RETRY_MS_MAX, RETRY_MS_MIN};
use crate::outgoing::{Outgoing, Stage};
use crate::output::{Connection, Dial, DialError, Notice, Output, PeerEvent};
use crate::refusal::Refusal;
use crate::slots::{shard_of, shards_with};
use muster_replication::{NodeId, PeerMessage};
use std::collections::BTreeSet;

impl Node {
    /// The time until the next attempt.
    fn retry_ms(&self) -> i64 {
        let doublings = self.failures.saturating_sub(1).min(10);
        let pause = RETRY_MS_MIN << doublings;
        if self.failures == 0 { 0 } else { pause.min(RETRY_MS_MAX) }
    }
}

impl Peers {
    /// A message of raft for a node. It is dropped if there is no connection: raft knows that.
    pub fn say(&mut self, to: NodeId, message: &PeerMessage) {
        let (slots, tick) = (self.own.slots, self.tick);
        let Some(node) = self.nodes.get_mut(&to) else { return };
        let Some(shards) = node.shards else { return };
        let shard = shard_of(message.group, slots, shards);
        if let Some(link) = node.links.get_mut(&shard) {
            link.say(message, tick);
        }
    }

    /// The connection of a [`Dial`] is open. It is closed if it was given up while it was opened.
    pub fn dialled(&mut self, connection: Connection, out: &mut Output) {
        let Some((node, shard)) = self.dialled.get(&connection).copied() else {
            out.close.push(connection);
            return;
        };
        let hello = self.hello((node, shard), 0);
        let deadline = self.now + GREETING_MS;
        let link = self.link(node, shard);
        link.stage = Stage::Greeting { connection, deadline, answer: HelloBytes::default() };
        link.unsent.add(hello);
    }

    /// The connection of a [`Dial`] could not be opened.
    ///
    /// Each refusal is reported. Raft forgets the report if it reads what the process had sent
    /// before its end.
    pub fn dial_failed(&mut self, connection: Connection, why: DialError, out: &mut Output) {
        let Some((id, shard)) = self.dialled.remove(&connection) else { return };
        if why == DialError::Refused && !self.is_up(id) {
            out.events.push(PeerEvent::Lost { node: id, refused: true });
        }
        self.lose(id, shard, Some(Notice::Unreachable(id, why)), out);
    }

    pub(super) fn received_answer(
        &mut self,
        node: NodeId,
        shard: u16,
        mut bytes: &[u8],
        out: &mut Output,
    ) {
        let refused = |why| Notice::Refused(Some(node), why);
        match &mut self.link(node, shard).stage {
            Stage::Greeting { connection, answer, .. } => {
                let connection = *connection;
                match answer.take(&mut bytes) {
                    Ok(None) => {}
                    Ok(Some(hello)) => self.answered(connection, (node, shard), &hello, out),
                    Err(why) => self.lose(node, shard, Some(refused(why)), out),
                }
            }
            Stage::Up(_) => {}
            Stage::Waiting { .. } | Stage::Dialling { .. } => return,
        }
        // Whatever follows the answer is wrong.
        let is_up = self.node(node).links.get(&shard).is_some_and(|it| it.up().is_some());
        if is_up && !bytes.is_empty() {
            self.lose(node, shard, Some(Notice::Talks(node)), out);
        }
    }

    fn answered(
        &mut self,
        connection: Connection,
        (id, shard): (NodeId, u16),
        hello: &Hello,
        out: &mut Output,
    ) {
        let directory = self.node(id).directory;
        match check(&self.own, hello, Some((id, shard)), directory) {
            Ok(()) => {}
            Err(Refusal::NothingShared { .. }) => {
                // This shard has asked for the number of shards.
                self.node(id).shards = Some(hello.from.shards);
                self.plan(id, out);
                return;
            }
            Err(why) => {
                self.lose(id, shard, Some(Notice::Refused(Some(id), why)), out);
                return;
            }
        }
        let (session, mark) = (hello.from.session, self.link(id, shard).mark);
        if let Err(why) = self.learn(connection, id, session, mark, out) {
            self.lose(id, shard, Some(Notice::Refused(Some(id), why)), out);
            return;
        }
        let (now, tick) = (self.now, self.tick);
        let node = self.node(id);
        if let Some(link) = node.links.get_mut(&shard) {
            link.begin(connection, session, now, tick);
        }
        node.directory = Some(hello.from.directory);
        node.shards = Some(hello.from.shards);
        self.describe(hello, out);
        self.plan(id, out);
    }

    fn describe(&mut self, hello: &Hello, out: &mut Output) {
        let (id, shards, clients) = (hello.from.node, hello.from.shards, &hello.from.clients);
        let description = Some(Description { shards, clients: clients.clone() });
        let node = self.node(id);
        if !clients.is_empty() && node.described != description {
            node.described = description;
            let clients = clients.clone();
            out.events.push(PeerEvent::Described { node: id, shards, clients });
        }
    }

    /// A connection that was dialled has ended, or ends now. The next one is dialled later, or at
    /// once if this one has lasted.
    pub(super) fn lose(
        &mut self,
        id: NodeId,
        shard: u16,
        notice: Option<Notice>,
        out: &mut Output,
    ) {
        let now = self.now;
        let mark = self.node(id).process.mark();
        let link = std::mem::replace(self.link(id, shard), Outgoing::waiting(now, mark));
        let connection = link.connection();
        self.close_dialled(id, &link, out);
        let has_lasted = link.up().is_some_and(|it| it.since + LASTING_MS <= now);
        let node = self.node(id);
        node.failures = if has_lasted { 0 } else { node.failures.saturating_add(1) };
        let until = now + node.retry_ms();
        node.links.insert(shard, Outgoing::waiting(until, mark));
        if node.links.values().all(|it| it.up().is_none()) && !has_lasted {
            node.shards = None;
        }
        self.plan(id, out);
        if let Some((connection, notice)) = connection.zip(notice) {
            self.notice(connection, notice, out);
        }
    }

    /// Closes the connection of a link that is not used any more.
    fn close_dialled(&mut self, node: NodeId, link: &Outgoing, out: &mut Output) {
        if let Some(connection) = link.connection()
            && self.dialled.remove(&connection).is_some()
        {
            out.close.push(connection);
        }
        if link.up().is_some() {
            out.events.push(PeerEvent::Lost { node, refused: false });
        }
    }

    /// Brings the links in line with the shards of a node that have slots of this shard.
    pub(super) fn plan(&mut self, id: NodeId, out: &mut Output) {
        let (own, slots, now) = ((self.own.shard, self.own.shards), self.own.slots, self.now);
        let node = self.node(id);
        let wanted: BTreeSet<u16> = match node.shards {
            None => [0].into(),
            Some(shards) => shards_with(slots, own, shards),
        };
        let is_unknown = node.shards.is_none();
        let is_kept = |shard: u16, it: &Outgoing| {
            wanted.contains(&shard) || is_unknown && it.connection().is_some()
        };
        let links = std::mem::take(&mut node.links).into_iter();
        let (mut kept, unused): (Vec<_>, Vec<_>) = links.partition(|(at, it)| is_kept(*at, it));
        let (until, mark) = (now + node.retry_ms(), node.process.mark());
        let known: BTreeSet<u16> = kept.iter().map(|it| it.0).collect();
        let added = wanted.difference(&known).map(|it| (*it, Outgoing::waiting(until, mark)));
        kept.extend(added);
        node.links = kept.into_iter().collect();
        unused.iter().for_each(|(_, it)| self.close_dialled(id, it, out));
    }

    /// A new process of a node is known: it need not be waited for.
    pub(super) fn hurry(&mut self, id: NodeId) {
        let now = self.now;
        let node = self.node(id);
        node.failures = 0;
        for link in node.links.values_mut() {
            if let Stage::Waiting { until } = &mut link.stage {
                *until = now;
            }
        }
    }

    pub(super) fn expire_dialled(&mut self, out: &mut Output) {
        let now = self.now;
        let mut overdue = Vec::new();
        for (id, node) in &self.nodes {
            for (shard, link) in &node.links {
                let notice = match &link.stage {
                    Stage::Dialling { deadline, .. } if *deadline <= now => {
                        Notice::Unreachable(*id, DialError::TimedOut)
                    }
                    Stage::Greeting { deadline, .. } if *deadline <= now => {
                        Notice::Silent(Some(*id))
                    }
                    Stage::Up(_) if link.stuck_at().is_some_and(|it| it <= now) => {
                        Notice::Stuck(*id)
                    }
                    _ => continue,
                };
                overdue.push((*id, *shard, notice));
            }
        }
        for (id, shard, notice) in overdue {
            // An earlier one of these may have changed the plan.
            if self.node(id).links.contains_key(&shard) {
                self.lose(id, shard, Some(notice), out);
            }
        }
    }

    pub(super) fn dial(&mut self, out: &mut Output) {
        let now = self.now;
        let is_due = |it: &Outgoing| matches!(it.stage, Stage::Waiting { until } if until <= now);
        let links = self.nodes.iter().flat_map(|(id, it)| it.links.iter().map(move |it| (*id, it)));
        let due = links.filter(|(_, (_, it))| is_due(it)).map(|(id, (shard, _))| (id, *shard));
        for (node, shard) in due.collect::<Vec<_>>() {
            let connection = self.next_connection();
            let mark = self.node(node).process.mark();
            let link = self.link(node, shard);
            let deadline = now + DIALLING_MS;
            (link.stage, link.mark) = (Stage::Dialling { connection, deadline }, mark);
            self.dialled.insert(connection, (node, shard));
            out.dial.push(Dial { connection, node, shard });
        }
    }
}
