//! One turn of a shard, in the order in which the reactor does it: events -> `step` -> commands, at
//! last `end_turn` -> commands -> output.

use super::{BEGINNING_MS, Inbound};
use crate::event::TimedEvent;
use crate::net::LinkId;
use crate::world::World;
use muster::clock::Times;
use muster::net::ConnectionId;
use muster::shard::{Command, Event, Message};
use muster_codec::Wall;

/// More turns than that without anything to do, though the shard said that something was due, are a
/// shard that spins.
const IDLE_TURNS_MAX: u32 = 2_000;

/// Of a turn, and of a slice.
const SLICES_MAX: u64 = 64;
const FRAMES_MAX: u64 = 16;

impl World {
    pub(crate) fn now_ms(&self) -> i64 {
        BEGINNING_MS + (self.queue.now() / 1_000) as i64
    }

    /// Both clocks.
    pub(crate) fn times(&self) -> Times {
        let now = self.now_ms();
        Times { now, wall: Wall(now + self.process.wall_ahead_ms) }
    }

    pub(crate) fn turn(&mut self, life: u32, number: u32) {
        let (now, times) = (self.queue.now(), self.times());
        if !self.process.lives(life) {
            return;
        }
        let Some(seat) = self.process.seat(number) else { return };
        if seat.turn_at != Some(now) || seat.stopped {
            return;
        }
        seat.turn_at = None;
        if now < self.process.paused_until {
            return self.turn_by(number, now);
        }
        let Some(seat) = self.process.seat(number) else { return };
        if seat.is_leaving {
            return self.leave_shard(number);
        }
        let inbox = std::mem::take(&mut seat.inbox);
        let was_idle = inbox.is_empty();
        for inbound in inbox {
            self.deliver(number, inbound, times);
            if !self.process.lives(life) {
                return;
            }
            self.resume_files(number);
        }
        self.work(number, times);
        self.note_waiting(number);
        self.fail_if_due(number);
        let mut commands = std::mem::take(&mut self.process.commands);
        let Some(seat) = self.process.seat(number) else { return };
        let deadline = seat.shard.end_turn(times, times.now, &mut commands);
        let idle = was_idle && commands.is_empty() && deadline.is_some_and(|at| at <= times.now);
        seat.idle_turns = if idle { seat.idle_turns + 1 } else { 0 };
        if seat.idle_turns > IDLE_TURNS_MAX {
            self.violate(format_args!("shard {number} spins: what is due is never done"));
        }
        self.judge_heard(number);
        self.judge_group_time(number);
        self.execute(number, &mut commands);
        self.process.commands = commands;
        if self.process.seats[number as usize].shard.inspect().is_failed() {
            return self.shard_failed(number);
        }
        self.send_output(number);
        self.judge_shard(number);
        self.plan_turn(number, deadline);
    }

    /// Slices of what waits, of a few frames each, as many as the turn has time for.
    fn work(&mut self, number: u32, times: Times) {
        let mut slices = 1 + self.faults.skewed(0, SLICES_MAX);
        while slices > 0 && self.process.seats[number as usize].shard.has_work() {
            slices -= 1;
            let frames = self.faults.skewed(1, FRAMES_MAX);
            let mut asked = 0;
            let mut is_over = || {
                asked += 1;
                asked >= frames
            };
            self.judge_waiting(number);
            let mut commands = std::mem::take(&mut self.process.commands);
            let seat = &mut self.process.seats[number as usize];
            seat.shard.work(times, &mut is_over, &mut commands);
            self.judge_slice(number, 1 + asked.min(frames - 1));
            self.execute(number, &mut commands);
            self.process.commands = commands;
        }
    }

    /// Has a shard take its turn soon: something waits for it.
    pub(crate) fn wake_shard(&mut self, number: u32) {
        let delay = 1 + self.faults.skewed(0, self.profile.turn_delay_max);
        self.turn_by(number, self.queue.now() + delay);
    }

    fn plan_turn(&mut self, number: u32, deadline: Option<i64>) {
        let now = self.queue.now();
        let Some(seat) = self.process.seat(number) else { return };
        if !seat.inbox.is_empty() {
            return self.wake_shard(number);
        }
        if let Some(deadline) = deadline {
            let at = u64::try_from(deadline - BEGINNING_MS).unwrap_or(0).saturating_mul(1_000);
            self.turn_by(number, at.max(now + 20));
        }
    }

    fn turn_by(&mut self, number: u32, at: u64) {
        let at = at.max(self.process.listens_at).max(self.process.paused_until);
        let life = self.process.life;
        let Some(seat) = self.process.seat(number) else { return };
        if !seat.stopped && seat.turn_at.is_none_or(|planned| at < planned) {
            seat.turn_at = Some(at);
            self.queue.at(at, TimedEvent::Turn { life, shard: number });
        }
    }

