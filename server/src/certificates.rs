//! The keys and certificates of listeners, and the keys by which tokens are checked: loaded at
//! startup, and again when a file has changed or on SIGHUP. Those that cannot be used leave the old
//! ones in place. Clients may alter those of one shard, in place of what the server's configs say.

mod thread;

pub(crate) use thread::CertificateThread;

use crate::Failure;
use crate::clock::wall;
use crate::config::{Config, ListenerIndex, Replacement, ServedListener, ShardTls};
use crate::file_state::{FileState, state};
use crate::mailbox::{Message, Peer};
use crate::placement::CONTROLLER;
use crate::security::TokenKeys;
use crate::token_keys::{Look, TokenKeySources};
use muster_tls::{LoadError, Settings, Tls};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// The interval in which files are looked at.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The interval in which the log warns of certificates that expire soon.
const WARN_INTERVAL_SECONDS: i64 = 24 * 60 * 60;

/// The TLS of the listeners, and what it was loaded from.
pub(crate) struct Certificates {
    listeners: Vec<Option<Loaded>>,
    /// In place of those, where clients have altered them: by shard and listener.
    altered: BTreeMap<(u32, usize), Loaded>,
    token_keys: TokenKeySources,
    /// The shards, once they have started.
    peers: Vec<Peer>,
    /// Fetches are timed from here.
    began: Instant,
    warned_at: i64,
}

struct Loaded {
    /// The listener.
    name: String,
    settings: Settings,
    /// None if a client has set what could not be used since: that of the server's configs is.
    tls: Option<Tls>,
    files: Vec<FileState>,
}

impl Certificates {
    /// Loads those of all listeners with TLS or tokens.
    ///
    /// # Errors
    /// One cannot be used: the text names listener, config, file and reason.
    pub(crate) fn load(config: &Config, listeners: &[ServedListener]) -> Result<Self, Failure> {
        let now = seconds();
        let load = |listener: &ServedListener| {
            let is_encrypted = listener.protocol.is_encrypted();
            let settings = is_encrypted.then(|| config.tls_settings(&listener.name));
            let loaded = settings.map(|it| Loaded::load(&listener.name, it, now)).transpose();
            loaded.map_err(|error| format!("listener {}: {error}", listener.name))
        };
        let began = Instant::now();
        let look = Look { is_asked: true, now: 0, wall: now };
        let token_keys = TokenKeySources::load(config, listeners, look)?;
        let listeners = listeners.iter().map(load).collect::<Result<_, String>>()?;
        let (altered, peers) = (BTreeMap::new(), Vec::new());
        Ok(Self { listeners, altered, token_keys, peers, began, warned_at: now })
    }

    pub(crate) fn token_keys(&self) -> TokenKeys {
        self.token_keys.of_listeners()
    }

    /// The TLS of each listener by the server's configs.
    pub(crate) fn of_listeners(&self) -> Arc<[Option<Tls>]> {
        let tls = |loaded: &Option<Loaded>| loaded.as_ref()?.tls.clone();
        self.listeners.iter().map(tls).collect()
    }

