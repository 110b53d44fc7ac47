//! The division of a shard's time: stories on scripted sockets. Their clock counts pieces of work;
//! no real clock is used.

use super::{Completion, Io, Reactor, Share};
use crate::backup::{BackupOrder, Links, Meeting};
use crate::clock::Times;
use crate::files::{Call, CallDone, Descriptor, FileError, FileIo, Files, PartsTo};
use crate::mailbox::ToReactor;
use crate::shard::tests::frames::frame;
use crate::shard::tests::world::World;
use crate::shard::{CertificateOrder, Command, ListenerIndex, Message, Shard};
use crate::telemetry::Push;
use crossbeam_channel::{TryRecvError, unbounded};
use muster_codec::messages::ApiVersionsRequest;
use muster_storage::{FileToken, OpenMode};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The pieces of work that fit in a share.
const SHARE: u32 = 10;

/// The frames that fit in a slice.
const SLICE: u32 = 3;

type Done = Completion<u32, Vec<u8>, Vec<u8>>;

/// Sockets whose bytes come as the story says. A connection is named by its slot.
#[derive(Default)]
struct Sockets {
    first: VecDeque<Done>,
    others: VecDeque<Done>,
    /// Connections that have new bytes in every turn.
    hungry: Vec<u32>,
    comes_first: BTreeMap<u32, bool>,
    /// The current share, and the pieces of work done in it.
    share: (Share, u32),
    /// For each turn, the number of pieces of work done for other connections, and of slices.
    turns: Vec<(u32, u32)>,
    answers: BTreeMap<u32, u32>,
    /// The hard links that were requested.
    links: Vec<Links>,
}

impl Sockets {
    fn came(&mut self, conn: u32, data: Vec<u8>) {
        let queue = match self.comes_first.get(&conn) {
            Some(true) => &mut self.first,
            Some(false) | None => &mut self.others,
        };
        queue.push_back(Completion::Received { conn, data });
    }

    fn spend(&mut self) {
        self.share.1 += 1;
    }
}

impl Io for Sockets {
    type Conn = u32;
    type Data = Vec<u8>;
    type Parts = Vec<u8>;
    type Files = Self;

    fn files(&mut self) -> &mut Self {
        self
    }

    fn times(&self) -> Times {
        Times::both(2_000)
    }

    fn next_completion(&mut self) -> Option<Done> {
        let next = self.first.pop_front();
        next.inspect(|_| self.spend())
    }

    fn next_other(&mut self) -> Option<Done> {
        let next = self.others.pop_front();
        next.inspect(|_| {
            self.spend();
            self.turns.last_mut().unwrap().0 += 1;
        })
    }

    fn has_others(&self) -> bool {
        !self.others.is_empty()
    }

    fn unread_since(&self) -> Option<i64> {
        None
    }

    fn is_late(&mut self, _: i64) -> bool {
        false
    }

    fn begin(&mut self, share: Share) {
        self.share = (share, 0);
    }

    fn is_over(&mut self) -> bool {
        self.share.1 >= SHARE
    }

    fn work(&mut self, shard: &mut Shard, times: Times, commands: &mut Vec<Command>) {
        let mut left = SLICE;
        let mut is_over = || {
            left -= 1;
            left == 0
        };
        shard.work(times, &mut is_over, commands);
        self.share.1 += SLICE - left + 1;
        self.turns.last_mut().unwrap().1 += 1;
    }

    fn slot(&self, conn: u32) -> usize {
        conn as usize
    }

    fn peer(&self, _: u32) -> Option<SocketAddr> {
        Some(([10, 0, 0, 1], 1).into())
    }

    fn is_full(&self) -> bool {
        false
    }

    fn connections_max(&self) -> Option<usize> {
        None
    }

    fn send(&mut self, conn: u32, output: &mut Vec<u8>) {
        let mut rest = &output[..];
        while let Some(length) = rest.first_chunk::<4>() {
            rest = &rest[u32::from_be_bytes(*length) as usize + 4..];
            *self.answers.entry(conn).or_default() += 1;
        }
        self.first.push_back(Completion::Sent { conn, unsent: 0 });
        output.clear();
    }

    fn unsent(&self, _: u32) -> usize {
        0
    }

    fn put_first(&mut self, conn: u32, comes_first: bool) {
        self.comes_first.insert(conn, comes_first);
    }