    fn deliver(&mut self, number: u32, inbound: Inbound, times: Times) {
        match inbound {
            Inbound::Opened(link) => self.opened(number, link, times),
            Inbound::Received(link, data, came_at) => {
                if let Some(connection) = self.network.link(link).server {
                    let seat = &mut self.process.seats[number as usize];
                    let came_at = came_at.max(seat.loaded_at);
                    seat.turns.arrived(connection, data.len(), came_at);
                    self.step(number, times, Event::Received { connection, data: &data });
                }
            }
            Inbound::Sent(link, unsent) => {
                if let Some(connection) = self.network.link(link).server {
                    self.step(number, times, Event::Sent { connection, unsent });
                }
            }
            Inbound::InputEnded(link) => {
                if let Some(connection) = self.network.link(link).server {
                    self.step(number, times, Event::InputEnded { connection });
                }
            }
            Inbound::Streamed(link, sent) => {
                if let Some(connection) = self.network.link(link).server {
                    self.step(number, times, Event::Streamed { connection, sent });
                }
            }
            Inbound::StreamFailed(link) => {
                if let Some(connection) = self.network.link(link).server {
                    let reason = "simulated".to_owned();
                    self.step(number, times, Event::StreamFailed { connection, reason });
                }
            }
            Inbound::Writable(link) => {
                if let Some(connection) = self.network.link(link).server {
                    self.step(number, times, Event::Writable { connection });
                }
            }
            Inbound::Ended(link) => {
                if let Some(connection) = self.network.link_mut(link).server.take() {
                    let seat = &mut self.process.seats[number as usize];
                    seat.forget(connection);
                    self.step(number, times, Event::Ended { connection });
                }
            }
            Inbound::File(ended) => {
                if let Some(done) = self.operation_ended(number, ended) {
                    self.step(number, times, Event::File(done));
                }
            }
            Inbound::Woken => loop {
                let seat = &mut self.process.seats[number as usize];
                let Some(message) = seat.mail.pop_front() else { break };
                self.step(number, times, Event::Mail(message));
                self.judge_image_version(number);
            },
        }
    }

    fn opened(&mut self, number: u32, link: LinkId, times: Times) {
        let connection = self.process.seats[number as usize].accept(link);
        self.network.link_mut(link).server = Some(connection);
        let host = format!("/10.0.{}.{}", link.0 / 250 % 250, link.0 % 250).into();
        self.step(number, times, Event::Opened { connection, host });
    }

    fn step(&mut self, number: u32, times: Times, event: Event<'_>) {
        let mut commands = std::mem::take(&mut self.process.commands);
        self.process.seats[number as usize].shard.step(times, event, &mut commands);
        self.execute(number, &mut commands);
        self.process.commands = commands;
    }

    pub(super) fn execute(&mut self, number: u32, commands: &mut Vec<Command>) {
        for command in commands.drain(..) {
            match command {
                Command::Close { connection, reason, last } => {
                    self.close(number, connection, reason, &last);
                }
                Command::PauseReceive { connection } => self.pause(number, connection, true),
                Command::ResumeReceive { connection } => self.pause(number, connection, false),
                Command::File(op) => self.perform(number, op),
                Command::Part(part) => self.add_part(number, part),
                Command::SendParts { connection } => {
                    let link = self.process.seats[number as usize].link(connection);
                    self.send_slice(number, link);
                }
                Command::AwaitWritable { connection } => {
                    let seat = &mut self.process.seats[number as usize];
                    let link = seat.link(connection);
                    seat.inbox.extend(link.map(Inbound::Writable));
                }
                Command::Mail { to, message } => self.post(to, message),
                Command::Stopped => self.stopped(number),
            }
        }
    }

    pub(crate) fn post(&mut self, to: u32, message: Message) {
        let Some(seat) = self.process.seat(to) else { return };
        seat.mail.push_back(message);
        seat.inbox.push_back(Inbound::Woken);
        self.wake_shard(to);
    }

    fn pause(&mut self, number: u32, connection: ConnectionId, paused: bool) {
        let Some(link) = self.process.seats[number as usize].link(connection) else { return };
        let held = {
            let link = self.network.link_mut(link);
            link.paused = paused;
            if paused { Default::default() } else { std::mem::take(&mut link.held) }
        };
        let now = self.now_ms();
        for data in held {
            let seat = &mut self.process.seats[number as usize];
            seat.inbox.push_back(Inbound::Received(link, data, now));
        }
    }

    fn close(
        &mut self,
        number: u32,
        connection: ConnectionId,
        reason: Option<String>,
        last: &[u8],
    ) {
        let seat = &mut self.process.seats[number as usize];
        let Some(id) = seat.link(connection) else { return };
        seat.forget(connection);
        let reason = reason.unwrap_or_default();
        self.note(format_args!("shard {number} closes link {}: {reason}", id.0));
        self.leave(id, last);
        let link = self.network.link_mut(id);
        (link.server, link.finished) = (None, true);
        // The end follows the last byte.
        let nothing_left = link.given.is_empty() && link.to_client.is_empty();
        if nothing_left {
            let delay = self.network.delay();
            self.queue.after(delay, TimedEvent::Lost { link: id });
        }
    }

