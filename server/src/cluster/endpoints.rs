//! The addresses of shards, for clients.

use crate::config::ListenerIndex;
use std::sync::Arc;

/// The address at which clients reach a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub host: String,
    pub port: u16,
}

/// The advertised addresses of all shards. Each listener has a list of them, in the order of the
/// shards' numbers.
#[derive(Debug, Clone, Default)]
pub struct Endpoints(Arc<[Box<[Endpoint]>]>);

impl Endpoints {
    pub fn new(of_listeners: impl IntoIterator<Item = Box<[Endpoint]>>) -> Self {
        Self(of_listeners.into_iter().collect())
    }

    /// The addresses for clients of this listener.
    pub fn of(&self, listener: ListenerIndex) -> &[Endpoint] {
        self.0.get(listener.0).map_or(&[], |endpoints| endpoints)
    }
}

/// The addresses of a server with one listener.
impl FromIterator<Endpoint> for Endpoints {
    fn from_iter<I: IntoIterator<Item = Endpoint>>(endpoints: I) -> Self {
        Self::new([endpoints.into_iter().collect()])
    }
}
