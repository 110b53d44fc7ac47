//! The sockets of shards on the simulated network, and all else that production's reactor needs
//! beside files: it carries out what `muster`'s `Reactor` decides.

use super::turn::ms_of;
use super::{Inbound, SimShard};
use crate::event::TimedEvent;
use crate::net::LinkId;
use crate::node::{Fact, RunQueues};
use crate::world::World;
use muster::clock::Times;
use muster::reactor::{Completion, Io, Share};
use muster::shard::{CertificateOrder, Command, Event, ListenerIndex, Message, Shard};
use muster::telemetry::{Push, Receiver};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// The most frames of a slice.
const FRAMES_MAX: u64 = 16;

impl Io for World {
    type Conn = LinkId;
    type Data = Vec<u8>;
    type Parts = Vec<u8>;
    type Files = Self;

    fn files(&mut self) -> &mut Self {
        self
    }

    fn times(&self) -> Times {
        self.clocks()
    }

    fn next_completion(&mut self) -> Option<Completion<LinkId, Vec<u8>, Vec<u8>>> {
        let inbound = self.turning().ready.pop_front()?;
        Some(self.completion(inbound))
    }

    /// All completions come in the order in which they occurred.
    fn next_other(&mut self) -> Option<Completion<LinkId, Vec<u8>, Vec<u8>>> {
        None
    }

    fn has_others(&self) -> bool {
        false
    }

    fn unread_since(&self) -> Option<i64> {
        None
    }

    fn is_late(&mut self, _: i64) -> bool {
        self.is_out_of_slices()
    }

    fn begin(&mut self, share: Share) {
        self.process.share = share;
    }

    /// A turn has time for a number of slices, and for one handshake.
    fn is_over(&mut self) -> bool {
        match self.process.share {
            Share::Requests => self.is_out_of_slices(),
            Share::First | Share::Others | Share::Handshakes => true,
        }
    }

    fn work(&mut self, shard: &mut Shard, times: Times, commands: &mut Vec<Command>) {
        let frames = self.faults.skewed(1, FRAMES_MAX);
        let mut asked = 0;
        let mut is_over = || {
            asked += 1;
            asked >= frames
        };
        self.show(Fact::SliceBegins(RunQueues::of(shard.inspect())));
        self.show_image(shard);
        shard.work(times, &mut is_over, commands);
        let (shard, things) = (shard.inspect(), 1 + asked.min(frames - 1));
        let has_long_request = shard.has_long_request();
        self.show(Fact::SliceEnds { queues: RunQueues::of(shard), things, has_long_request });
    }

    fn step(
        &mut self,
        shard: &mut Shard,
        times: Times,
        event: Event<'_>,
        commands: &mut Vec<Command>,
    ) {
        if let Event::Received { connection, data } = &event {
            let (connection, bytes, came_at) = (*connection, data.len(), self.turning().came_at);
            self.show(Fact::Received { connection, bytes, came_at });
        } else if let Event::Ended { connection } = &event {
            self.show(Fact::Ended(*connection));
        }
        let opened = match &event {
            Event::Opened { connection, .. } => Some(*connection),
            _ => None,
        };
        self.show_image(shard);
        shard.step(times, event, commands);
        self.show_image(shard);
        if let Some(connection) = opened
            && let Some(link) =
                self.process.sockets.in_slot(self.process.turning, connection.slot())
        {
            self.show_certificate(shard, times, (link, connection), commands);
        }
    }

    fn slot(&self, link: LinkId) -> usize {
        self.process.sockets.slot(link)
    }

    fn peer(&self, link: LinkId) -> Option<SocketAddr> {
        let ip = Ipv4Addr::new(10, 0, (link.0 / 250 % 250) as u8, (link.0 % 250) as u8);
        Some(SocketAddr::new(IpAddr::V4(ip), 1))
    }

    fn is_full(&self) -> bool {
        false
    }

    fn connections_max(&self) -> Option<usize> {
        None
    }

    fn send(&mut self, link: LinkId, output: &mut Vec<u8>) {
        let bytes = std::mem::take(output);
        if self.process.sockets.is_open(link) {
            self.leave(link, &bytes);
        }
    }

    fn unsent(&self, link: LinkId) -> usize {
        self.process.sockets.unsent(link)
    }

    fn recycle(&mut self, _: Vec<u8>) {}

    fn put_first(&mut self, _: LinkId, _: bool) {}

    fn pause_receive(&mut self, link: LinkId) {
        self.process.sockets.pause(link);
    }

