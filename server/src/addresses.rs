//! From what was asked for to where the shards listen, and what clients are told of it.

use crate::config::{Address, Config, Served};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::Path;
use std::thread;
use tracing::warn;

const DEFAULT_LISTENER: &str = "PLAINTEXT";
const DEFAULT_LISTEN: &str = "127.0.0.1:9092";

/// Where a server serves: the command line (`--listen`, `--advertise`) wins over the configs. Clients
/// are told what is advertised; else the host that is listened on; else, of all interfaces, the name of
/// this host, as of Kafka.
///
/// # Errors
/// An address that cannot be.
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
    let mut told = advertised.unwrap_or_else(|| listen.clone());
    if told.is_wildcard() {
        told.host = host_name().map_err(|error| {
            format!("this host has no name to tell clients ({error}): say which with --advertise")
        })?;
    }
    Ok(Served { name, listen, told, data: data.display().to_string() })
}

fn host_name() -> io::Result<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned();
    if name.is_empty() || name == "(none)" { Err(io::ErrorKind::NotFound.into()) } else { Ok(name) }
}

/// The address to listen on. All interfaces are those of both families, where the host has both.
///
/// # Errors
/// The host is not known.
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

/// Warns if clients on other hosts cannot use the address that they are told. A resolver may take long, so it
/// is asked on a thread of its own.
///
/// # Errors
/// There is no thread for it.
pub fn warn_if_unreachable(listen: IpAddr, told: Address) -> io::Result<()> {
    if listen.is_loopback() {
        return Ok(());
    }
    let look = move || {
        if let Some(words) = why_unreachable(&told) {
            warn!(
                "clients are told {told}, {words}: say another address with --advertise HOST[:PORT]"
            );
        }
    };
    thread::Builder::new().name("advertised".to_owned()).spawn(look).map(drop)
}

/// Why clients on other hosts cannot use an address, if that is known here.
fn why_unreachable(told: &Address) -> Option<String> {
    match (told.host.as_str(), told.port).to_socket_addrs() {
        Err(error) => Some(format!("but this host does not know that name ({error})")),
        Ok(mut addresses) => addresses.all(|address| address.ip().is_loopback()).then(|| {
            "a loopback address, at which clients on other hosts do not find this one".to_owned()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(words: &[&str], listen: Option<&str>, advertise: Option<&str>) -> String {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let config = Config::load("", &words).unwrap();
        match served(&config, listen, advertise, Path::new("data")) {
            Ok(served) => format!("{} {}", served.listen, served.told),
            Err(error) => error,
        }
    }

    #[test]
    fn clients_are_told_the_advertised_port_too() {
        let listeners = "listeners=PLAINTEXT://0.0.0.0:29230";
        let advertised = "advertised.listeners=PLAINTEXT://127.0.0.1:29330";
        assert_eq!(told(&[listeners, advertised], None, None), "0.0.0.0:29230 127.0.0.1:29330");
        assert_eq!(told(&[listeners, advertised], Some(":1"), None), ":1 127.0.0.1:29330");
        assert_eq!(told(&[listeners, advertised], None, Some("a")), "0.0.0.0:29230 a:29230");
        assert_eq!(told(&[], Some("h:1"), Some("a:2")), "h:1 a:2");
    }

    #[test]
    fn clients_are_told_what_is_listened_on_if_nothing_is_advertised() {
        assert_eq!(told(&[], None, None), "127.0.0.1:9092 127.0.0.1:9092");
        assert_eq!(told(&[], Some("[::1]:9"), None), "[::1]:9 [::1]:9");
        assert_eq!(told(&[], Some("kafka:9"), None), "kafka:9 kafka:9");
        let name = host_name().unwrap();
        for all in ["0.0.0.0:9", ":9", "[::]:9"] {
            assert_eq!(told(&[], Some(all), None), format!("{all} {name}:9"));
        }
        let words = ["listeners=PLAINTEXT://:9", "advertised.listeners=PLAINTEXT://:10"];
        assert_eq!(told(&words, None, None), format!(":9 {name}:10"));
    }

    #[test]
    fn what_clients_elsewhere_cannot_use_is_found() {
        let address = |host: &str| Address { host: host.to_owned(), port: 9092 };
        assert!(why_unreachable(&address("127.0.0.1")).unwrap().contains("loopback"));
        assert!(why_unreachable(&address("localhost")).is_some());
        assert!(
            why_unreachable(&address("no-such-host.invalid")).unwrap().contains("does not know")
        );
        assert_eq!(why_unreachable(&address("10.1.2.3")), None);
        assert_eq!(why_unreachable(&address("2001:db8::1")), None);
    }
}
