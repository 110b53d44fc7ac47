//! The addresses that a server listens on and advertises: `listeners` and `advertised.listeners`,
//! or `--listen` and `--advertise`.

use super::Config;
use super::address::Address;
use std::collections::HashSet;

/// How the clients of a listener connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecurityProtocol {
    Plaintext,
    Ssl,
    SaslPlaintext,
    SaslSsl,
}

/// A listener for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    pub name: String,
    pub protocol: SecurityProtocol,
    pub address: Address,
}

/// The index of a listener in the list of the server's listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenerIndex(pub usize);

impl ListenerIndex {
    pub const FIRST: Self = Self(0);
}

/// A listener with its advertised address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedListener {
    pub name: String,
    pub protocol: SecurityProtocol,
    /// The address as it was configured.
    pub listen: Address,
    pub advertised: Address,
}

/// The listeners and the data directory of a server, from the configs and the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// The listeners, at least one.
    pub listeners: Vec<ServedListener>,
    /// The data directory.
    pub data: String,
}

impl Served {
    /// The listeners that use TLS.
    pub(crate) fn encrypted(&self) -> impl Iterator<Item = (ListenerIndex, &ServedListener)> {
        let all = self.listeners.iter().enumerate().map(|(at, it)| (ListenerIndex(at), it));
        all.filter(|(_, listener)| listener.protocol.is_encrypted())
    }
}

const DEFAULT_LISTENER: &str = "PLAINTEXT";
const DEFAULT_HOST: &str = "127.0.0.1";
const DEFAULT_PORT: u16 = 9092;

impl SecurityProtocol {
    const ALL: [Self; 4] = [Self::Plaintext, Self::Ssl, Self::SaslPlaintext, Self::SaslSsl];

    pub fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "PLAINTEXT",
            Self::Ssl => "SSL",
            Self::SaslPlaintext => "SASL_PLAINTEXT",
            Self::SaslSsl => "SASL_SSL",
        }
    }

    /// Whether connections are encrypted.
    pub fn is_encrypted(self) -> bool {
        match self {
            Self::Plaintext | Self::SaslPlaintext => false,
            Self::Ssl | Self::SaslSsl => true,
        }
    }

    fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.name().eq_ignore_ascii_case(name))
    }
}

impl Default for Listener {
    fn default() -> Self {
        Self {
            name: DEFAULT_LISTENER.to_owned(),
            protocol: SecurityProtocol::Plaintext,
            address: Address { host: DEFAULT_HOST.to_owned(), port: DEFAULT_PORT },
        }
    }
}

impl Config {
    /// The listeners for clients from `listeners`, at least one; muster's default if the key is not
    /// set.
    ///
    /// # Errors
    /// The value is malformed, muster can serve none of the listeners, or two listeners have the
    /// same name or address.
    pub fn client_listeners(&self) -> Result<Vec<Listener>, String> {
        const KEY: &str = "listeners";
        if self.set_text(KEY).is_none() {
            return Ok(vec![Listener::default()]);
        }
        let listeners = self.listeners_of(KEY, &self.listeners)?;
        if let Some(twice) = first_twice(listeners.iter().map(|it| &it.address)) {
            return Err(format!("{KEY}: two of them listen on {twice}"));
        }
        if listeners.is_empty() {
            return Err(format!("{KEY}: no listener for clients"));
        }
        Ok(listeners)
    }

    /// The listeners from `advertised.listeners`; none if the key is not set.
    ///
    /// # Errors
    /// The value is malformed, clients cannot connect to an address, or a name is not in
    /// `listeners`.
    pub fn advertised_client_listeners(&self) -> Result<Vec<Listener>, String> {
        const KEY: &str = "advertised.listeners";
        let Some(texts) = self.advertised_listeners.as_deref() else { return Ok(Vec::new()) };
        let listeners = self.listeners_of(KEY, texts)?;
        // Errors in `listeners` are reported for that key.
        let Ok(listened) = self.client_listeners() else { return Ok(Vec::new()) };
        for Listener { name, address, .. } in &listeners {
            if listened.iter().all(|it| !it.name.eq_ignore_ascii_case(name)) {
                return Err(format!("{KEY}: {name} is not in listeners"));
            }
            address.clone().routable(KEY)?;
        }
        Ok(listeners)
    }

    /// The listeners of a key, without the listeners in `controller.listener.names`. They are for
    /// the other nodes of a cluster ([`Self::cluster`]). One machine needs none: its controller is
    /// shard 0.
    fn listeners_of(&self, key: &str, texts: &[String]) -> Result<Vec<Listener>, String> {
        let controllers = self.controller_listener_names.as_deref().unwrap_or_default();
        let mut found = Vec::new();
        for text in texts {
            let (name, address) = name_and_address(text)
                .ok_or_else(|| format!("{key}={text}: not of the form NAME://host:port"))?;
            if controllers.iter().all(|it| it != name) {
                let protocol =
                    self.security_protocol(name).map_err(|why| format!("{key}={text}: {why}"))?;
                found.push(Listener { name: name.to_owned(), protocol, address });
            }
        }
        let names = found.iter().map(|it| it.name.to_ascii_uppercase());
        match first_twice(names) {
            Some(name) => Err(format!("{key}: {name} is named twice")),
            None => Ok(found),
        }
    }

    pub(super) fn security_protocol(&self, listener: &str) -> Result<SecurityProtocol, String> {
        const KEY: &str = "listener.security.protocol.map";
        let pairs = self.listener_security_protocol_map.split(',');
        let mut pairs = pairs.filter_map(|pair| pair.trim().split_once(':'));
        let (_, protocol) = pairs
            .find(|(name, _)| name.trim().eq_ignore_ascii_case(listener))
            .ok_or_else(|| format!("{KEY} has no protocol for it"))?;
        SecurityProtocol::by_name(protocol.trim())
            .ok_or_else(|| format!("{KEY} gives it {protocol}, which is not a protocol"))
    }
}

/// Parses `NAME://host:port`; the host may be empty.
pub(super) fn name_and_address(text: &str) -> Option<(&str, Address)> {
    let (name, address) = text.split_once("://")?;
    Some((name, Address::parse(address)?))
}

/// The first item that occurs a second time.
pub(super) fn first_twice<T: Eq + std::hash::Hash + Clone>(
    items: impl Iterator<Item = T>,
) -> Option<T> {
    let mut seen = HashSet::new();
    items.into_iter().find(|item| !seen.insert(item.clone()))
}
