//! The ports that the shards need, and the addresses by which clients find them.

use super::Options;
use crate::Failure;
use crate::cluster::{Endpoint, Endpoints};
use crate::config::{Address, ServedListener};

/// The advertised addresses of each shard. Also checks, before anything is changed, that each has
/// its ports to listen on.
pub(super) fn endpoints(options: &Options) -> Result<Endpoints, Failure> {
    let listeners = &options.served.listeners;
    for (place, listener) in listeners.iter().enumerate() {
        let others = &listeners[..place];
        others.iter().try_for_each(|other| check_apart(other, listener, options.shards))?;
    }
    let of_listener = |listener: &ServedListener| {
        let endpoint = |number| {
            listener.listen.of_shard(number)?;
            let Address { host, port } = listener.advertised.of_shard(number)?;
            Ok(Endpoint { host, port })
        };
        (0..options.shards).map(endpoint).collect::<Result<Box<[_]>, Failure>>()
    };
    Ok(Endpoints::new(listeners.iter().map(of_listener).collect::<Result<Vec<_>, _>>()?))
}

/// Checks that the shards need no port twice.
fn check_apart(one: &ServedListener, other: &ServedListener, shards: u32) -> Result<(), Failure> {
    let (a, b) = (&one.listen, &other.listen);
    let share_hosts = a.host == b.host || a.is_wildcard() || b.is_wildcard();
    if share_hosts && u32::from(a.port.abs_diff(b.port)) < shards {
        let (one, other) = (&one.name, &other.name);
        let words = format!(
            "listeners {one} ({a}) and {other} ({b}) need the same ports: each of the {shards} \
             shards has one from the first on, so leave {shards} between them"
        );
        return Err(words.into());
    }
    Ok(())
}
