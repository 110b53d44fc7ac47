//! The connections that shards of other nodes have dialled. They send on them.

use super::Peers;
use crate::check::check;
use crate::frame::{Frame, FrameError, Kind};
use crate::hello::Hello;
use crate::incoming::{Caller, Incoming, Stage};
use crate::limits::{GREETING_MS, GREETINGS_MAX, SILENT_MS};
use crate::message::Messages;
use crate::output::{Connection, MayBe, Notice, Output, PeerEvent};
use crate::refusal::Refusal;
use muster_replication::NodeId;

impl Peers {
    /// A connection was accepted. `may_be`: with TLS, the handshake has ended, and the certificate
    /// is checked.
    pub fn accepted(&mut self, may_be: MayBe, out: &mut Output) -> Connection {
        let waiting = self.accepted.iter().filter(|(_, it)| it.caller().is_none());
        if waiting.clone().count() >= GREETINGS_MAX {
            let is_refused = |it: &(&Connection, &Incoming)| matches!(it.1.stage, Stage::Refused);
            let oldest = waiting.clone().find(is_refused).or_else(|| waiting.clone().next());
            self.close_accepted_one(oldest.map(|it| *it.0), out);
        }
        let connection = self.next_connection();
        self.accepted.insert(connection, Incoming::accepted(may_be, self.now));
        connection
    }

    /// Raft refuses a message of the node, which an honest node never sends (`Lie::Peer`). The
    /// connections on which the node sends are closed.
    pub fn lied(&mut self, node: NodeId, why: &'static str, out: &mut Output) {
        let is_of = |it: &Incoming| it.caller().is_some_and(|it| it.node == node);
        let lying = self.accepted.iter().filter(|(_, it)| it.is_live() && is_of(it));
        for connection in lying.map(|it| *it.0).collect::<Vec<_>>() {
            self.close_accepted_one(Some(connection), out);
            self.notice(connection, Notice::Lied(node, why), out);
        }
    }

    pub(super) fn received_call(
        &mut self,
        connection: Connection,
        mut bytes: &[u8],
        out: &mut Output,
    ) {
        // The connection is gone if it was closed for what it said.
        while let Some(it) = self.accepted.get_mut(&connection).filter(|_| !bytes.is_empty()) {
            match &mut it.stage {
                Stage::Refused => return,
                Stage::Greeting(hello) => match hello.take(&mut bytes) {
                    Ok(None) => {}
                    Ok(Some(hello)) => self.greet(connection, &hello, out),
                    Err(why) => self.refuse_unread(connection, why, out),
                },
                Stage::Answered(caller, _) | Stage::Live(caller) => {
                    let node = caller.node;
                    if it.is_live() {
                        // A long frame takes its time on a slow link.
                        it.deadline = self.now + SILENT_MS;
                    }
                    match it.frames.take(&mut bytes) {
                        Ok(None) => {}
                        Ok(Some(frame)) => self.take_frame(connection, frame, out),
                        Err(error) => self.close_wrong(connection, node, error, out),
                    }
                }
            }
        }
    }

    /// Answers a hello.
    fn greet(&mut self, connection: Connection, hello: &Hello, out: &mut Output) {
        let (id, shard) = (hello.from.node, hello.from.shard);
        let node = self.nodes.get(&id);
        let directory = node.and_then(|it| it.directory);
        let is_certified = self.accepted.get(&connection).is_some_and(|it| it.may_be.has(id));
        let certified = if is_certified { Ok(()) } else { Err(Refusal::Certificate(id)) };
        let checked = certified.and_then(|()| check(&self.own, hello, None, directory));
        let mark = checked.and_then(|()| Ok(node.ok_or(Refusal::Unknown(id))?.process.mark()));
        let refusal = mark.as_ref().err().map_or(0, Refusal::number);
        let answer = self.hello((id, shard), refusal);
        self.answers += 1;
        let caller = Caller {
            node: id,
            shard,
            shards: hello.from.shards,
            session: hello.from.session,
            directory: hello.from.directory,
            order: self.answers,
        };
        // A shard dials one connection after another, so the earlier ones are closed there.
        let is_earlier = |it: &Incoming| {
            !it.is_live() && it.caller().is_some_and(|it| (it.node, it.shard) == (id, shard))
        };
        self.close_accepted(out, |it| mark.is_ok() && is_earlier(it));
        let deadline = self.now + GREETING_MS;
        let Some(it) = self.accepted.get_mut(&connection) else { return };
        it.unsent.add(answer);
        it.deadline = deadline;
        match mark {
            Ok(mark) => it.stage = Stage::Answered(caller, mark),
            Err(why) => {
                it.stage = Stage::Refused;
                // A shard may ask for the number of shards.
                if !matches!(why, Refusal::NothingShared { .. }) {
                    self.notice(connection, Notice::Refused(Some(id), why), out);
                }
            }
        }
    }

