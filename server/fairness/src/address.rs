//! The addresses of clients, which hold the shares.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

/// The address of a client. An IPv6 address is reduced to its /64 network, because a client owns
/// the whole network. All clients whose host is not an IP address count as one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(Option<IpAddr>);

impl Address {
    /// Parses a host as Kafka prints it: a `/` and the address.
    pub fn of(host: &str) -> Self {
        let address = host.strip_prefix('/').and_then(|it| it.parse().ok());
        Self(address.map(|address| match address {
            IpAddr::V6(address) => {
                Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
            }
            IpAddr::V4(_) => address,
        }))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(IpAddr::V6(network)) => write!(f, "{network}/64"),
            Some(address) => write!(f, "{address}"),
            None => f.write_str("an unknown address"),
        }
    }
}
