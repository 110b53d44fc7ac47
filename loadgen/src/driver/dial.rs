//! Opens a usable connection to a host and port: name lookup, TCP, TLS, SASL. Each failure is one
//! sentence for the user.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use muster_codec::ApiKey;
use tokio::net::{TcpStream, lookup_host};
use tokio::time;

use super::channel::Channel;
use super::command::Target;
use super::meter::Traffic;
use super::sasl;
use super::tls::TlsClient;
use super::transport::{Buffers, Transport};
use crate::member::Versions;

/// Opens the connections of a core.
pub(super) struct Dialer {
    pub(super) target: Arc<Target>,
    pub(super) versions: RefCell<Versions>,
    pub(super) buffers: Rc<RefCell<Buffers>>,
    pub(super) traffic: Rc<Traffic>,
    tls: Option<TlsClient>,
    resolved: RefCell<HashMap<(String, u16), Vec<SocketAddr>>>,
}

impl Dialer {
    pub(super) fn new(target: Arc<Target>, tls: Option<TlsClient>, versions: Versions) -> Self {
        Self {
            target,
            versions: RefCell::new(versions),
            buffers: Rc::default(),
            traffic: Rc::default(),
            tls,
            resolved: RefCell::default(),
        }
    }

    /// Opens a connection on which requests can be sent.
    /// # Errors
    /// The error is a sentence for the user.
    pub(super) async fn connect(&self, host: &str, port: u16) -> Result<Transport, String> {
        self.channel(host, port).await.map(Channel::into_transport)
    }

    /// Opens a connection on which one request is sent after the other.
    /// # Errors
    /// The error is a sentence for the user.
    pub(super) async fn channel(&self, host: &str, port: u16) -> Result<Channel, String> {
        let mut channel = self.open(host, port).await?;
        self.authenticate(&mut channel, host, port).await?;
        Ok(channel)
    }

    /// Connects within the connect timeout, with TLS if it is configured, and without SASL.
    /// # Errors
    /// The error is a sentence for the user.
    pub(super) async fn open(&self, host: &str, port: u16) -> Result<Channel, String> {
        let timeout = self.target.connect_timeout;
        let transport = time::timeout(timeout, self.secured(host, port)).await;
        let transport = transport.map_err(|_| {
            let timeout = humantime::format_duration(timeout);
            format!("no connection to {host}:{port} within {timeout}")
        })??;
        let target = &self.target;
        let (client_id, timeout) = (target.client_id.clone(), target.request_timeout);
        Ok(Channel::new(transport, Rc::clone(&self.buffers), client_id, timeout))
    }

    async fn secured(&self, host: &str, port: u16) -> Result<Transport, String> {
        let tcp = self.tcp(host, port).await?;
        let mut transport = Transport::new(tcp, Rc::clone(&self.traffic));
        if let Some(tls) = &self.tls {
            let session = tls.session(host)?;
            let secured = transport.secure(session, &self.buffers).await;
            secured.map_err(|error| no_tls(host, port, &error))?;
        }
        Ok(transport)
    }

    /// Logs in with SASL. Does nothing if SASL is not configured.
    /// # Errors
    /// The error is a sentence for the user.
    pub(super) async fn authenticate(
        &self,
        channel: &mut Channel,
        host: &str,
        port: u16,
    ) -> Result<(), String> {
        let Some(credentials) = &self.target.security.sasl else { return Ok(()) };
        let version = self.versions.borrow().of(ApiKey::SaslAuthenticate).unwrap_or(0);
        let said = sasl::authenticate(channel, credentials, version).await;
        said.map_err(|reason| format!("{host}:{port}: {reason}"))
    }

    async fn tcp(&self, host: &str, port: u16) -> Result<TcpStream, String> {
        let mut reason = String::new();
        for address in self.resolve(host, port).await? {
            match TcpStream::connect(address).await {
                Ok(tcp) => {
                    let set = tcp.set_nodelay(true);
                    return set.map(|()| tcp).map_err(|error| format!("{host}:{port}: {error}"));
                }
                Err(error) => reason = no_tcp(host, port, &error),
            }
        }
        self.resolved.borrow_mut().remove(&(host.to_owned(), port));
        Err(reason)
    }

    /// Resolves a name, on another thread. The addresses are cached until [`Self::tcp`] finds that
    /// none of them accepts a connection.
    async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![(address, port).into()]);
        }
        let name = (host.to_owned(), port);
        if let Some(known) = self.resolved.borrow().get(&name) {
            return Ok(known.clone());
        }
        let addresses =
            lookup_host((host, port)).await.map_err(|error| unresolved(host, &error))?;
        let addresses = Vec::from_iter(addresses);
        if addresses.is_empty() {
            return Err(format!("the name {host} has no address"));
        }
        self.resolved.borrow_mut().insert(name, addresses.clone());
        Ok(addresses)
    }
}

/// Splits `host:port`. IPv6 addresses are in brackets.
/// # Errors
/// The text is malformed. The error is a sentence for the user.
pub(super) fn host_and_port(server: &str) -> Result<(&str, u16), String> {
    let wrong = || format!("{server} is not HOST:PORT");
    let (host, port) = server.rsplit_once(':').ok_or_else(wrong)?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match port.parse() {
        Ok(port) if port > 0 && !host.is_empty() => Ok((host, port)),
        _ => Err(wrong()),
    }
}

fn unresolved(host: &str, error: &io::Error) -> String {
    format!("the name {host} cannot be resolved: {error}")
}

fn no_tcp(host: &str, port: u16, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("nothing listens on {host}:{port} (connection refused)")
        }
        io::ErrorKind::TimedOut => format!("{host}:{port} does not answer (connection timed out)"),
        _ => format!("no connection to {host}:{port}: {error}"),
    }
}

fn no_tls(host: &str, port: u16, error: &io::Error) -> String {
    let text = error.to_string();
    let why = match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe => {
            "it closed the connection during the TLS handshake: is this a plaintext listener?"
                .to_owned()
        }
        _ if text.contains("corrupt message") => {
            "its answers are not TLS: is this a plaintext listener?".to_owned()
        }
        _ if text.contains("UnknownIssuer") => {
            "its certificate is of no trusted authority: name the authority's file (--tls-ca)"
                .to_owned()
        }
        _ => format!("the TLS handshake failed: {text}"),
    };
    format!("{host}:{port}: {why}")
}
