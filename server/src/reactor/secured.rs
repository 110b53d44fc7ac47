//! TLS between the sockets and the shard: decrypts received bytes before the shard gets them, and
//! encrypts the shard's output.
//!
//! The shard gets nothing from a client before its handshake is done. A slice (64 KiB) of a fetch
//! answer is read by the driver and returned to the reactor. The reactor encrypts it and sends it
//! like other output. Bytes that the socket does not accept are held in memory, and count as
//! unread. The next slice waits until they are sent.

use super::handshakes::{Handshakes, SESSION_BYTES};
use super::{Io, Reactor, Share};
use crate::files::FileError;
use crate::net::{ConnectionId, encrypted_expected};
use crate::shard::{Event, ListenerIndex, Shard};
use muster_counters::counters;
use muster_tls::{Failed, Output, Session, Tls};
use std::io;
use std::sync::Arc;

/// A TLS connection.
#[derive(Debug)]
pub(super) struct Secured {
    session: Session,
    listener: ListenerIndex,
    /// How many input bytes of the session are included in the totals.
    counted: usize,
    /// Whether the connection is in the queue of handshakes.
    waits: bool,
    is_handshaking: bool,
    has_ended: bool,
}

/// The state that all TLS connections share.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// The TLS of each listener; None for a plaintext listener.
    pub(super) listeners: Arc<[Option<Tls>]>,
    pub(super) handshakes: Handshakes,
    /// The input bytes that all sessions hold.
    held: usize,
    open: usize,
    out: Output,
    pub(super) counters: TlsCounters,
}

counters! {
    /// Connections with TLS since the shard's start.
    #[derive(Copy)]
    pub struct TlsCounters in "tls" {
        /// Completed handshakes.
        handshakes: u64 = Counter of Count,
        /// Handshakes that resumed an earlier session.
        handshakes_resumed: u64 = Counter of Count,
        /// Handshakes that failed: another protocol, a certificate that is refused, and others.
        handshakes_failed: u64 = Counter of Count,
        /// Handshakes that took too long, or were closed because there were too many.
        handshakes_closed: u64 = Counter of Count,
        /// Handshakes in progress.
        handshakes_under_way: u64 = Gauge of Count,
        /// Seconds until the first certificate of a listener expires; 0 if it has expired.
        certificate_seconds_left: u64 = Gauge of Count,
    }
}

impl Sessions {
    /// Opens a session for a new connection. None if the listener is a plaintext listener.
    ///
    /// # Errors
    /// The session cannot be made.
    pub(super) fn open(&mut self, listener: ListenerIndex) -> Result<Option<Box<Secured>>, Failed> {
        let Some(Some(tls)) = self.listeners.get(listener.0) else { return Ok(None) };
        let session = Session::new(tls)?;
        self.open += 1;
        Ok(Some(Box::new(Secured {
            session,
            listener,
            counted: 0,
            waits: false,
            is_handshaking: true,
            has_ended: false,
        })))
    }

    pub(super) fn numbers(&self, wall_ms: i64) -> TlsCounters {
        let ends = self.listeners.iter().flatten().map(|tls| tls.expires_at);
        let left = ends.min().map_or(0, |end| end - wall_ms / 1_000);
        TlsCounters {
            handshakes_under_way: self.handshakes.len() as u64,
            certificate_seconds_left: left.max(0) as u64,
            ..self.counters
        }
    }

    /// Removes a connection from the counts.
    pub(super) fn closed(&mut self, secured: &Secured) {
        self.held -= secured.counted;
        self.open -= 1;
        if secured.is_handshaking {
            self.handshakes.end(secured.counted);
        }
    }

    /// Removes all connections.
    pub(super) fn clear(&mut self) {
        (self.held, self.open) = (0, 0);
        self.handshakes.clear();
    }

    /// The input bytes that all sessions hold.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// The approximate memory of all sessions, in bytes.
    pub(super) fn state_bytes(&self) -> usize {
        self.open * SESSION_BYTES
    }

    /// Updates the totals: counts the bytes that a session holds now.
    fn count(&mut self, secured: &mut Secured) {
        let held = secured.session.held();
        if secured.is_handshaking {
            self.handshakes.hold(secured.counted, held);
        }
        self.held = self.held - secured.counted + held;
        secured.counted = held;
    }
}