    fn send_output(&mut self, number: u32) {
        let mut sendable = Vec::new();
        let Some(seat) = self.process.seat(number) else { return };
        seat.shard.take_sendable(&mut sendable);
        for connection in sendable {
            let seat = &mut self.process.seats[number as usize];
            let Some(link) = seat.link(connection) else { continue };
            let Some(output) = seat.shard.output(connection) else { continue };
            let bytes = std::mem::take(output);
            self.leave(link, &bytes);
        }
    }

    /// Whole answers leave the shard.
    fn leave(&mut self, id: LinkId, bytes: &[u8]) {
        self.leave_in_parts(id, bytes);
        if !bytes.is_empty() && !self.network.link(id).leaving.is_empty() {
            self.violate(format_args!("link {}: half an answer left", id.0));
        }
    }

    /// Answers leave the shard, the last perhaps in part: what they tell has to be durable now.
    fn leave_in_parts(&mut self, id: LinkId, bytes: &[u8]) {
        let mut leaving = std::mem::take(&mut self.network.link_mut(id).leaving);
        leaving.extend_from_slice(bytes);
        let mut rest = &leaving[..];
        while let Some(announced) = rest.first_chunk::<4>() {
            let length = u32::from_be_bytes(*announced) as usize + 4;
            if length > rest.len() {
                break;
            }
            self.answer_leaves(id, &rest[4..length], length);
            rest = &rest[length..];
        }
        self.network.link_mut(id).leaving = rest.to_vec();
        if !bytes.is_empty() {
            self.network.give(&mut self.queue, id, bytes.len());
        }
    }

    /// The socket takes what was gathered, or some of it.
    pub(super) fn send_parts(&mut self, number: u32, link: Option<LinkId>) {
        let seat = &mut self.process.seats[number as usize];
        let parts = seat.parts.replace(Vec::new());
        let is_open = |link: &LinkId| self.network.link(*link).server.is_some();
        let Some(link) = link.filter(is_open) else { return };
        let Some(parts) = parts else { return seat.inbox.push_back(Inbound::StreamFailed(link)) };
        let is_full = self.faults.chance(0.3);
        let most = parts.len() as u64;
        let sent = if is_full { self.faults.between(0, most) } else { most } as usize;
        self.leave_in_parts(link, &parts[..sent]);
        self.process.seats[number as usize].inbox.push_back(Inbound::Streamed(link, sent));
    }

    fn answer_leaves(&mut self, id: LinkId, frame: &[u8], length: usize) {
        let link = self.network.link_mut(id);
        link.sent += length as u64;
        let Some(asked) = link.asked.pop_front() else {
            // The client gave the connection up; the server does not know it yet.
            if link.client_open && link.is_tracked {
                self.violate(format_args!("link {}: an answer to no request", id.0));
            }
            return;
        };
        let end = link.sent;
        self.judge_answer(&asked, frame);
        self.network.link_mut(id).answers.push_back((end, asked, frame.to_vec()));
    }

    /// Something arrives at a shard's end of a connection.
    pub(crate) fn arrive(&mut self, id: LinkId) {
        let link = self.network.link_mut(id);
        let Some(bytes) = link.to_server.pop_front() else { return };
        let gone = link.server.is_none() && !link.is_accepting;
        if gone || link.life != self.process.life || !self.process.is_up() {
            return;
        }
        if link.paused {
            return link.held.push_back(bytes);
        }
        let (shard, now) = (link.shard, self.now_ms());
        self.enqueue(shard, Inbound::Received(id, bytes, now));
    }

    /// A client that connects is accepted, or there is nobody.
    pub(crate) fn accept(&mut self, id: LinkId) {
        let now = self.queue.now();
        let (shard, life) = (self.network.link(id).shard, self.process.life);
        let listens = now >= self.process.listens_at && !self.process.stopping;
        let is_there = self.process.seats.get(shard as usize).is_some_and(|seat| !seat.stopped);
        if !listens || !is_there {
            return self.lose(id);
        }
        let link = self.network.link_mut(id);
        if link.client_open {
            (link.life, link.is_accepting) = (life, true);
            self.enqueue(shard, Inbound::Opened(id));
        }
    }

    /// The socket took output of a shard's.
    pub(crate) fn taken(&mut self, id: LinkId) {
        let unsent = self.network.taken(&mut self.queue, id);
        let link = self.network.link(id);
        if link.server.is_some() && link.life == self.process.life {
            let shard = link.shard;
            self.enqueue(shard, Inbound::Sent(id, unsent));
        }
    }

    /// The shard learns that a client sends nothing more.
    pub(crate) fn input_ended(&mut self, id: LinkId) {
        let link = self.network.link(id);
        if link.life == self.process.life && self.process.is_up() {
            let shard = link.shard;
            self.enqueue(shard, Inbound::InputEnded(id));
        }
    }

    /// The shard learns that a client is gone.
    pub(crate) fn ended(&mut self, id: LinkId) {
        let link = self.network.link(id);
        if link.life == self.process.life && self.process.is_up() {
            let shard = link.shard;
            self.enqueue(shard, Inbound::Ended(id));
        }
    }

    pub(super) fn enqueue(&mut self, shard: u32, inbound: Inbound) {
        if let Some(seat) = self.process.seat(shard) {
            seat.inbox.push_back(inbound);
            self.wake_shard(shard);
        }
    }
}
