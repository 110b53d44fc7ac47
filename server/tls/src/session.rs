//! A TLS connection: a handshake, then records in both directions.

use crate::limits::{
    HANDSHAKE_BYTES_MAX, HANDSHAKE_RECORDS_MAX, PLAINTEXT_BYTES_MAX, RECORD_OVERHEAD,
    SMALL_RECORD_BYTES, SMALL_RECORDS_MAX,
};
use crate::records::{NoRecord, may_begin, record_length};
use crate::settings::Tls;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic,
};
use std::fmt;
use std::sync::Arc;

/// The reason why a session has failed. If the client is to get an alert before its connection is
/// closed, the output has the alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failed {
    /// The client does not use TLS. These are its first bytes.
    NotTls(Vec<u8>),
    /// The client violated the protocol or a limit.
    Refused(String),
    /// The client's certificate was rejected, or is missing.
    Certificate(String),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTls(_) => f.write_str("TLS expected: the client needs security.protocol=SSL"),
            Self::Refused(reason) | Self::Certificate(reason) => write!(f, "TLS: {reason}"),
        }
    }
}

/// The results of calls. The caller takes them out, so all sessions of a thread may share a value.
#[derive(Debug, Default)]
pub struct Output {
    /// Decrypted requests, in the order in which they were received.
    pub plain: Vec<u8>,
    /// Encrypted bytes to send.
    pub cipher: Vec<u8>,
    /// An empty buffer of a session without input. The next session that gets input takes it.
    spare: Vec<u8>,
}

/// The TLS session of a connection to a client.
pub struct Session {
    tls: UnbufferedServerConnection,
    /// Received bytes that are not processed yet. After [`Self::advance`], at most one incomplete
    /// record is left.
    input: Vec<u8>,
    /// The end of the last complete record in `input`.
    whole: usize,
    received: usize,
    records: usize,
    small_records: usize,
    /// Whether the client has closed its side with close_notify.
    has_ended: bool,
    has_failed: bool,
}

impl Session {
    /// # Errors
    /// No session can be created with these settings.
    pub fn new(tls: &Tls) -> Result<Self, Failed> {
        let tls = UnbufferedServerConnection::new(Arc::clone(tls.config())).map_err(refused)?;
        Ok(Self {
            tls,
            input: Vec::new(),
            whole: 0,
            received: 0,
            records: 0,
            small_records: 0,
            has_ended: false,
            has_failed: false,
        })
    }

    /// Stores received bytes. Returns true if [`Self::advance`] has work to do.
    ///
    /// # Errors
    /// The bytes are not TLS, or exceed a limit.
    pub fn receive(&mut self, bytes: &[u8], out: &mut Output) -> Result<bool, Failed> {
        if self.input.capacity() == 0 {
            self.input = std::mem::take(&mut out.spare);
        }
        self.input.extend_from_slice(bytes);
        if self.received == 0 && !may_begin(&self.input) {
            return Err(Failed::NotTls(std::mem::take(&mut self.input)));
        }
        self.find_records()?;
        if self.is_handshaking() {
            self.check_handshake(bytes.len())?;
        }
        self.received = self.received.saturating_add(bytes.len());
        Ok(self.whole > 0)
    }

    /// Processes all complete records: answers messages of the handshake, and appends requests to
    /// the output.
    ///
    /// # Errors
    /// The client violated the protocol or a limit, or its certificate was rejected or is missing.
    /// The output has the alert.
    pub fn advance(&mut self, out: &mut Output) -> Result<(), Failed> {
        let result = if self.whole > 0 { self.drive(None, out) } else { Ok(()) };
        self.keep_rest(out);
        result
    }

    /// Encrypts answers.
    ///
    /// # Errors
    /// The session has failed, or its handshake is not done.
    pub fn encrypt(&mut self, plain: &[u8], out: &mut Output) -> Result<(), Failed> {
        self.drive(Some(App::Bytes(plain)), out)
    }