    fn recycle(&mut self, _: Vec<u8>) {}
    fn pause_receive(&mut self, _: u32) {}
    fn resume_receive(&mut self, _: u32) {}
    fn await_writable(&mut self, _: u32) {}
    fn finish(&mut self, _: u32) {}
    fn close(&mut self, _: u32) {}
    fn mail(&mut self, _: u32, _: Message) {}

    fn order_certificates(&mut self, _: CertificateOrder) {}

    fn pass_push(&mut self, _: Push) {}
}

#[derive(Clone)]
struct NoFile;

impl Descriptor for NoFile {
    fn is_in_use(&self) -> bool {
        false
    }
}

/// Unused: no story writes to a log.
impl FileIo for Sockets {
    type File = NoFile;
    type Conn = u32;

    fn open_at_once(&mut self, _: &Path, _: OpenMode) -> Option<NoFile> {
        Some(NoFile)
    }

    fn ended(&mut self) -> Option<Result<CallDone<NoFile>, FileError>> {
        None
    }

    fn call(&mut self, call: Call<NoFile>) {
        if let Call::Link(links) = call {
            self.links.push(*links);
        }
    }

    fn write(&mut self, _: &NoFile, _: OpenMode, _: u64, _: &[u8], _: FileToken) {}
    fn read(&mut self, _: &NoFile, _: u64, _: u32, _: FileToken) {}
    fn sync(&mut self, _: &NoFile, _: FileToken) {}
    fn put_bytes(&mut self, _: Vec<u8>) {}
    fn put_file(&mut self, _: &NoFile, _: u64, _: u32) {}
    fn send(&mut self, _: PartsTo<u32>) {}
}

struct Story {
    world: World,
    reactor: Reactor<Sockets>,
    io: Sockets,
}

impl Story {
    fn new() -> Self {
        let mut world = World::new(&[]);
        world.pass(100);
        let reactor = Reactor::new(Files::new(4, world.now), Times::both(world.now));
        Self { world, reactor, io: Sockets::default() }
    }

    /// Connects clients. Returns their connections.
    fn connect(&mut self, count: u32) -> Vec<u32> {
        let begin = self.reactor.connections.len() as u32;
        let conns: Vec<_> = (begin..begin + count).collect();
        let accepted = |conn| Completion::Accepted { conn, listener: ListenerIndex::FIRST };
        self.io.others.extend(conns.iter().copied().map(accepted));
        self.turn_until(|io| !io.has_others());
        conns
    }

    /// Connects a client whose requests have been short.
    fn regular(&mut self) -> u32 {
        let conn = self.connect(1)[0];
        for _ in 0..8 {
            self.io.came(conn, ask());
            self.turn_until(|io| !io.has_others());
        }
        assert_eq!(self.io.comes_first.get(&conn), Some(&true));
        self.io.answers.clear();
        conn
    }

    /// Connects clients that never stop sending; they send the beginning of a 1 MiB frame.
    fn hungry(&mut self, count: u32) {
        self.io.hungry = self.connect(count);
        for conn in self.io.hungry.clone() {
            self.io.came(conn, (1_u32 << 20).to_be_bytes().to_vec());
        }
    }

    fn turn(&mut self) {
        for conn in self.io.hungry.clone() {
            self.io.came(conn, vec![0; 8]);
        }
        self.io.turns.push((0, 0));
        self.reactor.input(&mut self.io, &mut self.world.shard).unwrap();
        self.reactor.output(&mut self.io, &mut self.world.shard).unwrap();
    }

    fn turn_until(&mut self, is_done: impl Fn(&Sockets) -> bool) {
        while !is_done(&self.io) {
            self.turn();
        }
    }

    /// Runs turns until a client has its answer. Returns these turns.
    fn turns_until_answered(&mut self, conn: u32) -> Vec<(u32, u32)> {
        let (before, answers) = (self.io.turns.len(), self.answers(conn));
        for _ in 0..5 {
            self.turn();
            if self.answers(conn) > answers {
                break;
            }
        }
        self.io.turns[before..].to_vec()
    }

    fn answers(&self, conn: u32) -> u32 {
        self.io.answers.get(&conn).copied().unwrap_or(0)
    }
}