    /// The first bytes are no hello of this version. A node of another version hears of this one.
    fn refuse_unread(&mut self, connection: Connection, why: Refusal, out: &mut Output) {
        if matches!(why, Refusal::Version { .. }) {
            let answer = self.hello((NodeId(0), 0), why.number());
            if let Some(it) = self.accepted.get_mut(&connection) {
                it.unsent.add(answer);
                it.stage = Stage::Refused;
            }
        } else {
            self.close_accepted_one(Some(connection), out);
        }
        self.notice(connection, Notice::Refused(None, why), out);
    }

    fn take_frame(&mut self, connection: Connection, frame: Frame, out: &mut Output) {
        if let Some(Stage::Answered(caller, mark)) =
            self.accepted.get(&connection).map(|it| &it.stage)
        {
            let (caller, mark) = (*caller, *mark);
            if let Err(why) = self.learn(connection, caller.node, caller.session, mark, out) {
                self.close_accepted_one(Some(connection), out);
                self.notice(connection, Notice::Refused(Some(caller.node), why), out);
                return;
            }
            self.begin(connection, caller, out);
        }
        let caller = self.accepted.get(&connection).and_then(Incoming::caller);
        let Some(caller) = caller else { return };
        let (node, from) = (caller.node, (caller.node, caller.session));
        let shard = (caller.shard, caller.shards);
        out.events.push(PeerEvent::Heard { from, shard, tick: frame.tick });
        let Kind::Groups = frame.kind;
        for message in Messages::of(frame.body) {
            match message {
                Ok(message) => {
                    let is_fresh = self.tick.is_fresh(message.echo);
                    out.events.push(PeerEvent::Said { from, is_fresh, message });
                }
                Err(error) => return self.close_wrong(connection, node, error, out),
            }
        }
    }

    /// The first frame has arrived: this connection is newer than those that were answered before.
    fn begin(&mut self, connection: Connection, caller: Caller, out: &mut Output) {
        if let Some(it) = self.accepted.get_mut(&connection) {
            it.stage = Stage::Live(caller);
            it.deadline = self.now + SILENT_MS;
        }
        self.close_accepted(out, |it| {
            it.caller().is_some_and(|it| {
                (it.node, it.shard) == (caller.node, caller.shard) && it.order < caller.order
            })
        });
        let node = self.node(caller.node);
        node.directory = Some(caller.directory);
        node.shards = Some(caller.shards);
        self.plan(caller.node, out);
    }

    fn close_wrong(
        &mut self,
        connection: Connection,
        node: NodeId,
        error: FrameError,
        out: &mut Output,
    ) {
        self.close_accepted_one(Some(connection), out);
        self.notice(connection, Notice::Wrong(node, error), out);
    }

    pub(super) fn expire_accepted(&mut self, out: &mut Output) {
        let now = self.now;
        let overdue = self.accepted.iter().filter(|(_, it)| it.deadline <= now);
        let overdue = overdue.map(|(connection, it)| (*connection, silence(it)));
        for (connection, notice) in overdue.collect::<Vec<_>>() {
            self.close_accepted_one(Some(connection), out);
            if let Some(notice) = notice {
                self.notice(connection, notice, out);
            }
        }
    }

    /// Closes all accepted connections for which `is_closed` holds.
    pub(super) fn close_accepted(
        &mut self,
        out: &mut Output,
        is_closed: impl Fn(&Incoming) -> bool,
    ) {
        let closed = self.accepted.extract_if(.., |_, it| is_closed(it));
        out.close.extend(closed.map(|(connection, _)| connection));
    }

    fn close_accepted_one(&mut self, connection: Option<Connection>, out: &mut Output) {
        if let Some(connection) = connection
            && self.accepted.remove(&connection).is_some()
        {
            out.close.push(connection);
        }
    }
}

/// The notice for a connection that is overdue. The notice of a refused one is written already.
fn silence(overdue: &Incoming) -> Option<Notice> {
    let is_refused = matches!(overdue.stage, Stage::Refused);
    (!is_refused).then(|| Notice::Silent(overdue.caller().map(|it| it.node)))
}