    /// Sends close_notify, if possible.
    pub fn close(&mut self, out: &mut Output) {
        // A session that has failed or is in its handshake ends without close_notify.
        let _ = self.drive(Some(App::CloseNotify), out);
    }

    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Whether the client has closed its side with close_notify, and sends nothing more.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The client's certificate, if it sent one. The client has proved that it has the key of this
    /// certificate.
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        self.tls.peer_certificates()?.first().map(AsRef::as_ref)
    }

    /// Whether the session resumed an earlier one, which saves most of the handshake's work.
    pub fn is_resumed(&self) -> bool {
        self.tls.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    }

    /// The protocol version and the cipher suite, with Java's names.
    pub fn protocol(&self) -> Option<(&'static str, &'static str)> {
        let suite = self.tls.negotiated_cipher_suite()?;
        Some((crate::suites::version_name(suite), crate::suites::suite_name(suite)?))
    }

    /// The number of received bytes that the session holds.
    pub fn held(&self) -> usize {
        self.input.len()
    }

    fn find_records(&mut self) -> Result<(), Failed> {
        loop {
            match record_length(&self.input[self.whole..]) {
                Ok(Some(length)) if self.whole + length <= self.input.len() => {
                    self.whole += length;
                    self.records = self.records.saturating_add(1);
                }
                Ok(_) => return Ok(()),
                Err(NoRecord) => return Err(Failed::Refused("the client sent no record".into())),
            }
        }
    }

    fn check_handshake(&self, more: usize) -> Result<(), Failed> {
        let bytes = self.received.saturating_add(more);
        if bytes > HANDSHAKE_BYTES_MAX || self.records > HANDSHAKE_RECORDS_MAX {
            let records = self.records;
            let reason = format!("a handshake of over {bytes} bytes in {records} records");
            return Err(Failed::Refused(reason));
        }
        Ok(())
    }

    /// Processes the complete records and sends messages of the handshake. Then encrypts `app`, the
    /// caller's output.
    fn drive(&mut self, mut app: Option<App<'_>>, out: &mut Output) -> Result<(), Failed> {
        if self.has_failed {
            return Err(Failed::Refused("the session has failed".into()));
        }
        let mut used = 0;
        let result = loop {
            let status = self.tls.process_tls_records(&mut self.input[used..]);
            let UnbufferedStatus { mut discard, state } = status;
            let next = match state {
                Err(error) => Err(failed(&error)),
                Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
                    match traffic.next_record() {
                        Some(Ok(record)) => {
                            discard += record.discard;
                            out.plain.extend_from_slice(record.payload);
                            let is_small = record.payload.len() < SMALL_RECORD_BYTES;
                            self.small_records = if is_small { self.small_records + 1 } else { 0 };
                        }
                        Some(Err(error)) => break Err(refused(error)),
                        // Requests cause no output. So once all complete records are read, rustls
                        // need not be called again.
                        None if app.is_none() && used + discard == self.whole => {
                            break Ok(Next::Done);
                        }
                        None => break Ok(Next::More),
                    }
                },
                Ok(ConnectionState::EncodeTlsData(data)) => encode(data, &mut out.cipher),
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    Ok(Next::More)
                }
                Ok(ConnectionState::WriteTraffic(traffic)) => match app.take() {
                    Some(app) => app.write(traffic, &mut out.cipher),
                    None => Ok(Next::Done),
                },
                Ok(ConnectionState::PeerClosed) => {
                    self.has_ended = true;
                    Ok(Next::More)
                }
                Ok(ConnectionState::BlockedHandshake | ConnectionState::Closed) => Ok(Next::Done),
                Ok(_) => Err(Failed::Refused("data before the handshake".into())),
            };
            used += discard;
            match next {
                Ok(Next::More) => {}
                Ok(Next::Done) => break self.check_done(app.is_some()),
                Err(failed) => break Err(failed),
            }
        };
        self.input.drain(..used);
        self.whole = self.whole.saturating_sub(used);
        if result.is_err() {
            self.has_failed = true;
            self.write_alert(&mut out.cipher);
        }
        result
    }

    fn check_done(&self, is_unwritten: bool) -> Result<(), Failed> {
        if self.small_records > SMALL_RECORDS_MAX {
            return Err(Failed::Refused("the client sends records of a few bytes".into()));
        }
        let unwritten = || Failed::Refused("an answer before the handshake is done".into());
        if is_unwritten { Err(unwritten()) } else { Ok(()) }
    }

    /// Writes the alert of a failed session, if there is one. After a failure, rustls must not get
    /// the input again, because its positions in the input are no longer right. So it gets none.
    fn write_alert(&mut self, cipher: &mut Vec<u8>) {
        while self.tls.wants_write() {
            match self.tls.process_tls_records(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(data)) => {
                    if encode(data, cipher).is_err() {
                        return;
                    }
                }
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while traffic.next_record().is_some() {}
                }
                _ => return,
            }
        }
    }

    /// Keeps the unprocessed input. If there is none, leaves the buffer to other sessions.
    fn keep_rest(&mut self, out: &mut Output) {
        if self.input.is_empty() {
            out.spare = std::mem::take(&mut self.input);
        } else if self.input.capacity() > 2 * self.input.len() {
            self.input.shrink_to_fit();
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("held", &self.input.len()).finish_non_exhaustive()
    }
}

