//! The timers, requests and answers of raw clients.

use super::links::RequestFrame;
use crate::client::{NextRequest, Raw, Surroundings, read_response};
use crate::event::TimedEvent;
use crate::net::{Asked, LinkId, Owner};
use crate::profile::MS;
use crate::world::{Machine, World};
use muster_codec::ApiKey;
use muster_codec::header::RequestHeader;

/// The pause between two requests at rest.
const REST_PAUSE: u64 = 100 * MS;

impl<M: Machine> World<M> {
    /// Sets the timer of a raw client's next request.
    pub(crate) fn arm_client(&mut self, client: u32) {
        self.arm_client_after(client, 0);
    }

    /// Sets the timer of a client that still has work at rest, to a short time.
    fn arm_client_soon(&mut self, client: u32) {
        let armed = self.sim.now() + REST_PAUSE;
        self.clients.raws[client as usize].armed = armed;
        self.sim.at(armed, TimedEvent::Client { client, armed });
    }

    fn arm_client_after(&mut self, client: u32, least: u64) {
        let pause = least + self.clients.random.skewed(0, self.profile.clients.pause_max);
        let armed = self.sim.now() + pause;
        self.clients.raws[client as usize].armed = armed;
        self.sim.at(armed, TimedEvent::Client { client, armed });
    }

    pub(crate) fn wake_client(&mut self, client: u32, armed: u64) {
        let resting = self.is_resting();
        let sim = &mut self.clients.raws[client as usize];
        if sim.armed != armed || sim.waits || (resting && !sim.raw.is_busy_at_rest()) {
            return;
        }
        match &sim.raw {
            Raw::Hostile(_) => return self.act_hostile(client),
            Raw::TopicCreator(creator) if creator.is_done() => return self.topics_created(),
            Raw::TopicCreator(_)
            | Raw::Committer(_)
            | Raw::Several(_)
            | Raw::Converter(_)
            | Raw::Admin(_)
            | Raw::Reader(_)
            | Raw::Producer(_)
            | Raw::Granter(_)
            | Raw::Limiter(_)
            | Raw::Meddler(_)
            | Raw::User(_)
            | Raw::Sharer(_)
            | Raw::Transactor(_) => {}
        }
        if self.may_overtake(client) {
            return self.arm_client_after(client, self.mail_time());
        }
        let placement = self.node.placement();
        let is_chaos = self.is_chaos();
        self.hang_up_some(client);
        let mut around = Surroundings {
            random: &mut self.clients.random,
            placement,
            brokers: &self.node,
            is_chaos,
            is_resting: resting,
            hangs_up: false,
        };
        let sim = &mut self.clients.raws[client as usize];
        let Some(NextRequest { shard, version, request }) = sim.raw.next_request(&mut around)
        else {
            return;
        };
        sim.waits = true;
        if around.hangs_up {
            let links = sim.links.clone();
            links.into_iter().for_each(|link| self.hang_up_client(client, link));
        }
        self.note_book(client);
        self.judge_deliveries(client, self.sim.now());
        let link = self.client_link(client, shard);
        let (api, correlation) = (request.api_key() as i16, self.network.correlation());
        let client_id = Some(self.client_id(client).into());
        let (api_key, api_version, correlation_id) = (api, version, correlation);
        let header = RequestHeader { api_key, api_version, correlation_id, client_id };
        let mut frame = vec![0; 4];
        header.write(&mut frame);
        if let Err(error) = request.write(version, &mut frame) {
            return self.sim.violate(format_args!("a request that cannot be written: {error}"));
        }
        let length = (frame.len() - 4) as u32;
        frame[..4].copy_from_slice(&length.to_be_bytes());
        self.note_sent(client, shard, frame.len());
        let waits_for_members = api == ApiKey::JoinGroup as i16;
        let clients = &self.profile.clients;
        let patience = if waits_for_members { clients.rebalance_timeout } else { 0 };
        let patience = patience + clients.request_timeout;
        self.ask(link, RequestFrame { api, version, token: 0, correlation, frame, patience });
    }

    pub(super) fn notify_client(&mut self, client: u32, asked: &Asked, frame: Option<&[u8]>) {
        let response = frame.map(|frame| read_response(asked.api, asked.version, frame));
        let response = match response.transpose() {
            Ok(response) => response,
            Err(error) => {
                return self.sim.violate(format_args!("an answer that cannot be read: {error}"));
            }
        };
        let sim = &mut self.clients.raws[client as usize];
        sim.waits = false;
        if let Err(what) = sim.raw.answered(response.as_ref()) {
            let raw = format!("{:?}", sim.raw);
            return self.sim.violate(format_args!("client {client}: {what}: {raw}; {response:?}"));
        }
        self.judge_deliveries(client, asked.sent);
        let sim = &mut self.clients.raws[client as usize];
        if matches!(&sim.raw, Raw::TopicCreator(creator) if creator.is_done()) {
            return self.topics_created();
        }
        let changes = matches!(sim.raw, Raw::Admin(_) | Raw::Granter(_) | Raw::Limiter(_));
        sim.has_lost_change = frame.is_none() && changes;
        let least = if sim.has_lost_change { self.mail_time() } else { 0 };
        self.note_book(client);
        if self.is_resting() {
            return self.arm_client_soon(client);
        }
        self.arm_client_after(client, least);
    }

    /// Whether a change of the client may still be on its way between shards, although its
    /// connection broke. The client must not send more: its book assumes that a later request takes
    /// effect later.
    fn may_overtake(&self, client: u32) -> bool {
        let now = self.sim.now();
        let arrived = |since: u64| now >= since + self.mail_time();
        self.clients.raws[client as usize].has_lost_change
            && !self.node.runs_since().is_some_and(arrived)
    }

    /// The longest time that mail between shards takes while all of them run.
    fn mail_time(&self) -> u64 {
        8 * self.profile.turn_delay_max
    }

    /// The client's connection to a shard; it is new if there was none. Most clients have only one
    /// connection: they close those to other shards.
    fn client_link(&mut self, client: u32, shard: u32) -> LinkId {
        let hangs_up = self.clients.random.chance(0.02);
        let sim = &self.clients.raws[client as usize];
        let keeps = sim.raw.keeps_links();
        // Clients with several connections close some in `hang_up_some`, before they choose a
        // request.
        let hangs_up = hangs_up && !keeps;
        let is_of = |link: &LinkId| self.network.link(*link).shard() == shard;
        let known = sim.links.iter().copied().find(is_of).filter(|_| !hangs_up);
        let ends = |link: &LinkId| Some(*link) != known && (is_of(link) || !keeps);
        let ended: Vec<LinkId> = sim.links.iter().copied().filter(ends).collect();
        ended.into_iter().for_each(|link| self.hang_up_client(client, link));
        if let Some(known) = known {
            return known;
        }
        let link = self.network.connect(self.sim.queue(), Owner::Client(client), shard);
        self.clients.raws[client as usize].links.push(link);
        link
    }

    /// Closes a connection of a client with several connections, now and then.
    fn hang_up_some(&mut self, client: u32) {
        let sim = &self.clients.raws[client as usize];
        if let Some(link) = sim.links.first().copied().filter(|_| sim.raw.keeps_links())
            && self.clients.random.chance(0.02)
        {
            self.hang_up_client(client, link);
        }
    }

    fn hang_up_client(&mut self, client: u32, link: LinkId) {
        let shard = self.network.link(link).shard();
        let sim = &mut self.clients.raws[client as usize];
        sim.links.retain(|it| *it != link);
        sim.raw.lost(shard);
        self.judge_deliveries(client, self.sim.now());
        self.hang_up(link);
    }
}