    /// Keeps the shards' certificates up to date, on a thread of its own.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(self) -> io::Result<CertificateThread> {
        CertificateThread::start(self)
    }

    fn are_needed(&self) -> bool {
        self.listeners.iter().any(Option::is_some) || !self.token_keys.is_empty()
    }

    fn set_peers(&mut self, peers: Vec<Peer>) {
        self.peers = peers;
    }

    /// The TLS of each listener of a shard.
    fn of_shard(&self, shard: u32) -> Arc<[Option<Tls>]> {
        (0..self.listeners.len()).map(|at| self.used(shard, at).cloned()).collect()
    }

    /// The TLS of a listener of a shard.
    fn used(&self, shard: u32, at: usize) -> Option<&Tls> {
        let altered = self.altered.get(&(shard, at)).and_then(|it| it.tls.as_ref());
        let fixed = self.listeners.get(at).and_then(Option::as_ref);
        altered.or(fixed.and_then(|it| it.tls.as_ref()))
    }

    /// Loads what has changed, or all.
    fn look(&mut self, is_asked: bool) {
        let now = seconds();
        if self.reload(is_asked, now) {
            self.send_to_all();
        }
        let look = Look { is_asked, now: self.elapsed_ms(), wall: now };
        if self.token_keys.reload(look) {
            let keys = self.token_keys();
            self.peers.iter().for_each(|peer| peer.send(Message::TokenKeys(keys.clone())));
        }
        self.warn(now);
    }

    /// Answers the controller which of these cannot be used. Files of those that are in use already
    /// are loaded again if they have changed.
    fn check(&mut self, number: u64, replacements: &[ShardTls]) {
        let now = seconds();
        let why = |of: &ShardTls| {
            let mut errors =
                of.replacements.iter().filter_map(|it| self.refused(of.shard, it, now));
            errors.next().map(|why| (of.shard, why))
        };
        let refused: BTreeMap<u32, String> = replacements.iter().filter_map(why).collect();
        if refused.is_empty() && self.reload(false, now) {
            self.send_to_all();
        }
        if let Some(controller) = self.peers.get(CONTROLLER as usize) {
            controller.send(Message::CertificatesChecked { number, refused });
        }
    }

    /// Why a listener of a shard cannot have this TLS in place of its own.
    fn refused(&self, shard: u32, replacement: &Replacement, now: i64) -> Option<String> {
        let Replacement { listener: ListenerIndex(at), settings } = replacement;
        let name = &self.listeners.get(*at)?.as_ref()?.name;
        let error = settings.load_instead(self.used(shard, *at)?, now).err()?;
        Some(format!("listener {name}: {error}"))
    }

    /// Takes over what clients have altered. What cannot be loaded leaves that which is in use.
    fn take(&mut self, order: &ShardTls) {
        let (shard, now) = (order.shard, seconds());
        let is_altered = |at: usize| order.replacements.iter().any(|it| it.listener.0 == at);
        let before = self.altered.len();
        self.altered.retain(|(of, at), _| *of != shard || is_altered(*at));
        let mut is_new = self.altered.len() < before;
        for replacement in &order.replacements {
            is_new |= self.replace(shard, replacement, now);
        }
        if let (true, Some(peer)) = (is_new, self.peers.get(shard as usize)) {
            peer.send(Message::Tls(self.of_shard(shard)));
        }
    }

    /// Returns whether the listener has another TLS.
    fn replace(&mut self, shard: u32, replacement: &Replacement, now: i64) -> bool {
        let Replacement { listener: ListenerIndex(at), settings } = replacement;
        let Some(Some(fixed)) = self.listeners.get(*at) else { return false };
        if self.altered.get(&(shard, *at)).is_some_and(|it| it.settings == *settings) {
            return false;
        }
        let name = fixed.name.clone();
        let files = states(settings);
        let before = self.altered.remove(&(shard, *at)).and_then(|it| it.tls);
        let loaded = Loaded::load(&name, settings.clone(), now);
        match &loaded {
            Ok(_) => {
                info!("listener {name} of shard {shard} has the certificate that a client has set");
            }
            Err(error) => warn!(
                "listener {name} of shard {shard} keeps its certificate, as the one that a client \
                 has set is bad: {error}"
            ),
        }
        let is_new = loaded.is_ok();
        let kept = || Loaded { name, settings: settings.clone(), tls: before, files };
        self.altered.insert((shard, *at), loaded.unwrap_or_else(|_| kept()));
        is_new
    }

    fn send_to_all(&self) {
        for (shard, peer) in (0..).zip(&self.peers) {
            peer.send(Message::Tls(self.of_shard(shard)));
        }
    }

    /// The time until files are looked at again, or keys are to be fetched.
    fn next_look(&self) -> Duration {
        let until = self.token_keys.next_fetch().map(|at| at.saturating_sub(self.elapsed_ms()));
        let until = until.map(|ms| Duration::from_millis(ms.max(0).unsigned_abs()));
        until.map_or(CHECK_INTERVAL, |until| until.min(CHECK_INTERVAL))
    }

    fn elapsed_ms(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// Loads those again whose files have changed, or all. Returns whether there are new ones.
    fn reload(&mut self, all: bool, now: i64) -> bool {
        let loaded = self.listeners.iter_mut().flatten().chain(self.altered.values_mut());
        loaded.filter_map(|loaded| loaded.reload(all, now).then_some(())).count() > 0
    }

    /// Warns of certificates that expire soon, from time to time.
    fn warn(&mut self, now: i64) {
        if now - self.warned_at < WARN_INTERVAL_SECONDS {
            return;
        }
        self.warned_at = now;
        for loaded in self.listeners.iter().flatten().chain(self.altered.values()) {
            let tls = loaded.tls.as_ref();
            if let Some(warning) = tls.and_then(|tls| tls.expiry_warning(now)) {
                warn!("listener {}: {warning}", loaded.name);
            }
        }
    }
}

impl Loaded {
    fn load(listener: &str, settings: Settings, now: i64) -> Result<Self, LoadError> {
        let files = states(&settings);
        let tls = settings.load(now)?;
        tls.warnings.iter().for_each(|warning| warn!("listener {listener}: {warning}"));
        Ok(Self { name: listener.to_owned(), settings, tls: Some(tls), files })
    }

    /// A file that is being written may be incomplete: the next look finds it changed again.
    fn reload(&mut self, is_asked: bool, now: i64) -> bool {
        let files = states(&self.settings);
        if !is_asked && files == self.files {
            return false;
        }
        self.files = files;
        let listener = &self.name;
        match self.settings.load(now) {
            Ok(tls) => {
                tls.warnings.iter().for_each(|warning| warn!("listener {listener}: {warning}"));
                info!("listener {listener}: loaded its certificate again, for new connections");
                self.tls = Some(tls);
                true
            }
            Err(error) => {
                warn!("listener {listener} keeps its certificate, as the new one is bad: {error}");
                false
            }
        }
    }
}

fn states(settings: &Settings) -> Vec<FileState> {
    settings.files().map(|path| state(path)).collect()
}

fn seconds() -> i64 {
    wall().0 / 1_000
}