/// The caller's output.
enum App<'b> {
    Bytes(&'b [u8]),
    CloseNotify,
}

enum Next {
    More,
    Done,
}

impl App<'_> {
    fn write(
        &self,
        mut traffic: WriteTraffic<'_, rustls::server::ServerConnectionData>,
        cipher: &mut Vec<u8>,
    ) -> Result<Next, Failed> {
        let begin = cipher.len();
        let mut space = match self {
            Self::Bytes(bytes) => {
                bytes.len() + (bytes.len() / PLAINTEXT_BYTES_MAX + 1) * RECORD_OVERHEAD
            }
            Self::CloseNotify => 2 * RECORD_OVERHEAD,
        };
        loop {
            cipher.resize(begin + space, 0);
            let into = &mut cipher[begin..];
            let written = match self {
                Self::Bytes(bytes) => traffic.encrypt(bytes, into),
                Self::CloseNotify => traffic.queue_close_notify(into),
            };
            match written {
                Ok(written) => {
                    cipher.truncate(begin + written);
                    return Ok(Next::Done);
                }
                Err(EncryptError::InsufficientSize(needed)) if needed.required_size > space => {
                    space = needed.required_size;
                }
                Err(error) => {
                    cipher.truncate(begin);
                    return Err(refused(error));
                }
            }
        }
    }
}

/// Appends a message of the handshake to the output.
fn encode<D>(mut data: EncodeTlsData<'_, D>, cipher: &mut Vec<u8>) -> Result<Next, Failed> {
    let begin = cipher.len();
    let needed = match data.encode(&mut []) {
        Ok(_) => return Ok(Next::More),
        Err(EncodeError::InsufficientSize(needed)) => needed.required_size,
        Err(error @ EncodeError::AlreadyEncoded) => return Err(refused(error)),
    };
    cipher.resize(begin + needed, 0);
    data.encode(&mut cipher[begin..]).map(|_| Next::More).map_err(refused)
}

fn failed(error: &rustls::Error) -> Failed {
    use rustls::Error::{InvalidCertificate, NoCertificatesPresented};
    let is_of_certificate = matches!(error, InvalidCertificate(_) | NoCertificatesPresented);
    if is_of_certificate { Failed::Certificate(error.to_string()) } else { refused(error) }
}

fn refused(error: impl fmt::Display) -> Failed {
    Failed::Refused(error.to_string())
}
