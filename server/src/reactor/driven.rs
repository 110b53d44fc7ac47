//! Runs a shard on a driver. The driver performs the operations of the reactor, and the driver's
//! events become completions. If the driver is a ring, a turn makes one `io_uring_enter` call.

use super::{Completion, End, Io, Next, Reactor, ReactorError, Share};
use crate::certificates::CertificateThread;
use crate::clock::{Clock, Times};
use crate::dialer::ShardDialer;
use crate::files::{DrivenIo, Files};
use crate::mailbox::Peer;
use crate::shard::{CertificateOrder, Command, ListenerIndex, Message, Shard};
use crate::telemetry::Push;
use crate::telemetry_thread::TelemetryThread;
use crossbeam_channel::Receiver;
use muster_peers::{Dial, Peers};
use muster_storage::FileToken;
use muster_tls::Tls;
use muster_uring::{ConnId, Driver, ListenerId, Slice};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The parts that a reactor needs to run on a driver.
pub struct Parts<D> {
    pub io: DrivenIo<D>,
    /// The listeners, in the order of the server's listeners.
    pub listeners: Vec<ListenerId>,
    pub mailbox: Receiver<Message>,
    /// All shards by number, including this one.
    pub peers: Vec<Peer>,
    pub(crate) certificates: CertificateThread,
    pub(crate) telemetry: TelemetryThread,
    /// In a cluster.
    pub(crate) dialer: Option<ShardDialer>,
    pub clock: Clock,
}

/// `SLICE` is the longest time for the frames of one connection, before another connection's frames
/// are handled. `TURN_MS` is the time limit of a turn. Then even frames of connections that come
/// first are queued.
const SLICE: Duration = Duration::from_micros(300);
const TURN_MS: i64 = 4;

impl Share {
    /// The length of a share. Work that is in progress at its end is finished: a slice, a request,
    /// or a handshake (about a millisecond with an RSA key).
    fn length(self) -> Duration {
        Duration::from_micros(match self {
            Self::First => 1_000,
            Self::Others | Self::Requests => 500,
            Self::Handshakes => 300,
        })
    }
}

/// Output up to this size is copied to the end of queued output. Larger output is not copied.
const COPIED_OUTPUT_BYTES_MAX: usize = 4096;

/// Runs a shard on its driver.
pub struct DrivenReactor<D: Driver> {
    reactor: Reactor<OnDriver<D>>,
    io: OnDriver<D>,
}

struct OnDriver<D> {
    parts: Parts<D>,
    /// Whether the mailbox may have messages.
    is_woken: bool,
    /// The current share, and when it began.
    share: (Share, Instant),
}

impl<D: Driver> DrivenReactor<D> {
    pub fn new(parts: Parts<D>, files: Files<DrivenIo<D>>) -> Self {
        let io = OnDriver { parts, is_woken: false, share: (Share::First, Instant::now()) };
        Self { reactor: Reactor::new(files, io.times()), io }
    }

    /// Sets the TLS of each listener, None for a plaintext listener.
    pub fn secure(&mut self, listeners: Arc<[Option<Tls>]>) {
        self.reactor.secure(listeners);
    }

    /// Connects the shard with the shards of other nodes.
    pub fn connect(&mut self, peers: Peers, listener: ListenerIndex) {
        self.reactor.connect(peers, listener);
    }

    /// Runs a shard until it has stopped or failed.
    ///
    /// # Errors
    /// The driver is unusable, or a file operation that must not fail has failed; the process must
    /// end.
    pub fn run(&mut self, shard: &mut Shard) -> Result<End, ReactorError> {
        loop {
            match self.reactor.output(&mut self.io, shard)? {
                Next::Wait { until } => self.wait(until, self.reactor.turn_began())?,
                Next::End(End::Failed) => return Ok(End::Failed),
                Next::End(End::Stopped) => break,
            }
            self.reactor.input(&mut self.io, shard)?;
        }
        self.finish()?;
        Ok(End::Stopped)
    }

