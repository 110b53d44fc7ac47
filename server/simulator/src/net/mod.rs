//! The network: connections between clients and shards, with the bytes on their way and the
//! clients' ends. Bytes of one direction of a connection arrive in order. Everything else may be
//! late, cut off, or lost.

mod link;

pub(crate) use link::{Asked, Link, LinkId, Owner};

use crate::coverage::{Coverage, Seen};
use crate::profile::NetworkProfile;
use crate::queue::Queue;
use crate::random::Random;

/// An event of a connection.
#[derive(Debug)]
pub(crate) enum NetEvent {
    /// The server accepts the connection, or there is no server.
    Connect { link: LinkId },
    /// The oldest bytes on their way to the server arrive.
    ToServer { link: LinkId },
    /// The server's socket has accepted the oldest output that was passed to it.
    Taken { link: LinkId },
    /// The oldest bytes on their way to the client arrive.
    ToClient { link: LinkId },
}

pub(crate) struct Network {
    links: Vec<Link>,
    profile: NetworkProfile,
    random: Random,
    next_correlation: i32,
    coverage: Coverage,
}

impl Network {
    pub(crate) fn new(profile: NetworkProfile, random: Random) -> Self {
        let coverage = Coverage::default();
        Self { links: Vec::new(), profile, random, next_correlation: 0, coverage }
    }

    pub(crate) fn link(&self, id: LinkId) -> &Link {
        &self.links[id.0 as usize]
    }

    pub(crate) fn link_mut(&mut self, id: LinkId) -> &mut Link {
        &mut self.links[id.0 as usize]
    }

    pub(crate) fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.iter()
    }

    /// The connections that are open from the view of their clients.
    pub(crate) fn open_links(&self) -> Vec<LinkId> {
        let links = (0..).map(LinkId).zip(&self.links);
        links.filter(|(_, link)| link.is_client_open()).map(|(id, _)| id).collect()
    }

    /// The marks that the network reached.
    pub(crate) fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Connects a client to a shard. Bytes that it sends wait until the connection is accepted.
    pub(crate) fn connect(
        &mut self,
        queue: &mut Queue<impl From<NetEvent>>,
        owner: Owner,
        shard: u32,
    ) -> LinkId {
        let id = LinkId(self.links.len() as u32);
        let slow = self.random.chance(self.profile.slow_reader_chance);
        self.coverage.add(Seen::SlowReader, u64::from(slow));
        let accepted = queue.now() + self.delay();
        self.links.push(Link::new(owner, shard, accepted, slow));
        queue.at(accepted, NetEvent::Connect { link: id });
        id
    }

    pub(crate) fn correlation(&mut self) -> i32 {
        self.next_correlation += 1;
        self.next_correlation
    }

    /// Sends bytes of a client, in one piece or in several.
    pub(crate) fn send(
        &mut self,
        queue: &mut Queue<impl From<NetEvent>>,
        id: LinkId,
        bytes: Vec<u8>,
    ) {
        let mut rest = bytes;
        while rest.len() > 1 && self.random.chance(self.profile.split_chance) {
            let at = self.random.between(1, rest.len() as u64 - 1) as usize;
            let tail = rest.split_off(at);
            self.send_piece(queue, id, rest);
            self.coverage.saw(Seen::SplitFrame);
            rest = tail;
        }
        self.send_piece(queue, id, rest);
    }

    fn send_piece(&mut self, queue: &mut Queue<impl From<NetEvent>>, id: LinkId, bytes: Vec<u8>) {
        let at = queue.now() + self.delay();
        let at = self.link_mut(id).send(bytes, at);
        queue.at(at, NetEvent::ToServer { link: id });
    }

    /// Passes output to the server's socket. The socket accepts it almost at once, or up to 2 s
    /// later if the client reads slowly.
    pub(crate) fn give(&mut self, queue: &mut Queue<impl From<NetEvent>>, id: LinkId, len: usize) {
        let pause = if self.link(id).reads_slowly {
            self.random.between(0, 2_000_000)
        } else {
            self.random.between(1, 50)
        };
        let at = self.link_mut(id).give(len, queue.now() + pause);
        queue.at(at, NetEvent::Taken { link: id });
    }

    /// Called when the socket has accepted the oldest output. Returns its length.
    pub(crate) fn taken(&mut self, queue: &mut Queue<impl From<NetEvent>>, id: LinkId) -> usize {
        let at = queue.now() + self.delay();
        let (len, at) = self.link_mut(id).take(at);
        queue.at(at, NetEvent::ToClient { link: id });
        len
    }

    /// Closes the server's end once its output has left; `is_empty` is whether the socket has
    /// accepted all output. Returns the delay until the client is notified. None if bytes are on
    /// their way: then the client is notified once they have arrived.
    pub(crate) fn finish(&mut self, id: LinkId, is_empty: bool) -> Option<u64> {
        let ends = self.link_mut(id).finish(is_empty);
        ends.then(|| self.delay())
    }

    /// Closes the server's end of a connection, and drops output that has not left. Returns the
    /// time when the client is notified.
    pub(crate) fn close(&mut self, id: LinkId, now: u64) -> u64 {
        let last = self.link_mut(id).close();
        last.max(now + self.delay())
    }

    /// Removes the server's end of a connection, without a notification of the client.
    pub(crate) fn close_silently(&mut self, id: LinkId) {
        self.link_mut(id).close();
    }

    /// Whether this request breaks its connection.
    pub(crate) fn cuts(&mut self) -> bool {
        let cuts = self.random.chance(self.profile.cut_chance);
        self.coverage.add(Seen::CutConnection, u64::from(cuts));
        cuts
    }

    /// The time after which the server is notified that a client has closed its connection.
    pub(crate) fn end_delay(&mut self) -> u64 {
        match self.random.chance(self.profile.half_open_chance) {
            true => {
                self.coverage.saw(Seen::HalfOpen);
                self.random.between(0, 5_000_000)
            }
            false => 0,
        }
    }

    pub(crate) fn delay(&mut self) -> u64 {
        self.random.skewed(self.profile.delay_min, self.profile.delay_max)
    }

    /// Ends all faults.
    pub(crate) fn calm(&mut self) {
        self.links.iter_mut().for_each(|link| link.reads_slowly = false);
        self.profile = NetworkProfile {
            delay_min: 20,
            delay_max: 2_000,
            split_chance: self.profile.split_chance,
            cut_chance: 0.0,
            slow_reader_chance: 0.0,
            half_open_chance: 0.0,
        };
    }
}
