//! Raw clients: each sends one request at a time, on a connection to a shard that it chooses, and
//! records the possible states of the server.

use super::{
    Admin, Committer, Converter, Granter, Hostile, Limiter, Meddler, Producer,
    Reader as OffsetsReader, Several, Sharer, TopicCreator, Transactor, User,
};
use crate::net::LinkId;
use crate::random::Random;
use muster_codec::{ApiKey, Reader, Request, Response};
use muster_server::placement::{CONTROLLER, Placement};

/// The kind of a raw client.
#[derive(Debug)]
pub(crate) enum Raw {
    TopicCreator(TopicCreator),
    Committer(Committer),
    Several(Several),
    Converter(Converter),
    Admin(Admin),
    Reader(OffsetsReader),
    Producer(Producer),
    Transactor(Box<Transactor>),
    Sharer(Box<Sharer>),
    Granter(Granter),
    Limiter(Limiter),
    Meddler(Meddler),
    User(User),
    Hostile(Hostile),
}

/// A raw client and its connections.
pub(crate) struct SimClient {
    pub(crate) raw: Raw,
    /// At most one connection to each shard. Most clients have only one connection.
    pub(crate) links: Vec<LinkId>,
    /// Whether a request is under way.
    pub(crate) waits: bool,
    /// Whether the answer to the last change was lost. Its request may still reach the controller.
    pub(crate) has_lost_change: bool,
    pub(crate) armed: u64,
}

/// The shards to which clients send requests.
pub(crate) trait Brokers {
    /// The shard of each group, transaction and partition; in a cluster, on its node.
    fn placement(&self) -> Placement;

    /// The shard that coordinates a group.
    fn group_shard(&self, group: &str) -> u32 {
        self.placement().group_shard(group)
    }

    /// The shard that decides changes of the cluster.
    fn controller(&self) -> u32 {
        CONTROLLER
    }

    /// Whether a shard may serve a group before it knows all topics. No leader of a cluster waits
    /// yet until its image is as new as the last leader's.
    fn may_lack_topics(&self) -> bool {
        false
    }

    /// Any of the shards.
    fn any(&self, random: &mut Random) -> u32 {
        random.below(u64::from(self.placement().shards)) as u32
    }
}

/// Everything that a raw client knows of the world.
pub(crate) struct Surroundings<'a> {
    pub(crate) random: &'a mut Random,
    pub(crate) placement: Placement,
    pub(crate) brokers: &'a dyn Brokers,
    /// `is_chaos`: whether faults occur. `is_resting`: whether most clients have ended.
    pub(crate) is_chaos: bool,
    pub(crate) is_resting: bool,
    /// Output: a client sets it to have its connections closed before its next request is sent.
    pub(crate) hangs_up: bool,
}

/// The next request of a raw client.
pub(crate) struct NextRequest {
    pub(crate) shard: u32,
    pub(crate) version: i16,
    pub(crate) request: Request<'static>,
}

impl SimClient {
    pub(crate) fn new(raw: Raw) -> Self {
        Self { raw, links: Vec::new(), waits: false, has_lost_change: false, armed: u64::MAX }
    }
}

impl Raw {
    /// The books of the client's groups.
    pub(crate) fn books(&self) -> &[Committer] {
        match self {
            Self::Committer(committer) => std::slice::from_ref(committer),
            Self::Several(several) => several.books(),
            Self::TopicCreator(_)
            | Self::Converter(_)
            | Self::Admin(_)
            | Self::Reader(_)
            | Self::Producer(_)
            | Self::Transactor(_)
            | Self::Sharer(_)
            | Self::Granter(_)
            | Self::Limiter(_)
            | Self::Meddler(_)
            | Self::User(_)
            | Self::Hostile(_) => &[],
        }
    }

    /// Makes the next request, and notes that its answer is pending. None if the client has none.
    pub(crate) fn next_request(&mut self, around: &mut Surroundings<'_>) -> Option<NextRequest> {
        match self {
            Self::TopicCreator(creator) => creator.next_request(around),
            Self::Committer(committer) => Some(committer.next_request(around)),
            Self::Several(several) => Some(several.next_request(around)),
            Self::Converter(converter) => Some(converter.next_request(around)),
            Self::Admin(admin) => Some(admin.next_request(around)),
            Self::Reader(reader) => Some(reader.next_request(around)),
            Self::Producer(producer) => Some(producer.next_request(around)),
            Self::Transactor(transactor) => Some(transactor.next_request(around)),
            Self::Sharer(sharer) => Some(sharer.next_request(around)),
            Self::Granter(granter) => Some(granter.next_request(around)),
            Self::Limiter(limiter) => Some(limiter.next_request(around)),
            Self::Meddler(meddler) => Some(meddler.next_request(around)),
            Self::User(user) => Some(user.next_request(around)),
            Self::Hostile(_) => None,
        }
    }

    /// Groups have moved between shards. The request under way may have been sent to the wrong one.
    pub(crate) fn groups_moved(&mut self) {
        if let Self::Several(several) = self {
            several.groups_moved();
        }
    }

    pub(crate) fn as_transactor(&self) -> Option<&Transactor> {
        if let Self::Transactor(transactor) = self { Some(transactor) } else { None }
    }

    pub(crate) fn as_sharer(&self) -> Option<&Sharer> {
        if let Self::Sharer(sharer) = self { Some(sharer) } else { None }
    }

    pub(crate) fn as_sharer_mut(&mut self) -> Option<&mut Sharer> {
        if let Self::Sharer(sharer) = self { Some(sharer) } else { None }
    }

    /// Notes that the client's connection to a shard was lost.
    pub(crate) fn lost(&mut self, shard: u32) {
        if let Self::Sharer(sharer) = self {
            sharer.lost(shard);
        }
    }

    /// Whether the client keeps a connection to each shard that it asks. Other clients have a
    /// single connection.
    pub(crate) fn keeps_links(&self) -> bool {
        matches!(self, Self::Sharer(_))
    }

    /// Whether the client still has work after most clients have ended.
    pub(crate) fn is_busy_at_rest(&self) -> bool {
        matches!(self, Self::Sharer(sharer) if !sharer.is_drained())
    }

    /// Takes the answer, or None if no answer will come.
    ///
    /// # Errors
    /// The answer contradicts earlier answers.
    pub(crate) fn answered(&mut self, response: Option<&Response<'_>>) -> Result<(), String> {
        match self {
            Self::TopicCreator(creator) => creator.answered(response),
            Self::Committer(committer) => committer.answered(response),
            Self::Several(several) => several.answered(response),
            Self::Converter(converter) => {
                converter.answered(response);
                Ok(())
            }
            Self::Admin(admin) => admin.answered(response),
            Self::Reader(reader) => reader.answered(response),
            Self::Producer(_) => Producer::answered(response),
            Self::Transactor(transactor) => transactor.answered(response),
            Self::Sharer(sharer) => sharer.answered(response),
            Self::Granter(granter) => granter.answered(response),
            Self::Limiter(limiter) => limiter.answered(response),
            Self::Meddler(meddler) => meddler.answered(response),
            Self::User(user) => {
                user.answered();
                Ok(())
            }
            Self::Hostile(_) => Ok(()),
        }
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
