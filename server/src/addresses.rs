//! The addresses that the first shard listens on, and those that clients connect to: both come from
//! the configs and the command line. `Address::of_shard` derives the addresses of the other shards
//! from these.

use crate::config::{Address, Config, Listener, Served, ServedListener};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::Path;
use std::thread;
use tracing::warn;

/// The addresses of a server. The command line (`--listen`, `--advertise`) overrides the configs.
/// Clients connect to the advertised address of a listener. A listener without an advertised
/// address is advertised with the address that it listens on. As in Kafka, the name of this host
/// takes the place of an address that means all interfaces.
///
/// # Errors
/// An address is invalid, a command-line option is given for a server with several listeners, or
/// the name of this host is needed and unknown.
pub fn served(
    config: &Config,
    listen: Option<&str>,
    advertise: Option<&str>,
    data: &Path,
) -> Result<Served, String> {
    let mut listeners = config.client_listeners()?;
    if let Some(text) = listen {
        only(&mut listeners, "--listen")?.address = Address::of_listen(text)?;
    }
    let mut advertised = config.advertised_client_listeners()?;
    if let Some(text) = advertise {
        let listener = only(&mut listeners, "--advertise")?.clone();
        let address = Address::of_advertise(text, listener.address.port)?;
        advertised = vec![Listener { address, ..listener }];
    }
    let listeners = listeners.into_iter().map(|listener| with_advertised(listener, &advertised));
    Ok(Served { listeners: listeners.collect::<Result<_, _>>()?, data: data.display().to_string() })
}

/// The only listener of the server. `argument` is the command-line option that requires it.
fn only<'l>(listeners: &'l mut [Listener], argument: &str) -> Result<&'l mut Listener, String> {
    match listeners {
        [listener] => Ok(listener),
        all => Err(format!(
            "{argument} is for a server with one listener, and listeners names {}: set listeners \
             and advertised.listeners",
            all.len()
        )),
    }
}

/// Adds the advertised address of a listener: the address in `advertised`, else the address that it
/// listens on. The name of this host takes the place of an address that means all interfaces.
fn with_advertised(listener: Listener, advertised: &[Listener]) -> Result<ServedListener, String> {
    let Listener { name, protocol, address: listen } = listener;
    let found = advertised.iter().find(|it| it.name.eq_ignore_ascii_case(&name));
    let mut advertised = found.map_or_else(|| listen.clone(), |it| it.address.clone());
    if advertised.is_wildcard() {
        advertised.host = host_name().map_err(|error| {
            format!("this host has no name for clients ({error}): set one with --advertise")
        })?;
    }
    Ok(ServedListener { name, protocol, listen, advertised })
}

fn host_name() -> io::Result<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned();
    if name.is_empty() || name == "(none)" { Err(io::ErrorKind::NotFound.into()) } else { Ok(name) }
}

/// The socket address to listen on. An empty host means all interfaces: IPv6 and IPv4 if the
/// machine has IPv6, else IPv4.
///
/// # Errors
/// The host is unknown.
pub fn resolve(listen: &Address) -> Result<SocketAddr, String> {
    if listen.host.is_empty() {
        let has_ipv6 = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok();
        let ip = if has_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        return Ok(SocketAddr::new(ip, listen.port));
    }
    let addresses = (listen.host.as_str(), listen.port).to_socket_addrs();
    let mut addresses = addresses.map_err(|error| format!("cannot listen on {listen}: {error}"))?;
    addresses.next().ok_or_else(|| format!("cannot listen on {listen}: no such address"))
}

/// Warns if clients on other hosts cannot use the advertised address. There is no warning if the
/// server listens on a loopback address. Name resolution may be slow, so it runs on its own thread.
///
/// # Errors
/// No thread can be started.
pub fn warn_if_unreachable(listen: IpAddr, advertised: Address) -> io::Result<()> {
    if listen.is_loopback() {
        return Ok(());
    }
    let look = move || {
        if let Some(words) = why_unreachable(&advertised) {
            warn!(
                "clients connect to {advertised}, {words}: set another address with --advertise \
                 HOST[:PORT]"
            );
        }
    };
    thread::Builder::new().name("advertised".to_owned()).spawn(look).map(drop)
}

