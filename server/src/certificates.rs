//! The keys and certificates of listeners, and the keys that verify tokens. They are loaded at
//! startup, on SIGHUP, and when a file has changed. Keys from a URL are also fetched at intervals.
//! If new keys or certificates cannot be used, the old ones stay. Clients may alter the
//! certificates of single shards; the altered certificates override the server's configs.

mod listeners;
mod loaded;
mod offline;
mod thread;

pub use offline::refused_offline;
pub(crate) use thread::CertificateThread;

use crate::Failure;
use crate::clock::wall;
use crate::config::{Config, ServedListener, ShardTls};
use crate::mailbox::{Message, Peer, ToController, ToReactor};
use crate::placement::CONTROLLER;
use crate::security::TokenKeys;
use crate::token_keys::{Look, TokenKeySources};
use listeners::ListenerCertificates;
use muster_tls::Tls;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the files are checked for changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// How often the log warns of certificates that expire soon.
const WARN_INTERVAL_SECONDS: i64 = 24 * 60 * 60;

/// The TLS settings of the listeners and their sources.
pub(crate) struct Certificates {
    listeners: ListenerCertificates,
    token_keys: TokenKeySources,
    /// All shards; empty until they have started.
    peers: Vec<Peer>,
    /// The moment from which `elapsed_ms` counts. The times at which token keys are fetched count
    /// from this moment, too.
    began: Instant,
    warned_at: i64,
}

impl Certificates {
    /// Loads the certificates and token keys of all listeners.
    ///
    /// # Errors
    /// A certificate or key cannot be used. The text names listener, config, file and reason.
    pub(crate) fn load(config: &Config, listeners: &[ServedListener]) -> Result<Self, Failure> {
        let now = seconds();
        let began = Instant::now();
        let look = Look { is_asked: true, now: 0, wall: now };
        let token_keys = TokenKeySources::load(config, listeners, look)?;
        let listeners = ListenerCertificates::load(config, listeners, now)?;
        Ok(Self { listeners, token_keys, peers: Vec::new(), began, warned_at: now })
    }

    pub(crate) fn token_keys(&self) -> TokenKeys {
        self.token_keys.of_listeners()
    }

    /// The TLS of each listener as the server's configs set it.
    pub(crate) fn of_listeners(&self) -> Arc<[Option<Tls>]> {
        self.listeners.of_configs()
    }

    /// Keeps the shards' certificates up to date, on a thread of its own.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(self) -> io::Result<CertificateThread> {
        CertificateThread::start(self)
    }

    fn are_needed(&self) -> bool {
        !self.listeners.is_empty() || !self.token_keys.is_empty()
    }

    fn set_peers(&mut self, peers: Vec<Peer>) {
        self.peers = peers;
    }

    /// Loads what has changed, or everything if `is_asked`.
    fn look(&mut self, is_asked: bool) {
        let now = seconds();
        if self.listeners.reload(is_asked, now) {
            self.send_to_all();
        }
        let look = Look { is_asked, now: self.elapsed_ms(), wall: now };
        if self.token_keys.reload(look) {
            let keys = self.token_keys();
            self.peers.iter().for_each(|peer| peer.send(Message::TokenKeys(keys.clone())));
        }
        self.warn(now);
    }

    /// Reports to the controller which of these replacements of certificates cannot be used. If all
    /// can be used, also loads the certificates now in use whose files have changed.
    fn check(&mut self, number: u64, replacements: &[ShardTls]) {
        let now = seconds();
        let refused = self.listeners.refused(replacements, now);
        if refused.is_empty() && self.listeners.reload(false, now) {
            self.send_to_all();
        }
        if let Some(controller) = self.peers.get(CONTROLLER as usize) {
            controller.send(ToController::CertificatesChecked { number, refused });
        }
    }

    /// Applies the certificates that clients have set for a shard.
    fn take(&mut self, order: &ShardTls) {
        let is_new = self.listeners.take(order, seconds());
        if let (true, Some(peer)) = (is_new, self.peers.get(order.shard as usize)) {
            peer.send(ToReactor::Tls(self.listeners.of_shard(order.shard)));
        }
    }

    fn send_to_all(&self) {
        for (shard, peer) in (0..).zip(&self.peers) {
            peer.send(ToReactor::Tls(self.listeners.of_shard(shard)));
        }
    }

    /// The time until the next check of the files or the next fetch of keys.
    fn next_look(&self) -> Duration {
        let until = self.token_keys.next_fetch().map(|at| at.saturating_sub(self.elapsed_ms()));
        let until = until.map(|ms| Duration::from_millis(ms.max(0).unsigned_abs()));
        until.map_or(CHECK_INTERVAL, |until| until.min(CHECK_INTERVAL))
    }

    fn elapsed_ms(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// Warns of certificates that expire soon, at most once per interval.
    fn warn(&mut self, now: i64) {
        if now - self.warned_at >= WARN_INTERVAL_SECONDS {
            self.warned_at = now;
            self.listeners.warn(now);
        }
    }
}

fn seconds() -> i64 {
    wall().0 / 1_000
}
