//! The sockets and the mail of shards, and everything else that production's reactor needs besides
//! files. It carries out the decisions of production's `Reactor`.

use super::shard::{Inbound, SimShard};
use super::turn::ms_of;
use super::{Effect, Fact, Node, RunQueues};
use crate::net::LinkId;
use muster_server::clock::Times;
use muster_server::reactor::{Completion, Io, Share};
use muster_server::shard::{CertificateOrder, Command, Event, ListenerIndex, Message, Shard};
use muster_server::telemetry::{Push, Receiver};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// The maximum number of frames in a slice.
const FRAMES_MAX: u64 = 16;

impl Io for Node {
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

    /// Always None: `next_completion` returns all completions, in the order in which they occurred.
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
        self.show_turning(Fact::SliceBegins(RunQueues::of(shard.inspect())));
        self.show_image(shard);
        shard.work(times, &mut is_over, commands);
        let (shard, things) = (shard.inspect(), 1 + asked.min(frames - 1));
        let has_long_request = shard.has_long_request();
        self.show_turning(Fact::SliceEnds {
            queues: RunQueues::of(shard),
            things,
            has_long_request,
        });
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
            self.show_turning(Fact::Received { connection, bytes, came_at });
        } else if let Event::Ended { connection } = &event {
            self.show_turning(Fact::Ended(*connection));
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
            && let Some(principal) = self.process.sockets.principal(link)
        {
            let event = Event::Secured { connection, principal: Some(principal) };
            shard.step(times, event, commands);
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
            self.pass_to_socket(link, bytes, true);
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

    fn finish(&mut self, link: LinkId) {
        if let Some(is_empty) = self.process.sockets.finish(link) {
            self.effects.push_back(Effect::Finished { link, is_empty });
        }
    }

    fn close(&mut self, link: LinkId) {
        if self.process.sockets.close(link) {
            self.effects.push_back(Effect::Closed { link });
        }
    }

    fn mail(&mut self, to: u32, message: Message) {
        self.post(to, message);
    }

    /// No listener has TLS, so nothing is ordered.
    fn order_certificates(&mut self, _: CertificateOrder) {}

    /// Answers the pushes of clients, and drops their metrics.
    fn pass_push(&mut self, push: Push) {
        let now = (self.now / 1_000) as i64;
        let (outcome, _) = Receiver::new(false, false).take(now, &push);
        self.post(push.from, Message::Pushed(outcome));
    }
}

impl Node {
    /// Takes one of the turn's slices. Returns true if no slice was left.
    fn is_out_of_slices(&mut self) -> bool {
        let left = &mut self.process.slices_left;
        let is_late = *left == 0;
        *left = left.saturating_sub(1);
        is_late
    }

    /// Shows the judge a fact about the shard whose turn it is.
    pub(super) fn show_turning(&mut self, fact: Fact) {
        self.show(self.process.turning, fact);
    }

    /// Shows the judge the image on which the shard decides, if the image has changed.
    pub(super) fn show_image(&mut self, shard: &Shard) {
        let image = shard.inspect().image();
        let sim = self.turning();
        if !sim.has_shown_image || !Arc::ptr_eq(&sim.image, image) {
            (sim.has_shown_image, sim.image) = (true, image.clone());
            self.show_turning(Fact::Image(image.clone()));
        }
    }

    /// The shard whose turn it is. Its field `running` is None during the turn.
    pub(super) fn turning(&mut self) -> &mut SimShard {
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
                // Sessions begin again when a shard is loaded. So input that waited for the load
                // counts as input that arrived when the load ended.
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

    /// Passes output to the socket of an open connection: whole answers, or parts of them.
    fn pass_to_socket(&mut self, link: LinkId, bytes: Vec<u8>, is_whole: bool) {
        self.process.sockets.sent(link, bytes.len());
        let shard = self.process.turning;
        self.effects.push_back(Effect::Sent { shard, link, bytes, is_whole });
    }

    /// Passes the gathered parts, or some of their bytes, to the socket.
    pub(super) fn send_parts(&mut self, link: Option<LinkId>) {
        let parts = self.turning().parts.replace(Vec::new());
        let files = std::mem::take(&mut self.turning().files_of_parts);
        let is_open = |link: &LinkId| self.process.sockets.is_open(*link);
        let Some(link) = link.filter(is_open) else { return };
        let Some(mut parts) = parts else {
            return self.turning().inbox.push_back(Inbound::StreamFailed(link, files));
        };
        let is_full = self.faults.chance(0.3);
        let most = parts.len() as u64;
        let sent = if is_full { self.faults.between(0, most) } else { most } as usize;
        parts.truncate(sent);
        self.pass_to_socket(link, parts, false);
        self.turning().inbox.push_back(Inbound::Streamed(link, sent, files));
    }

    /// Takes bytes that arrive at a shard's end of a connection.
    pub(crate) fn receive(&mut self, link: LinkId, bytes: Vec<u8>) {
        if let Some((shard, bytes)) = self.process.sockets.receive(link, bytes) {
            self.enqueue(shard, Inbound::Received(link, bytes, self.now_ms()));
        }
    }

    /// Whether a shard accepts connections.
    pub(crate) fn listens(&self, shard: u32) -> bool {
        let is_stopped = |it: &SimShard| it.is_stopped;
        let is_there = self.process.shards.get(shard as usize).is_some_and(|it| !is_stopped(it));
        is_there && self.now >= self.process.listens_at && !self.process.is_stopping
    }

    /// Accepts a connection for a listening shard. The client shows this principal in its
    /// certificate, if any.
    pub(crate) fn accept(&mut self, link: LinkId, shard: u32, principal: Option<Arc<str>>) {
        self.process.sockets.accept(link, shard, principal);
        self.enqueue(shard, Inbound::Opened(link));
    }

    /// Whether the process has accepted this connection.
    pub(crate) fn has(&self, link: LinkId) -> bool {
        self.process.sockets.shard(link).is_some()
    }

    /// Notes that the socket has accepted bytes of output.
    pub(crate) fn taken(&mut self, link: LinkId, bytes: usize) {
        if let Some(shard) = self.process.sockets.taken(link, bytes) {
            let unsent = self.process.sockets.unsent(link);
            self.enqueue(shard, Inbound::Sent(link, unsent));
        }
    }

    /// Notes that a client will send nothing more.
    pub(crate) fn input_ended(&mut self, link: LinkId) {
        if let Some(shard) = self.process.sockets.shard(link) {
            self.enqueue(shard, Inbound::InputEnded(link));
        }
    }

    /// Notes that a client has closed its connection.
    pub(crate) fn ended(&mut self, link: LinkId) {
        if let Some(shard) = self.process.sockets.shard(link) {
            self.enqueue(shard, Inbound::Ended(link));
        }
    }

    /// Sends mail to a shard. Mail arrives in order, except verdicts that are held back. The shard
    /// may handle input before mail that arrived earlier than this input.
    pub(super) fn post(&mut self, to: u32, mut message: Message) {
        let late = self.late_verdicts(to, &mut message);
        self.deliver(to, message);
        late.into_iter().for_each(|message| self.deliver(to, message));
    }

    pub(super) fn deliver(&mut self, to: u32, message: Message) {
        let arrives = self.now + self.mail.skewed(0, self.setup.turn_delay_max);
        let Some(sim) = self.process.shard(to) else { return };
        let after = sim.mailbox.back().map_or(0, |(at, _)| *at);
        let at = arrives.max(after);
        sim.mailbox.push_back((at, message));
        self.turn_by(to, at + 1);
    }

    pub(super) fn enqueue(&mut self, shard: u32, inbound: Inbound) {
        let now = self.now;
        if let Some(sim) = self.process.shard(shard) {
            if sim.inbox.is_empty() {
                sim.first_came_at = now;
            }
            sim.inbox.push_back(inbound);
            self.wake_shard(shard);
        }
    }
}