/// The reason why clients on other hosts cannot use an address; None if the address looks usable.
fn why_unreachable(advertised: &Address) -> Option<String> {
    match (advertised.host.as_str(), advertised.port).to_socket_addrs() {
        Err(error) => Some(format!("a name that this host cannot resolve ({error})")),
        Ok(mut addresses) => addresses
            .all(|address| address.ip().is_loopback())
            .then(|| "a loopback address, which clients on other hosts cannot use".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(words: &[&str], listen: Option<&str>, advertise: Option<&str>) -> String {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let config = Config::load("", &words).unwrap();
        match served(&config, listen, advertise, Path::new("data")) {
            Ok(served) => {
                let text = |it: &ServedListener| format!("{} {}", it.listen, it.advertised);
                served.listeners.iter().map(text).collect::<Vec<_>>().join(", ")
            }
            Err(error) => error,
        }
    }

    #[test]
    fn advertised_ports_are_used_as_given() {
        let listeners = "listeners=PLAINTEXT://0.0.0.0:29230";
        let advertised = "advertised.listeners=PLAINTEXT://127.0.0.1:29330";
        assert_eq!(
            addresses(&[listeners, advertised], None, None),
            "0.0.0.0:29230 127.0.0.1:29330"
        );
        assert_eq!(addresses(&[listeners, advertised], Some(":1"), None), ":1 127.0.0.1:29330");
        assert_eq!(addresses(&[listeners, advertised], None, Some("a")), "0.0.0.0:29230 a:29230");
        assert_eq!(addresses(&[], Some("h:1"), Some("a:2")), "h:1 a:2");
    }

    #[test]
    fn the_listener_is_advertised_by_default() {
        assert_eq!(addresses(&[], None, None), "127.0.0.1:9092 127.0.0.1:9092");
        assert_eq!(addresses(&[], Some("[::1]:9"), None), "[::1]:9 [::1]:9");
        assert_eq!(addresses(&[], Some("kafka:9"), None), "kafka:9 kafka:9");
        let name = host_name().unwrap();
        for all in ["0.0.0.0:9", ":9", "[::]:9"] {
            assert_eq!(addresses(&[], Some(all), None), format!("{all} {name}:9"));
        }
        let words = ["listeners=PLAINTEXT://:9", "advertised.listeners=PLAINTEXT://:10"];
        assert_eq!(addresses(&words, None, None), format!(":9 {name}:10"));
    }

    #[test]
    fn each_listener_has_an_address_for_its_clients() {
        let listeners = "listeners=INSIDE://127.0.0.1:1,OUTSIDE://0.0.0.0:5,CONTROLLER://:9";
        let rest = [
            "listener.security.protocol.map=inside:PLAINTEXT, OUTSIDE:plaintext",
            "controller.listener.names=CONTROLLER",
            "advertised.listeners=OUTSIDE://kafka:15",
        ];
        let words = [&[listeners], &rest[..]].concat();
        assert_eq!(
            addresses(&words, None, None),
            "127.0.0.1:1 127.0.0.1:1, 0.0.0.0:5 kafka:15",
            "one that is not advertised has its own address"
        );
        for (listen, advertise) in [(Some(":1"), None), (None, Some("a"))] {
            let refused = addresses(&words, listen, advertise);
            assert!(refused.contains("is for a server with one listener"), "{refused}");
        }
    }

    #[test]
    fn addresses_that_other_hosts_cannot_use_are_recognised() {
        let address = |host: &str| Address { host: host.to_owned(), port: 9092 };
        assert!(why_unreachable(&address("127.0.0.1")).unwrap().contains("loopback"));
        assert!(why_unreachable(&address("localhost")).is_some());
        assert!(
            why_unreachable(&address("no-such-host.invalid")).unwrap().contains("cannot resolve")
        );
        assert_eq!(why_unreachable(&address("10.1.2.3")), None);
        assert_eq!(why_unreachable(&address("2001:db8::1")), None);
    }
}