impl<I: Io> Reactor<I> {
    /// Receives encrypted bytes. During a handshake, they wait until the handshake is handled.
    pub(super) fn received_secured(
        &mut self,
        io: &mut I,
        shard: &mut Shard,
        connection: ConnectionId,
        data: &[u8],
    ) {
        let Self { connections, sessions, .. } = self;
        let Some(secured) = secured(connections, connection) else { return };
        let received = secured.session.receive(data, &mut sessions.out);
        sessions.count(secured);
        if !secured.is_handshaking {
            return match received {
                Err(failed) => self.fail(io, shard, connection, &failed),
                Ok(_) => self.advance(io, shard, connection),
            };
        }
        match received {
            Err(failed) => self.fail(io, shard, connection, &failed),
            Ok(true) if !std::mem::replace(&mut secured.waits, true) => {
                sessions.handshakes.wait(connection);
            }
            Ok(_) => {}
        }
    }

    /// Handles handshakes that wait: at least one, and more until the share of time is used up.
    pub(super) fn shake_hands(&mut self, io: &mut I, shard: &mut Shard) -> Result<(), FileError> {
        if !self.sessions.handshakes.has_waiting() {
            return Ok(());
        }
        io.begin(Share::Handshakes);
        while let Some(connection) = self.sessions.handshakes.next() {
            if let Some(secured) = secured(&mut self.connections, connection) {
                secured.waits = false;
                self.advance(io, shard, connection);
                self.execute(io)?;
            }
            if io.is_over() {
                break;
            }
        }
        Ok(())
    }

    /// Closes handshakes that take too long, and the oldest ones while a limit is exceeded. Returns
    /// the next deadline.
    pub(super) fn close_overdue(
        &mut self,
        io: &mut I,
        shard: &mut Shard,
        now: i64,
    ) -> Result<Option<i64>, FileError> {
        loop {
            let Self { connections, sessions, .. } = self;
            let is_open = |id| secured_ref(connections, id).is_some_and(|it| it.is_handshaking);
            let Some((at, oldest)) = sessions.handshakes.oldest(is_open) else { return Ok(None) };
            let reason = if sessions.handshakes.exceed_limits() {
                "more handshakes are under way than a shard may have"
            } else if at <= now {
                "its handshake took too long"
            } else {
                let next = if sessions.handshakes.has_waiting() { now } else { at };
                return Ok(Some(next));
            };
            sessions.counters.handshakes_closed += 1;
            self.end(io, shard, oldest, Some(format!("TLS: {reason}")));
            self.execute(io)?;
        }
    }

    /// Decrypts received bytes: sends handshake messages, and passes requests to the shard.
    fn advance(&mut self, io: &mut I, shard: &mut Shard, connection: ConnectionId) {
        let Self { connections, sessions, .. } = self;
        let Some(secured) = secured(connections, connection) else { return };
        let result = secured.session.advance(&mut sessions.out);
        sessions.count(secured);
        if let Err(failed) = result {
            return self.fail(io, shard, connection, &failed);
        }
        let is_done = secured.is_handshaking && !secured.session.is_handshaking();
        self.send_cipher(io, connection);
        if is_done && let Err(reason) = self.finish_handshake(io, shard, connection) {
            return self.fail(io, shard, connection, &Failed::Refused(reason));
        }
        self.pass_on(io, shard, connection);
    }

    /// Ends a handshake. If the client has a certificate, the principal is taken from it.
    fn finish_handshake(
        &mut self,
        io: &mut I,
        shard: &mut Shard,
        connection: ConnectionId,
    ) -> Result<(), String> {
        let Self { connections, sessions, .. } = self;
        let Some(secured) = secured(connections, connection) else { return Ok(()) };
        let tls = sessions.listeners.get(secured.listener.0).and_then(Option::as_ref);
        let certificate = secured.session.peer_certificate();
        let principal = match (certificate, tls) {
            (Some(certificate), Some(tls)) => Some(tls.principal(certificate)?.into()),
            (None, _) | (_, None) => None,
        };
        secured.is_handshaking = false;
        sessions.handshakes.end(secured.counted);
        sessions.counters.handshakes += 1;
        sessions.counters.handshakes_resumed += u64::from(secured.session.is_resumed());
        self.step(io, shard, Event::Secured { connection, principal });
        Ok(())
    }

    /// Passes decrypted requests to the shard, and reports the end of the input.
    fn pass_on(&mut self, io: &mut I, shard: &mut Shard, connection: ConnectionId) {
        let mut plain = std::mem::take(&mut self.sessions.out.plain);
        if !plain.is_empty() {
            self.step(io, shard, Event::Received { connection, data: &plain });
        }
        plain.clear();
        self.sessions.out.plain = plain;
        let Some(secured) = secured(&mut self.connections, connection) else { return };
        if secured.session.has_ended() && !std::mem::replace(&mut secured.has_ended, true) {
            self.step(io, shard, Event::InputEnded { connection });
        }
    }

