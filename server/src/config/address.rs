//! A host and a port, as operators write them.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The address of the first shard; each further shard uses the next port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// If the host is empty, this means all interfaces. In an advertised address it means the name
    /// of this host.
    pub host: String,
    pub port: u16,
}

const LISTEN_FORMS: &str = "HOST:PORT, such as 127.0.0.1:9092 or [::1]:9092, or :9092 for all \
                            interfaces";
const ADVERTISE_FORMS: &str =
    "HOST or HOST:PORT, such as kafka.example.org:9092 or [2001:db8::1]:9092";

impl Address {
    /// Parses the value of `--listen`: `HOST:PORT`. An empty host or `*` means all interfaces.
    ///
    /// # Errors
    /// The text has another form. The error lists the valid forms.
    pub fn of_listen(text: &str) -> Result<Self, String> {
        let malformed = || format!("--listen {text}: expected {LISTEN_FORMS}");
        let (host, port) = split(text).ok_or_else(malformed)?;
        let port = port.and_then(parse_port).ok_or_else(malformed)?;
        let host = if host == "*" { "" } else { host };
        if host.is_empty() || is_host(host) {
            Ok(Self { host: host.to_owned(), port })
        } else {
            Err(malformed())
        }
    }

    /// Parses the value of `--advertise`: `HOST:PORT`, or `HOST` with the listener's port.
    ///
    /// # Errors
    /// The text has another form, or no client can connect to the address.
    pub fn of_advertise(text: &str, listen_port: u16) -> Result<Self, String> {
        let malformed = || format!("--advertise {text}: expected {ADVERTISE_FORMS}");
        let (host, port) = split(text).ok_or_else(malformed)?;
        let port = port.map_or(Some(listen_port), parse_port).ok_or_else(malformed)?;
        let address = Self { host: host.to_owned(), port };
        if is_host(host) {
            address.routable(&format!("--advertise {text}"))
        } else {
            Err(malformed())
        }
    }

    /// The address of a shard.
    ///
    /// # Errors
    /// The port would exceed 65535.
    pub fn of_shard(&self, number: u32) -> Result<Self, String> {
        let port = u32::from(self.port) + number;
        let port = u16::try_from(port).map_err(|_| {
            format!(
                "shard {number} would have port {port}, and the last one is 65535: each shard has \
                 a port, from {} on",
                self.port
            )
        })?;
        Ok(Self { host: self.host.clone(), port })
    }

    /// Parses `host:port`; the host may be empty.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (host, port) = split(text)?;
        Some(Self { host: host.to_owned(), port: parse_port(port?)? })
    }

    /// Whether the address means all interfaces.
    pub fn is_wildcard(&self) -> bool {
        self.host.is_empty() || self.ip().is_some_and(|ip| ip.is_unspecified())
    }

    /// The host if it is an IP address, not a name.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Refuses the IP addresses 0.0.0.0 and ::, as Kafka does for `advertised.listeners`.
    pub(super) fn routable(self, what: &str) -> Result<Self, String> {
        if self.ip().is_some_and(|ip| ip.is_unspecified()) {
            Err(format!(
                "{what}: clients cannot connect to {}, use an address of this host \
                                 or a name",
                self.host
            ))
        } else {
            Ok(self)
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Splits a text into host and port. An IPv6 address is in brackets, or bare if there is no port.
fn split(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        let is_ipv6 = host.split('%').next().is_some_and(|ip| ip.parse::<Ipv6Addr>().is_ok());
        let port = if port.is_empty() { None } else { Some(port.strip_prefix(':')?) };
        return is_ipv6.then_some((host, port));
    }
    match text.rsplit_once(':') {
        _ if text.parse::<Ipv6Addr>().is_ok() => Some((text, None)),
        // It would be a guess where an IPv6 address without brackets ends and the port begins.
        Some((host, _)) if host.contains(':') => None,
        Some((host, port)) => Some((host, Some(port))),
        None => Some((text, None)),
    }
}

/// Parses a port. Port 0 is refused: shards use consecutive ports, so the kernel cannot choose.
fn parse_port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port != 0)
}

fn is_host(text: &str) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    let without_zone = text.split('%').next().unwrap_or_default();
    !text.is_empty() && (text.chars().all(is_of_name) || without_zone.parse::<IpAddr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(address: Result<Address, String>) -> String {
        address.map_or_else(|error| error, |address| address.to_string())
    }

    #[test]
    fn an_address_to_listen_on_is_a_host_and_a_port() {
        for (given, read) in [
            ("127.0.0.1:9092", "127.0.0.1:9092"),
            ("kafka-1.example.org:9092", "kafka-1.example.org:9092"),
            ("[::1]:9092", "[::1]:9092"),
            ("[fe80::1%eth0]:9092", "[fe80::1%eth0]:9092"),
            ("0.0.0.0:9092", "0.0.0.0:9092"),
            (":9092", ":9092"),
            ("*:9092", ":9092"),
        ] {
            assert_eq!(text(Address::of_listen(given)), read);
        }
        for given in [
            "29000",
            "::1:9092",
            "::1:29000",
            "::1",
            "[::1]",
            "a b:1",
            "host:",
            "host:0",
            "host:65536",
        ] {
            let error = Address::of_listen(given).unwrap_err();
            assert!(error.contains(given) && error.contains("[::1]:9092"), "{error}");
        }
        assert!(Address::of_listen(":1").unwrap().is_wildcard());
        assert!(Address::of_listen("[::]:1").unwrap().is_wildcard());
    }

    #[test]
    fn an_advertised_address_is_a_host_with_or_without_a_port() {
        for (given, read) in [
            ("kafka", "kafka:9092"),
            ("kafka:19092", "kafka:19092"),
            ("10.0.0.1", "10.0.0.1:9092"),
            ("10.0.0.1:80", "10.0.0.1:80"),
            ("2001:db8::1", "[2001:db8::1]:9092"),
            ("[2001:db8::1]", "[2001:db8::1]:9092"),
            ("[2001:db8::1]:80", "[2001:db8::1]:80"),
        ] {
            assert_eq!(text(Address::of_advertise(given, 9092)), read);
        }
        for given in [
            "", ":9092", "kafka:", "kafka:x", "kafka:0", "a:1:2", "a b", "http://a", "0.0.0.0",
            "[::]:1",
        ] {
            let error = Address::of_advertise(given, 9092).unwrap_err();
            assert!(error.starts_with(&format!("--advertise {given}: ")), "{error}");
        }
    }

    #[test]
    fn each_shard_has_the_next_port_as_far_as_there_are_ports() {
        let first = Address { host: "::1".to_owned(), port: 65_534 };
        assert_eq!(text(first.of_shard(1)), "[::1]:65535");
        assert!(text(first.of_shard(2)).contains("65536"));
    }
}