    fn resume_receive(&mut self, link: LinkId) {
        let (now, held) = (self.now_ms(), self.process.sockets.resume(link));
        let arrived = held.into_iter().map(|data| Inbound::Received(link, data, now));
        self.turning().inbox.extend(arrived);
    }

    fn await_writable(&mut self, link: LinkId) {
        self.turning().inbox.push_back(Inbound::Writable(link));
    }

    fn finish(&mut self, id: LinkId) {
        let Some(is_empty) = self.process.sockets.finish(id) else { return };
        self.sim.note(format_args!("link {} closes when its output has left", id.0));
        if let Some(delay) = self.network.finish(id, is_empty) {
            self.sim.after(delay, TimedEvent::Lost { link: id });
        }
    }

    fn close(&mut self, id: LinkId) {
        if self.process.sockets.close(id) {
            let at = self.network.close(id, self.sim.now());
            self.sim.at(at, TimedEvent::Lost { link: id });
        }
    }

    fn mail(&mut self, to: u32, message: Message) {
        self.post(to, message);
    }

    /// No listener has TLS.
    fn order_certificates(&mut self, _: CertificateOrder) {}

    /// Pushes of clients go nowhere.
    fn pass_push(&mut self, push: Push) {
        let now = (self.sim.now() / 1_000) as i64;
        let (outcome, _) = Receiver::new(false, false).take(now, &push);
        self.post(push.from, Message::Pushed(outcome));
    }
}

impl World {
    /// Takes one of the turn's slices; true if there was none.
    fn is_out_of_slices(&mut self) -> bool {
        let left = &mut self.process.slices_left;
        let is_late = *left == 0;
        *left = left.saturating_sub(1);
        is_late
    }

    /// Shows the judge a fact about the shard whose turn it is.
    pub(super) fn show(&mut self, fact: Fact) {
        self.judge_fact(self.process.turning, fact);
    }

    /// Shows the judge the image on which the shard decides, if it is another one.
    fn show_image(&mut self, shard: &Shard) {
        let image = shard.inspect().image();
        let sim = self.turning();
        if !sim.has_shown_image || !Arc::ptr_eq(&sim.image, image) {
            (sim.has_shown_image, sim.image) = (true, image.clone());
            self.show(Fact::Image(image.clone()));
        }
    }

    /// The shard whose turn it is, whose `running` is None meanwhile.
    pub(crate) fn turning(&mut self) -> &mut SimShard {
        let number = self.process.turning;
        &mut self.process.shards[number as usize]
    }

    fn completion(&mut self, inbound: Inbound) -> Completion<LinkId, Vec<u8>, Vec<u8>> {
        match inbound {
            Inbound::Opened(conn) => {
                self.process.sockets.open(conn);
                Completion::Accepted { conn, listener: ListenerIndex::FIRST }
            }
            Inbound::Received(conn, data, came_at) => {
                // Sessions begin again with a load: input that waited for it does not count against
                // them.
                let loaded_at = ms_of(self.process.loaded_at(self.process.turning));
                self.turning().came_at = came_at.max(loaded_at);
                Completion::Received { conn, data }
            }
            Inbound::Sent(conn, unsent) => Completion::Sent { conn, unsent },
            Inbound::InputEnded(conn) => Completion::InputEnded { conn },
            Inbound::Streamed(conn, sent, files) => {
                drop(files);
                Completion::Streamed { conn, sent }
            }
            Inbound::StreamFailed(conn, files) => {
                drop(files);
                Completion::StreamFailed { conn, error: std::io::Error::other("simulated") }
            }
            Inbound::Writable(conn) => Completion::Writable { conn },
            Inbound::Ended(conn) => Completion::Broken { conn },
            Inbound::File(ended) => self.operation_ended(ended),
            Inbound::Called => Completion::Called,
            Inbound::Mail(message) => Completion::Mail(message),
        }
    }

    /// Called when whole answers leave the shard.
    fn leave(&mut self, id: LinkId, bytes: &[u8]) {
        self.leave_in_parts(id, bytes);
        if !bytes.is_empty() && self.network.link(id).is_in_answer() {
            self.sim.violate(format_args!("link {}: half an answer left", id.0));
        }
    }

    /// Answers leave the shard, the last perhaps in part: what they report has to be durable now.
    fn leave_in_parts(&mut self, id: LinkId, bytes: &[u8]) {
        for frame in self.network.link_mut(id).leave(bytes) {
            self.answer_leaves(id, frame);
        }
        if !bytes.is_empty() {
            self.process.sockets.sent(id, bytes.len());
            self.network.give(self.sim.queue(), id, bytes.len());
        }
    }

