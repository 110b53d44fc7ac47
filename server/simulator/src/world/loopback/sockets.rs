//! The clients' ends of connections to a real server: sockets that never block.

use crate::net::LinkId;
use crate::node::Effect;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

/// The number of bytes that are read for a client before it takes them. Further bytes stay in the
/// socket, so that a slow reader makes the server wait.
const UNTAKEN_MAX: usize = 64 << 10;

type Effects = VecDeque<Effect<Infallible>>;

pub(super) struct Sockets {
    poll: Poll,
    events: Events,
    all: BTreeMap<LinkId, Socket>,
}

struct Socket {
    stream: TcpStream,
    shard: u32,
    /// The bytes that the socket has not accepted yet.
    unsent: Vec<u8>,
    /// Whether the client sends nothing after the bytes in `unsent`.
    is_finished: bool,
    /// The number of bytes that were read, and that the client has not taken yet.
    untaken: usize,
}

impl Sockets {
    /// # Errors
    /// The kernel does not report when sockets are ready.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { poll: Poll::new()?, events: Events::with_capacity(256), all: BTreeMap::new() })
    }

    /// Connects a client to a shard.
    pub(super) fn open(&mut self, link: LinkId, shard: u32, to: SocketAddr, effects: &mut Effects) {
        let connected = TcpStream::connect(to).and_then(|mut stream| {
            let interests = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut stream, Token(link.0 as usize), interests)?;
            Ok(stream)
        });
        let Ok(stream) = connected else { return effects.push_back(Effect::Closed { link }) };
        let socket = Socket { stream, shard, unsent: Vec::new(), is_finished: false, untaken: 0 };
        self.all.insert(link, socket);
    }

    /// Sends bytes of a client.
    pub(super) fn send(&mut self, link: LinkId, bytes: &[u8], effects: &mut Effects) {
        if let Some(socket) = self.all.get_mut(&link) {
            socket.unsent.extend_from_slice(bytes);
            self.flush(link, effects);
        }
    }

    /// Notes that the client sends nothing more.
    pub(super) fn finish(&mut self, link: LinkId, effects: &mut Effects) {
        if let Some(socket) = self.all.get_mut(&link) {
            socket.is_finished = true;
            self.flush(link, effects);
        }
    }

    /// Notes that the client has taken bytes that were read.
    pub(super) fn taken(&mut self, link: LinkId, bytes: usize, effects: &mut Effects) {
        if let Some(socket) = self.all.get_mut(&link) {
            let was_full = socket.untaken >= UNTAKEN_MAX;
            socket.untaken = socket.untaken.saturating_sub(bytes);
            if was_full {
                self.read(link, effects);
            }
        }
    }

    /// Closes the client's end. Bytes that the socket has not accepted are dropped.
    pub(super) fn close(&mut self, link: LinkId) {
        self.all.remove(&link);
    }

    /// Waits for sockets, and reads and writes the sockets that are ready.
    ///
    /// # Errors
    /// The kernel does not report which sockets are ready.
    pub(super) fn wait(&mut self, timeout: Duration, effects: &mut Effects) -> io::Result<()> {
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            polled => polled?,
        }
        let ready = |event: &mio::event::Event| {
            (LinkId(event.token().0 as u32), event.is_writable(), event.is_readable())
        };
        for (link, writes, reads) in self.events.iter().map(ready).collect::<Vec<_>>() {
            if writes {
                self.flush(link, effects);
            }
            if reads {
                self.read(link, effects);
            }
        }
        Ok(())
    }

    fn flush(&mut self, link: LinkId, effects: &mut Effects) {
        let Some(socket) = self.all.get_mut(&link) else { return };
        match socket.flush() {
            Err(error) if !is_passing(&error) => {}
            _ => return,
        }
        // The client's sending has failed, but the socket may still have bytes that the server sent
        // before.
        self.read(link, effects);
        if self.all.remove(&link).is_some() {
            effects.push_back(Effect::Closed { link });
        }
    }

    fn read(&mut self, link: LinkId, effects: &mut Effects) {
        while let Some(socket) = self.all.get_mut(&link).filter(|it| it.untaken < UNTAKEN_MAX) {
            let mut bytes = vec![0; UNTAKEN_MAX];
            match socket.stream.read(&mut bytes) {
                Ok(0) => {
                    let is_empty = socket.untaken == 0;
                    self.close(link);
                    return effects.push_back(Effect::Finished { link, is_empty });
                }
                Ok(count) => {
                    bytes.truncate(count);
                    socket.untaken += count;
                    let shard = socket.shard;
                    effects.push_back(Effect::Sent { shard, link, bytes, is_whole: false });
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_passing(&error) => return,
                Err(_) => {
                    self.close(link);
                    return effects.push_back(Effect::Closed { link });
                }
            }
        }
    }
}

/// Whether the error only means that the socket is not ready, or the connection not established
/// yet. After any other error the connection is gone.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected)
}

impl Socket {
    fn flush(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                sent => drop(self.unsent.drain(..sent?)),
            }
        }
        if self.is_finished { self.stream.shutdown(Shutdown::Write) } else { Ok(()) }
    }
}
