//! Where a server listens, and what it tells clients: `listeners` and `advertised.listeners`.

use super::Config;

/// The first shard's address; each further shard is one port higher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Empty: all interfaces, or the host that was listened on if it is an advertised one.
    pub host: String,
    pub port: u16,
}

impl Config {
    /// The address of `listeners`; None if nobody set it.
    ///
    /// # Errors
    /// It is not exactly one listener of clients, in plain text.
    pub fn listener(&self) -> Result<Option<Address>, String> {
        match self.set_text("listeners") {
            Some(_) => self.client_address("listeners", &self.listeners).map(Some),
            None => Ok(None),
        }
    }

    /// The address of `advertised.listeners`; None if nobody set it.
    ///
    /// # Errors
    /// It is not exactly one listener of clients, in plain text.
    pub fn advertised_listener(&self) -> Result<Option<Address>, String> {
        let listeners = self.advertised_listeners.as_deref();
        listeners.map(|list| self.client_address("advertised.listeners", list)).transpose()
    }

    /// Listeners named in `controller.listener.names` are left out: the controller of muster is its
    /// first shard, which needs none.
    fn client_address(&self, key: &str, listeners: &[String]) -> Result<Address, String> {
        let controllers = self.controller_listener_names.as_deref().unwrap_or_default();
        let mut found = None;
        for listener in listeners {
            let parts = listener.split_once("://").and_then(|(n, at)| Some((n, address(at)?)));
            let (name, address) = parts
                .ok_or_else(|| format!("{key}={listener}: not of the form NAME://host:port"))?;
            if controllers.iter().any(|controller| controller == name) {
                continue;
            }
            if self.security_protocol(name) != Some("PLAINTEXT") {
                return Err(format!("{key}={listener}: muster serves PLAINTEXT only"));
            }
            if found.replace(address).is_some() {
                return Err(format!("{key}: muster has one listener for clients"));
            }
        }
        found.ok_or_else(|| format!("{key}: no listener for clients"))
    }

    fn security_protocol(&self, listener: &str) -> Option<&str> {
        let map = self.listener_security_protocol_map.split(',');
        let mut pairs = map.filter_map(|pair| pair.trim().split_once(':'));
        pairs.find(|(name, _)| name.eq_ignore_ascii_case(listener)).map(|(_, protocol)| protocol)
    }
}

/// `host:port`, `[IPv6]:port` or `:port`.
fn address(text: &str) -> Option<Address> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    Some(Address { host: host.to_owned(), port: port.parse().ok()? })
}
