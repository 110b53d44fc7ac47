//! The addresses that shards listen on and those that clients connect to, from configs and
//! arguments.

use crate::config::{Address, Config, Served};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::Path;
use std::thread;
use tracing::warn;

const DEFAULT_LISTENER: &str = "PLAINTEXT";
const DEFAULT_LISTEN: &str = "127.0.0.1:9092";

/// The addresses of a server: the command line (`--listen`, `--advertise`) wins over the configs.
/// Clients get the advertised address; else the host that is listened on, or for all interfaces the
/// name of this host, as in Kafka.
///
/// # Errors
/// An address is invalid.
pub fn served(
    config: &Config,
    listen: Option<&str>,
    advertise: Option<&str>,
    data: &Path,
) -> Result<Served, String> {
    let listener = config.listener()?;
    let name = listener.as_ref().map_or(DEFAULT_LISTENER, |it| it.name.as_str()).to_owned();
    let listen = match (listen, listener) {
        (Some(text), _) => Address::of_listen(text)?,
        (None, Some(listener)) => listener.address,
        (None, None) => Address::of_listen(DEFAULT_LISTEN)?,
    };
    let advertised = match advertise {
        Some(text) => Some(Address::of_advertise(text, listen.port)?),
        None => config.advertised_listener()?.map(|listener| listener.address),
    };
    let mut advertised = advertised.unwrap_or_else(|| listen.clone());
    if advertised.is_wildcard() {
        advertised.host = host_name().map_err(|error| {
            format!("this host has no name for clients ({error}): set one with --advertise")
        })?;
    }
    Ok(Served { name, listen, advertised, data: data.display().to_string() })
}

fn host_name() -> io::Result<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned();
    if name.is_empty() || name == "(none)" { Err(io::ErrorKind::NotFound.into()) } else { Ok(name) }
}

/// The address to listen on. No host stands for all interfaces, of both families where the host has
/// both.
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

/// Warns if clients on other hosts cannot use the advertised address. A resolver may take long, so
/// it runs on a thread of its own.
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

/// The reason why clients on other hosts cannot use an address; None if this host knows of none.
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
            Ok(served) => format!("{} {}", served.listen, served.advertised),
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
