//! Raw clients: one request at a time, each on a connection to a shard of its own choice, and a
//! book of what the server may now hold.

use super::links::Ready;
use super::{Admin, Committer, Founder, Hostile, Producer, Reader as OffsetsReader};
use crate::event::TimedEvent;
use crate::net::{Asked, LinkId, Owner};
use crate::random::Random;
use crate::world::World;
use muster::placement::Placement;
use muster_codec::header::RequestHeader;
use muster_codec::{ApiKey, Reader, Request, Response};

/// What a raw client is.
#[derive(Debug)]
pub(crate) enum Raw {
    Founder(Founder),
    Committer(Committer),
    Admin(Admin),
    Reader(OffsetsReader),
    Producer(Producer),
    Hostile(Hostile),
}

/// A raw client and its connection.
pub(crate) struct RawSeat {
    pub(crate) raw: Raw,
    pub(crate) link: Option<LinkId>,
    /// A request is under way.
    pub(crate) waits: bool,
    /// The last change was not answered and may still reach the controller.
    has_lost_change: bool,
    armed: u64,
}

/// What a raw client knows of the world.
pub(crate) struct Surroundings<'a> {
    pub(crate) random: &'a mut Random,
    pub(crate) placement: Placement,
}

/// What a raw client asks next.
pub(crate) struct Wish {
    pub(crate) shard: u32,
    pub(crate) version: i16,
    pub(crate) request: Request<'static>,
}

impl RawSeat {
    pub(crate) fn new(raw: Raw) -> Self {
        Self { raw, link: None, waits: false, has_lost_change: false, armed: u64::MAX }
    }
}

impl Raw {
    /// The next request; what it may come to is in the book before it leaves.
    fn wish(&mut self, around: &mut Surroundings<'_>) -> Option<Wish> {
        match self {
            Self::Founder(founder) => founder.wish(),
            Self::Committer(committer) => Some(committer.wish(around)),
            Self::Admin(admin) => Some(admin.wish(around)),
            Self::Reader(reader) => Some(reader.wish(around)),
            Self::Producer(producer) => Some(producer.wish(around)),
            Self::Hostile(_) => None,
        }
    }

    /// The answer, or None if it will never come.
    ///
    /// # Errors
    /// What it tells cannot be.
    fn heard(&mut self, response: Option<&Response<'_>>) -> Result<(), String> {
        match self {
            Self::Founder(founder) => founder.heard(response),
            Self::Committer(committer) => committer.heard(response),
            Self::Admin(admin) => admin.heard(response),
            Self::Reader(reader) => reader.heard(response),
            Self::Producer(_) => Producer::heard(response),
            Self::Hostile(_) => Ok(()),
        }
    }
}

impl World {
    /// Has a raw client do something after a while.
    pub(crate) fn arm_client(&mut self, client: u32) {
        self.arm_client_after(client, 0);
    }

    fn arm_client_after(&mut self, client: u32, least: u64) {
        let pause = least + self.client_random.skewed(0, self.profile.clients.pause_max);
        let armed = self.queue.now() + pause;
        self.clients[client as usize].armed = armed;
        self.queue.at(armed, TimedEvent::Client { client, armed });
    }

    pub(crate) fn wake_client(&mut self, client: u32, armed: u64) {
        let resting = self.is_resting();
        let seat = &mut self.clients[client as usize];
        if seat.armed != armed || seat.waits || resting {
            return;
        }
        match &seat.raw {
            Raw::Hostile(_) => return self.act_hostile(client),
            Raw::Founder(founder) if founder.is_done() => return self.founded(),
            Raw::Founder(_)
            | Raw::Committer(_)
            | Raw::Admin(_)
            | Raw::Reader(_)
            | Raw::Producer(_) => {}
        }
        if self.may_overtake(client) {
            return self.arm_client_after(client, self.mail_time());
        }
        let placement = self.placement(self.process_shards);
        let mut around = Surroundings { random: &mut self.client_random, placement };
        let seat = &mut self.clients[client as usize];
        let Some(Wish { shard, version, request }) = seat.raw.wish(&mut around) else { return };
        seat.waits = true;
        let link = self.client_link(client, shard);
        let (api, correlation) = (request.api_key() as i16, self.network.correlation());
        let header = RequestHeader {
            api_key: api,
            api_version: version,
            correlation_id: correlation,
            client_id: Some("raw".into()),
        };
        let mut frame = vec![0; 4];
        header.write(&mut frame);
        if let Err(error) = request.write(version, &mut frame) {
            return self.violate(format_args!("a request that cannot be written: {error}"));
        }
        let length = (frame.len() - 4) as u32;
        frame[..4].copy_from_slice(&length.to_be_bytes());
        let patience = self.profile.clients.request_timeout;
        self.ask(link, Ready { api, version, token: 0, correlation, frame, patience });
    }

    pub(super) fn tell_client(&mut self, client: u32, asked: &Asked, frame: Option<&[u8]>) {
        let response = frame.map(|frame| read_response(asked.api, asked.version, frame));
        let response = match response.transpose() {
            Ok(response) => response,
            Err(error) => {
                return self.violate(format_args!("an answer that cannot be read: {error}"));
            }
        };
        let seat = &mut self.clients[client as usize];
        seat.waits = false;
        if let Err(what) = seat.raw.heard(response.as_ref()) {
            let raw = format!("{:?}", seat.raw);
            return self.violate(format_args!("client {client}: {what}: {raw}; {response:?}"));
        }
        if matches!(&seat.raw, Raw::Founder(founder) if founder.is_done()) {
            return self.founded();
        }
        seat.has_lost_change = frame.is_none() && matches!(seat.raw, Raw::Admin(_));
        let least = if seat.has_lost_change { self.mail_time() } else { 0 };
        self.arm_client_after(client, least);
    }

    /// A change whose connection broke may be on its way from one shard to another. Until it has
    /// arrived, a later request could overtake it, which the book does not model.
    fn may_overtake(&self, client: u32) -> bool {
        let now = self.queue.now();
        let arrived = |since: u64| now >= since + self.mail_time();
        self.clients[client as usize].has_lost_change
            && !self.process.runs_since(now).is_some_and(arrived)
    }

    /// The longest time that mail between shards takes while all of them run.
    fn mail_time(&self) -> u64 {
        4 * self.profile.turn_delay_max
    }

    /// The connection to a shard; that to another is closed.
    fn client_link(&mut self, client: u32, shard: u32) -> LinkId {
        let known = self.clients[client as usize].link;
        if let Some(link) = known {
            let hangs_up = self.client_random.chance(0.02);
            if self.network.link(link).shard == shard && !hangs_up {
                return link;
            }
            self.hang_up(link);
        }
        let link = self.network.connect(&mut self.queue, Owner::Client(client), shard);
        self.clients[client as usize].link = Some(link);
        link
    }
}

/// The response in a frame without its length.
pub(crate) fn read_response(
    api: i16,
    version: i16,
    frame: &[u8],
) -> Result<Response<'_>, muster_codec::DecodeError> {
    let api = ApiKey::from_key(api).ok_or(muster_codec::DecodeError::UnknownApiKey(api))?;
    let mut reader = Reader::new(frame);
    reader.i32()?;
    if api.flexible_response_header(version) {
        reader.i8()?;
    }
    Response::read(api, version, &mut reader)
}