    /// Closes all connections of a failed shard, and waits until no file operation is under way.
    /// Messages of other shards stay in the mailbox until the shard is loaded again.
    ///
    /// # Errors
    /// The errors of [`Self::run`].
    pub fn clear(&mut self) -> Result<(), ReactorError> {
        self.reactor.leave(&mut self.io);
        while self.reactor.is_busy() {
            self.turn(None)?;
            self.drain()?;
        }
        self.reactor.close_files(&mut self.io);
        self.io.parts.io.driver.waker().wake();
        Ok(())
    }

    /// Performs the initial commands of a shard that was loaded again.
    ///
    /// # Errors
    /// The errors of [`Self::run`].
    pub fn perform_all(&mut self, commands: Vec<Command>) -> Result<(), ReactorError> {
        Ok(self.reactor.perform_all(&mut self.io, commands)?)
    }

    pub fn times(&self) -> Times {
        self.io.times()
    }

    /// Waits until clients have read their last answers, for a limited time.
    fn finish(&mut self) -> Result<(), ReactorError> {
        self.reactor.leave_peers(&mut self.io);
        let Parts { io, listeners, .. } = &mut self.io.parts;
        listeners.iter().for_each(|listener| io.driver.close_listener(*listener));
        while self.io.parts.io.driver.connections() > 0 {
            let now = self.io.times().now;
            let until = self.reactor.close_finished(&mut self.io, now).unwrap_or(now);
            self.wait(Some(until.max(now + 1)), now)?;
            self.drain()?;
        }
        Ok(())
    }

    /// Waits for completions, but no longer than from `now` to `until`.
    fn wait(&mut self, until: Option<i64>, now: i64) -> Result<(), ReactorError> {
        let millis = |at: i64| at.saturating_sub(now).max(0) as u64;
        self.turn(until.map(|at| Duration::from_millis(millis(at))))
    }

    fn turn(&mut self, timeout: Option<Duration>) -> Result<(), ReactorError> {
        self.io.parts.io.driver.turn(timeout).map_err(ReactorError::Driver)
    }

    /// Handles completions when there is no shard.
    fn drain(&mut self) -> Result<(), ReactorError> {
        while let Some(event) = self.io.parts.io.driver.next_event() {
            if let Some(completion) = self.io.completion(event) {
                self.reactor.drain(&mut self.io, completion)?;
            }
        }
        while self.io.parts.io.has_ended() {
            self.reactor.drain(&mut self.io, Completion::Called)?;
        }
        self.reactor.drained(&mut self.io);
        Ok(())
    }
}

impl<D: Driver> OnDriver<D> {
    /// Converts a driver's event to a completion; None if the reactor does not need it.
    fn completion(
        &mut self,
        event: muster_uring::Event<D::Data>,
    ) -> Option<Completion<ConnId, D::Data, Slice>> {
        use muster_uring::Event;
        Some(match event {
            Event::Accepted { conn, listener } => {
                let place = self.parts.listeners.iter().position(|it| *it == listener);
                Completion::Accepted { conn, listener: ListenerIndex(place?) }
            }
            Event::AcceptFailed { error, .. } => Completion::NotAccepted { error },
            Event::Received { conn, data } => Completion::Received { conn, data },
            Event::Sent { conn, unsent } => Completion::Sent { conn, unsent },
            Event::Streamed { conn, sent } => Completion::Streamed { conn, sent },
            Event::StreamFailed { conn, error } => Completion::StreamFailed { conn, error },
            Event::SliceRead { conn, slice } => Completion::PartsRead { conn, parts: slice },
            Event::Writable { conn } => Completion::Writable { conn },
            Event::Ended { conn, error: None } => Completion::InputEnded { conn },
            Event::Ended { conn, .. } | Event::SendFailed { conn, .. } => {
                Completion::Broken { conn }
            }
            Event::Closed { .. } => return None,
            Event::Written { token, result, buf } => {
                self.parts.io.recycle(buf);
                Completion::Written { token: FileToken(token), result }
            }
            Event::Read { token, result, buf } => {
                let result = self.parts.io.take_read(token, result, buf)?;
                Completion::Read { token: FileToken(token), result }
            }
            Event::Synced { token, result } => {
                Completion::Synced { token: FileToken(token), result }
            }
            Event::Woken => {
                self.is_woken = true;
                return None;
            }
        })
    }
}

impl<D: Driver> Io for OnDriver<D> {
    type Conn = ConnId;
    type Data = D::Data;
    type Parts = Slice;
    type Files = DrivenIo<D>;

