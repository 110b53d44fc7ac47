//! Reads and writes the bytes of a connection: a socket, plain or with TLS.

use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustls::ClientConnection;
use tokio::io::{AsyncWrite, Interest};
use tokio::net::TcpStream;

use super::arrival::{Received, Receiver};
use super::meter::Traffic;

/// The maximum number of bytes in a read.
const READ_BYTES: usize = 64 << 10;
/// When all bytes are sent, the buffer of a connection is shrunk to this capacity, which is enough
/// for most requests.
const KEPT_BYTES: usize = 512;

/// The read buffers that all connections of a core share. A waiting connection holds no buffer.
pub(super) struct Buffers {
    raw: Box<[u8]>,
    plain: Vec<u8>,
    receiver: Receiver,
}

impl Default for Buffers {
    fn default() -> Self {
        Self { raw: vec![0; READ_BYTES].into(), plain: Vec::new(), receiver: Receiver::default() }
    }
}

/// Bytes to send.
#[derive(Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outbox {
    /// The buffer to which bytes are appended.
    pub(super) fn queue(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    fn advance(&mut self, sent: usize) {
        self.sent += sent;
        if self.sent >= self.bytes.len() {
            self.clear();
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.sent = 0;
    }
}

pub(super) struct Transport {
    tcp: TcpStream,
    tls: Option<Box<Tls>>,
    traffic: Rc<Traffic>,
}

struct Tls {
    session: ClientConnection,
    sealed: Outbox,
}

impl Transport {
    pub(super) fn new(tcp: TcpStream, traffic: Rc<Traffic>) -> Self {
        Receiver::prepare(&tcp);
        Self { tcp, tls: None, traffic }
    }

    /// Adds TLS, and completes its handshake.
    pub(super) async fn secure(
        &mut self,
        mut session: ClientConnection,
        buffers: &std::cell::RefCell<Buffers>,
    ) -> io::Result<()> {
        session.set_buffer_limit(None);
        self.tls = Some(Box::new(Tls { session, sealed: Outbox::default() }));
        poll_fn(|cx| self.poll_handshake(cx, &mut buffers.borrow_mut())).await
    }

    fn poll_handshake(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &mut Buffers,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_write(cx, &mut Outbox::default()))?;
            let Some(tls) = self.tls.as_mut().filter(|tls| tls.session.is_handshaking()) else {
                return Poll::Ready(Ok(()));
            };
            let read = ready!(receive(&self.tcp, &self.traffic, cx, buffers))?.length;
            if read == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            tls.open(&buffers.raw[..read], &mut buffers.plain)?;
        }
    }

    /// Sends all of `out`. Pending while the socket does not take more.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Outbox,
    ) -> Poll<io::Result<()>> {
        let out = match &mut self.tls {
            Some(tls) => tls.seal(out)?,
            None => out,
        };
        while !out.is_empty() {
            let sent = ready!(Pin::new(&mut self.tcp).poll_write(cx, out.unsent()))?;
            self.traffic.sent.set(self.traffic.sent.get() + sent as u64);
            out.advance(sent);
        }
        Poll::Ready(Ok(()))
    }

    /// Returns the bytes that have arrived, and how long the last of them had waited to be read. If
    /// the other side has closed the connection, returns no bytes.
    pub(super) fn poll_read<'b>(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &'b mut Buffers,
    ) -> Poll<io::Result<(&'b [u8], Option<Duration>)>> {
        loop {
            let received = ready!(receive(&self.tcp, &self.traffic, cx, buffers))?;
            let (read, waited) = (received.length, received.waited);
            let Some(tls) = &mut self.tls else {
                return Poll::Ready(Ok((&buffers.raw[..read], waited)));
            };
            buffers.plain.clear();
            buffers.plain.shrink_to(READ_BYTES);
            if read > 0 {
                tls.open(&buffers.raw[..read], &mut buffers.plain)?;
            }
            if read == 0 || !buffers.plain.is_empty() {
                return Poll::Ready(Ok((&buffers.plain, waited)));
            }
        }
    }

    /// Makes a later close reset the connection (RST). The kernel does the same when a process is
    /// killed while it has unread data.
    pub(super) fn abort_on_close(&self) -> io::Result<()> {
        self.tcp.set_zero_linger()
    }
}

fn receive(
    tcp: &TcpStream,
    traffic: &Traffic,
    cx: &mut Context<'_>,
    buffers: &mut Buffers,
) -> Poll<io::Result<Received>> {
    let Buffers { raw, receiver, .. } = buffers;
    loop {
        ready!(tcp.poll_read_ready(cx))?;
        let mut received = None;
        let tried = tcp.try_io(Interest::READABLE, || {
            let some = received.insert(receiver.receive(tcp, raw)?);
            // A read that does not fill the buffer has emptied the socket. The error stops the
            // runtime from reading again, which would be in vain. It then waits for the next event
            // of the socket.
            let emptied = (1..raw.len()).contains(&some.length);
            if emptied { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        match (received, tried) {
            (Some(received), _) => {
                traffic.received.set(traffic.received.get() + received.length as u64);
                return Poll::Ready(Ok(received));
            }
            (None, Err(error)) if error.kind() != io::ErrorKind::WouldBlock => {
                return Poll::Ready(Err(error));
            }
            (None, _) => {}
        }
    }
}

impl Tls {
    /// Encrypts the bytes of `out`. Returns the bytes to send.
    fn seal(&mut self, out: &mut Outbox) -> io::Result<&mut Outbox> {
        if !out.is_empty() {
            self.session.writer().write_all(out.unsent())?;
            out.clear();
        }
        while self.session.wants_write() {
            self.session.write_tls(self.sealed.queue())?;
        }
        Ok(&mut self.sealed)
    }

    /// Decrypts `raw`, and appends the content to `plain`.
    fn open(&mut self, mut raw: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        while !raw.is_empty() {
            self.session.read_tls(&mut raw)?;
            let state = self.session.process_new_packets().map_err(io::Error::other)?;
            let start = plain.len();
            plain.resize(start + state.plaintext_bytes_to_read(), 0);
            self.session.reader().read_exact(&mut plain[start..])?;
        }
        Ok(())
    }
}