    /// Passes the gathered parts, or some of their bytes, to the socket.
    pub(super) fn send_parts(&mut self, link: Option<LinkId>) {
        let parts = self.turning().parts.replace(Vec::new());
        let files = std::mem::take(&mut self.turning().files_of_parts);
        let is_open = |link: &LinkId| self.process.sockets.is_open(*link);
        let Some(link) = link.filter(is_open) else { return };
        let Some(parts) = parts else {
            return self.turning().inbox.push_back(Inbound::StreamFailed(link, files));
        };
        let is_full = self.faults.chance(0.3);
        let most = parts.len() as u64;
        let sent = if is_full { self.faults.between(0, most) } else { most } as usize;
        self.leave_in_parts(link, &parts[..sent]);
        self.turning().inbox.push_back(Inbound::Streamed(link, sent, files));
    }

    fn answer_leaves(&mut self, id: LinkId, frame: Vec<u8>) {
        let link = self.network.link_mut(id);
        let Some(asked) = link.answer(&frame) else {
            if link.forbids_answer() {
                self.sim.violate(format_args!("link {}: an answer to no request", id.0));
            }
            return;
        };
        self.judge_answer(&asked, &frame);
        let shard = self.process.turning;
        self.judge_access(shard, id, &asked, &frame);
        self.judge_throttling(shard, id, &asked, &frame);
        self.network.link_mut(id).keep_answer(asked, frame);
    }

    /// Called when bytes arrive at a shard's end of a connection.
    pub(crate) fn arrive(&mut self, id: LinkId) {
        let Some(bytes) = self.network.link_mut(id).arrive() else { return };
        if let Some((shard, bytes)) = self.process.sockets.receive(id, bytes) {
            self.enqueue(shard, Inbound::Received(id, bytes, self.now_ms()));
        }
    }

    /// A client that connects is accepted, or there is no server.
    pub(crate) fn accept(&mut self, id: LinkId) {
        let now = self.sim.now();
        let (shard, life) = (self.network.link(id).shard(), self.process.life);
        let listens = now >= self.process.listens_at && !self.process.stopping;
        let is_there = self.process.shards.get(shard as usize).is_some_and(|shard| !shard.stopped);
        if !listens || !is_there {
            return self.lose(id);
        }
        let link = self.network.link_mut(id);
        if link.is_client_open() {
            link.accept(life);
            self.process.sockets.accept(id, shard);
            self.enqueue(shard, Inbound::Opened(id));
        }
    }

    /// Called when the socket has accepted output of a shard.
    pub(crate) fn taken(&mut self, id: LinkId) {
        let len = self.network.taken(self.sim.queue(), id);
        if let Some(shard) = self.process.sockets.taken(id, len) {
            let unsent = self.process.sockets.unsent(id);
            self.enqueue(shard, Inbound::Sent(id, unsent));
        }
    }

    /// Notifies the shard that a client sends nothing more.
    pub(crate) fn input_ended(&mut self, id: LinkId) {
        if let Some(shard) = self.process.sockets.shard(id) {
            self.enqueue(shard, Inbound::InputEnded(id));
        }
    }

    /// Notifies the shard that a client has closed its connection.
    pub(crate) fn ended(&mut self, id: LinkId) {
        if let Some(shard) = self.process.sockets.shard(id) {
            self.enqueue(shard, Inbound::Ended(id));
        }
    }

    /// Sends mail to a shard: in order, but for some verdicts; input that comes later may be
    /// handled before.
    pub(crate) fn post(&mut self, to: u32, mut message: Message) {
        let late = self.late_verdicts(to, &mut message);
        self.deliver(to, message);
        late.into_iter().for_each(|message| self.deliver(to, message));
    }

    pub(super) fn deliver(&mut self, to: u32, message: Message) {
        let arrives = self.sim.now() + self.mail.skewed(0, self.profile.turn_delay_max);
        let Some(sim) = self.process.shard(to) else { return };
        let after = sim.mailbox.back().map_or(0, |(at, _)| *at);
        let at = arrives.max(after);
        sim.mailbox.push_back((at, message));
        self.turn_by(to, at + 1);
    }

    pub(super) fn enqueue(&mut self, shard: u32, inbound: Inbound) {
        let now = self.sim.now();
        if let Some(sim) = self.process.shard(shard) {
            if sim.inbox.is_empty() {
                sim.first_came_at = now;
            }
            sim.inbox.push_back(inbound);
            self.wake_shard(shard);
        }
    }
}