fn ask() -> Vec<u8> {
    frame(0, ApiVersionsRequest::default())
}

/// The other work that is done before the answer does not grow with the number of hungry clients.
#[test]
fn a_short_request_waits_for_a_share_of_the_others_at_most() {
    for count in [0, 100, 1_000] {
        let mut story = Story::new();
        let regular = story.regular();
        story.hungry(count);
        for _ in 0..10 {
            story.io.came(regular, ask());
            let turns = story.turns_until_answered(regular);
            let others: u32 = turns.iter().map(|(others, _)| others).sum();
            assert!(turns.len() <= 2 && others <= SHARE, "{count} hungry ones: {turns:?}");
        }
        let all: u32 = story.io.turns.iter().map(|(others, _)| others).sum();
        assert!(count == 0 || all > 5 * SHARE, "the others are served, too: {all}");
    }
}

/// Waiting requests are handled even if receiving uses up its whole share.
#[test]
fn requests_have_a_share_of_their_own() {
    let mut story = Story::new();
    let many = story.connect(1)[0];
    story.hungry(100);
    story.io.others.clear();
    story.io.came(many, ask().repeat(50));
    for _ in 0..40 {
        story.turn();
    }
    assert_eq!(story.answers(many), 50);
    let turns: Vec<_> = story.io.turns.iter().rev().take(40).collect();
    assert!(turns.iter().all(|(others, slices)| *others <= SHARE && *slices <= SHARE), "{turns:?}");
    assert!(turns.iter().any(|(others, slices)| *others == SHARE && *slices > 0), "{turns:?}");
}

/// Each of a thousand connections has waiting requests: the work of at least one slice.
#[test]
fn a_short_request_is_handled_before_those_that_wait() {
    let mut story = Story::new();
    let regular = story.regular();
    let many = story.connect(1_000);
    many.iter().for_each(|conn| story.io.came(*conn, ask().repeat(30)));
    story.turn_until(|io| !io.has_others());
    let waiting = story.world.shard.inspect().waiting().0;
    assert!(waiting > 900, "{waiting} wait");
    story.io.came(regular, ask());
    assert!(story.turns_until_answered(regular).len() <= 2);
}

/// Each of the connections that come first sends two requests at once. The second one waits in
/// the run queue, ahead of requests of other connections.
#[test]
fn the_first_are_answered_in_their_turn_even_if_they_ask_for_more_than_one_thing() {
    let mut story = Story::new();
    let regulars = [story.regular(), story.regular()];
    story.hungry(100);
    story.turn();
    regulars.iter().for_each(|conn| story.io.came(*conn, ask().repeat(2)));
    story.turn();
    assert_eq!(regulars.map(|conn| story.answers(conn)), [2, 2]);
    assert_eq!(story.io.turns.last(), Some(&(0, 2)), "a slice each, and nothing for others");
}

#[test]
fn the_others_have_their_turn_where_the_first_never_end() {
    let mut story = Story::new();
    let regular = story.regular();
    let other = story.connect(1)[0];
    story.io.came(other, ask());
    let mut turns = 0;
    while story.answers(other) == 0 {
        story.io.came(regular, ask());
        story.turn();
        turns += 1;
        assert!(turns <= SHARE, "the share of the first is over");
    }
    assert!(story.answers(regular) > 0);
}

/// If only some of the shards took part in a backup, their files would not fit together.
#[test]
fn files_are_linked_if_all_shards_meet() {
    for (shards, is_complete) in [(2, false), (1, true)] {
        let mut story = Story::new();
        let (to, answers) = unbounded();
        let meeting = Arc::new(Meeting::of(shards, Duration::ZERO));
        let order = BackupOrder { meeting, into: "backup/1".into(), to };
        story.io.first.push_back(Completion::Mail(ToReactor::BackUp(order).into()));
        story.turn();
        assert_eq!(story.io.links.len(), usize::from(is_complete));
        let answer = answers.try_recv();
        match story.io.links.pop() {
            // The thread for files answers instead.
            Some(links) => {
                assert_eq!(links.directories, [Path::new(&links.extents.logs[0])]);
                assert!(!links.extents.files.is_empty());
                assert_eq!(answer, Err(TryRecvError::Empty));
            }
            None => assert_eq!(answer, Err(TryRecvError::Disconnected)),
        }
    }
}
