//! The addresses of a node for clients, as its hello to other nodes has them.
//!
//! Each listener has its name, the advertised host of its shards, and the port of shard 0. The
//! other shards have the next ports. In bytes: the length of the name, the name, the length of the
//! host, the host, and the port, where a length is one byte and a port two.

use super::endpoints::{Endpoint, Endpoints};
use muster_codec::wire::Reader;

/// The addresses of a listener's shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerAddress {
    pub name: String,
    /// The address of shard 0.
    pub first: Endpoint,
}

/// Writes the first addresses, as many as fit in this number of bytes. Names and hosts of more than
/// 255 bytes are left out: no host name is as long.
pub fn write_addresses(addresses: &[ListenerAddress], bytes_max: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for ListenerAddress { name, first } in addresses {
        let lengths = (u8::try_from(name.len()), u8::try_from(first.host.len()));
        let (Ok(of_name), Ok(of_host)) = lengths else { continue };
        if out.len() + name.len() + first.host.len() + 4 > bytes_max {
            break;
        }
        out.push(of_name);
        out.extend(name.as_bytes());
        out.push(of_host);
        out.extend(first.host.as_bytes());
        out.extend(first.port.to_be_bytes());
    }
    out
}

/// The addresses of a node's shards on the listeners with these names. A listener that the node
/// does not have has none. None if the bytes are no addresses.
pub fn endpoints_of<'n>(
    bytes: &[u8],
    shards: u32,
    listeners: impl Iterator<Item = &'n str>,
) -> Option<Endpoints> {
    let addresses = read_addresses(bytes)?;
    let of = |name: &str| {
        let first = addresses.iter().find(|it| it.name == name).map(|it| &it.first);
        first.map_or_else(Box::default, |first| of_shards(first, shards))
    };
    Some(Endpoints::new(listeners.map(of)))
}

fn of_shards(first: &Endpoint, shards: u32) -> Box<[Endpoint]> {
    let ports = (first.port..=u16::MAX).take(shards as usize);
    ports.map(|port| Endpoint { host: first.host.clone(), port }).collect()
}

fn read_addresses(bytes: &[u8]) -> Option<Vec<ListenerAddress>> {
    let mut reader = Reader::new(bytes);
    let mut addresses = Vec::new();
    while reader.remaining() > 0 {
        let name = text(&mut reader)?;
        let host = text(&mut reader)?;
        let port = reader.array().map(u16::from_be_bytes).ok()?;
        addresses.push(ListenerAddress { name, first: Endpoint { host, port } });
    }
    Some(addresses)
}

fn text(reader: &mut Reader<'_>) -> Option<String> {
    let length = usize::from(reader.u8().ok()?);
    String::from_utf8(reader.take(length).ok()?.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(name: &str, host: &str, port: u16) -> ListenerAddress {
        ListenerAddress { name: name.to_owned(), first: Endpoint { host: host.to_owned(), port } }
    }

    fn written() -> Vec<u8> {
        write_addresses(&[address("PLAINTEXT", "a", 9092), address("SSL", "b.example", 65535)], 99)
    }

    #[test]
    fn shards_have_the_next_ports_on_each_listener_that_the_node_has() {
        let names = ["SSL", "OTHER", "PLAINTEXT"];
        let found = endpoints_of(&written(), 2, names.into_iter()).unwrap();
        let of = |at| found.of(crate::config::ListenerIndex(at)).to_vec();
        let endpoint = |host: &str, port| Endpoint { host: host.to_owned(), port };
        // There is no port after the last one.
        assert_eq!(of(0), [endpoint("b.example", 65535)]);
        assert_eq!(of(1), []);
        assert_eq!(of(2), [endpoint("a", 9092), endpoint("a", 9093)]);
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let long = "h".repeat(256);
        let addresses = [address("A", &long, 1), address("B", "b", 2), address("C", "c", 3)];
        let found = read_addresses(&write_addresses(&addresses, 6)).unwrap();
        assert_eq!(found, [address("B", "b", 2)]);
    }

    #[test]
    fn cut_addresses_are_none() {
        let whole = written();
        let first = "PLAINTEXT".len() + "a".len() + 4;
        for length in (0..whole.len()).filter(|it| ![0, first].contains(it)) {
            assert!(read_addresses(&whole[..length]).is_none(), "{length} bytes");
        }
        assert!(read_addresses(&[1, 0xff, 1, b'a', 0, 1]).is_none());
    }
}