    /// Encrypts and sends output.
    pub(super) fn send_secured(&mut self, io: &mut I, connection: ConnectionId, output: &[u8]) {
        let Self { connections, sessions, .. } = self;
        let Some(secured) = secured(connections, connection) else { return };
        // A failed session was closed already.
        let _ = secured.session.encrypt(output, &mut sessions.out);
        self.send_cipher(io, connection);
    }

    /// Encrypts and sends a slice that was read from files.
    pub(super) fn parts_read(
        &mut self,
        io: &mut I,
        shard: &mut Shard,
        conn: I::Conn,
        parts: I::Parts,
    ) {
        if let Some(connection) = self.name(io, conn) {
            self.send_secured(io, connection, &parts);
            let (sent, unsent) = (parts.len(), io.unsent(conn));
            self.step(io, shard, Event::Streamed { connection, sent, unsent });
        }
        io.recycle(parts);
    }

    /// Sends the last output, then the TLS close message.
    pub(super) fn close_secured(&mut self, io: &mut I, connection: ConnectionId, last: &[u8]) {
        let Self { connections, sessions, .. } = self;
        let Some(secured) = secured(connections, connection) else { return };
        if !last.is_empty() {
            // Encryption fails if the handshake is not finished. Then there is no request to
            // answer, either.
            let _ = secured.session.encrypt(last, &mut sessions.out);
        }
        secured.session.close(&mut sessions.out);
        self.send_cipher(io, connection);
    }

    fn send_cipher(&mut self, io: &mut I, connection: ConnectionId) {
        let Some(conn) = self.conn(connection) else { return };
        let cipher = &mut self.sessions.out.cipher;
        if !cipher.is_empty() {
            io.send(conn, cipher);
        }
    }

    /// A session has failed: sends the alert, and closes the connection.
    fn fail(&mut self, io: &mut I, shard: &mut Shard, connection: ConnectionId, failed: &Failed) {
        let is_handshaking = secured_ref(&self.connections, connection)
            .is_some_and(|secured| secured.is_handshaking);
        self.sessions.counters.handshakes_failed += u64::from(is_handshaking);
        self.sessions.out.plain.clear();
        self.send_cipher(io, connection);
        let reason = match failed {
            Failed::NotTls(bytes) => Some(encrypted_expected(bytes, failed.to_string())),
            Failed::Refused(_) => Some(failed.to_string()),
            Failed::Certificate(_) => {
                let peer = self.conn(connection).and_then(|conn| io.peer(conn));
                self.lines.certificate_refused(self.times.now, peer, &failed.to_string());
                None
            }
        };
        self.end(io, shard, connection, reason);
    }

    /// Closes a connection, and notifies the shard.
    pub(super) fn end(
        &mut self,
        io: &mut I,
        shard: &mut Shard,
        connection: ConnectionId,
        reason: Option<String>,
    ) {
        self.finish(io, connection, reason);
        self.step(io, shard, Event::Ended { connection });
    }

    /// Whether a connection is still in its handshake.
    pub(super) fn is_handshaking(&self, connection: ConnectionId) -> bool {
        secured_ref(&self.connections, connection).is_some_and(|it| it.is_handshaking)
    }

    pub(super) fn is_secured(&self, connection: ConnectionId) -> bool {
        secured_ref(&self.connections, connection).is_some()
    }
}

/// Converts the error of a session that could not be made, for the log.
pub(super) fn not_opened(failed: &Failed) -> io::Error {
    io::Error::other(failed.to_string())
}

/// An open connection of the shard.
#[derive(Debug)]
pub(super) struct Open<C> {
    pub(super) id: ConnectionId,
    pub(super) conn: C,
    pub(super) secured: Option<Box<Secured>>,
}

fn secured<C>(connections: &mut [Option<Open<C>>], id: ConnectionId) -> Option<&mut Secured> {
    let open = connections.get_mut(id.slot())?.as_mut().filter(|open| open.id == id)?;
    open.secured.as_deref_mut()
}

fn secured_ref<C>(connections: &[Option<Open<C>>], id: ConnectionId) -> Option<&Secured> {
    let open = connections.get(id.slot())?.as_ref().filter(|open| open.id == id)?;
    open.secured.as_deref()
}