    fn files(&mut self) -> &mut DrivenIo<D> {
        &mut self.parts.io
    }

    fn times(&self) -> Times {
        self.parts.clock.times()
    }

    fn next_completion(&mut self) -> Option<Completion<ConnId, D::Data, Slice>> {
        loop {
            if self.is_woken {
                if self.parts.io.has_ended() {
                    return Some(Completion::Called);
                }
                if let Ok(message) = self.parts.mailbox.try_recv() {
                    return Some(Completion::Mail(message));
                }
                self.is_woken = false;
            }
            let event = self.parts.io.driver.next_first()?;
            if let Some(completion) = self.completion(event) {
                return Some(completion);
            }
        }
    }

    fn next_other(&mut self) -> Option<Completion<ConnId, D::Data, Slice>> {
        loop {
            let event = self.parts.io.driver.next_other()?;
            if let Some(completion) = self.completion(event) {
                return Some(completion);
            }
        }
    }

    fn has_others(&self) -> bool {
        self.parts.io.driver.has_others()
    }

    fn unread_since(&self) -> Option<i64> {
        let since = self.parts.io.driver.unread_since()?;
        Some(self.parts.clock.now() - since.elapsed().as_millis() as i64)
    }

    fn is_late(&mut self, since: i64) -> bool {
        self.parts.clock.now() - since >= TURN_MS
    }

    fn work(&mut self, shard: &mut Shard, times: Times, commands: &mut Vec<Command>) {
        let began = Instant::now();
        let mut is_over = || began.elapsed() >= SLICE;
        shard.work(times, &mut is_over, commands);
    }

    fn begin(&mut self, share: Share) {
        self.share = (share, Instant::now());
    }

    fn is_over(&mut self) -> bool {
        let (share, began) = self.share;
        began.elapsed() >= share.length()
    }

    fn slot(&self, conn: ConnId) -> usize {
        conn.index()
    }

    fn peer(&self, conn: ConnId) -> Option<SocketAddr> {
        self.parts.io.driver.peer_addr(conn).ok()
    }

    fn adopt(&mut self, socket: OwnedFd) -> io::Result<ConnId> {
        self.parts.io.driver.adopt(socket)
    }

    fn dial(&mut self, dial: Dial) {
        if let Some(dialer) = &self.parts.dialer {
            dialer.dial(dial);
        }
    }

    fn is_full(&self) -> bool {
        self.parts.io.driver.is_full()
    }

    fn connections_max(&self) -> Option<usize> {
        self.parts.io.driver.connections_max()
    }

    fn send(&mut self, conn: ConnId, output: &mut Vec<u8>) {
        let driver = &mut self.parts.io.driver;
        if output.len() > COPIED_OUTPUT_BYTES_MAX {
            driver.send(conn, std::mem::take(output));
        } else if let Some(queued) = driver.output(conn) {
            queued.extend_from_slice(output);
            output.clear();
        }
    }

    fn unsent(&self, conn: ConnId) -> usize {
        self.parts.io.driver.unsent(conn)
    }

    fn recycle(&mut self, parts: Slice) {
        self.parts.io.driver.drop_slice(parts);
    }

    fn put_first(&mut self, conn: ConnId, comes_first: bool) {
        self.parts.io.driver.put_first(conn, comes_first);
    }

    fn pause_receive(&mut self, conn: ConnId) {
        self.parts.io.driver.pause_recv(conn);
    }

    fn resume_receive(&mut self, conn: ConnId) {
        self.parts.io.driver.resume_recv(conn);
    }

    fn await_writable(&mut self, conn: ConnId) {
        self.parts.io.driver.await_writable(conn);
    }

    fn finish(&mut self, conn: ConnId) {
        self.parts.io.driver.finish(conn);
    }

    fn close(&mut self, conn: ConnId) {
        self.parts.io.driver.close(conn);
    }

    fn mail(&mut self, to: u32, message: Message) {
        self.parts.peers[to as usize].send(message);
    }

    fn order_certificates(&mut self, order: CertificateOrder) {
        self.parts.certificates.order(order);
    }

    fn pass_push(&mut self, push: Push) {
        self.parts.telemetry.push(push);
    }
}
