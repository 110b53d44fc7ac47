//! The keys and certificates of listeners, and the keys by which tokens are checked: loaded at
//! startup, and again when a file has changed or on SIGHUP. Those that cannot be used leave the old
//! ones in place.

use crate::Failure;
use crate::clock::wall;
use crate::config::{Config, ServedListener};
use crate::file_state::{FileState, state};
use crate::reactor::Peer;
use crate::security::TokenKeys;
use crate::shard::Message;
use crate::token_keys::{Look, TokenKeySources};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use muster_tls::{Settings, Tls};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// The interval in which files are looked at.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The interval in which the log warns of certificates that expire soon.
const WARN_INTERVAL_SECONDS: i64 = 24 * 60 * 60;

/// The TLS of the listeners, and what it was loaded from.
pub(crate) struct Certificates {
    listeners: Vec<Option<Loaded>>,
    token_keys: TokenKeySources,
    /// Fetches are timed from here.
    began: Instant,
    warned_at: i64,
}

struct Loaded {
    /// The listener.
    name: String,
    settings: Settings,
    tls: Tls,
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
            is_encrypted.then(|| Loaded::load(config, &listener.name, now)).transpose()
        };
        let began = Instant::now();
        let look = Look { is_asked: true, now: 0, wall: now };
        let token_keys = TokenKeySources::load(config, listeners, look)?;
        let listeners = listeners.iter().map(load).collect::<Result<_, Failure>>()?;
        Ok(Self { listeners, token_keys, began, warned_at: now })
    }

    pub(crate) fn token_keys(&self) -> TokenKeys {
        self.token_keys.of_listeners()
    }

    pub(crate) fn of_listeners(&self) -> Arc<[Option<Tls>]> {
        let tls = |loaded: &Option<Loaded>| loaded.as_ref().map(|it| it.tls.clone());
        self.listeners.iter().map(tls).collect()
    }

    /// Keeps the shards' certificates up to date, on a thread that ends with the process. A message
    /// to the returned sender makes it load all again.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn watch(self, peers: Vec<Peer>) -> io::Result<Sender<()>> {
        let (sender, receiver) = bounded(1);
        if self.listeners.iter().any(Option::is_some) || !self.token_keys.is_empty() {
            let watch = move || self.keep_watching(&receiver, &peers);
            thread::Builder::new().name("certificates".to_owned()).spawn(watch)?;
        }
        Ok(sender)
    }

    fn keep_watching(mut self, receiver: &Receiver<()>, peers: &[Peer]) {
        loop {
            let is_asked = match receiver.recv_timeout(self.next_look()) {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let now = seconds();
            if self.reload(is_asked, now) {
                let of_listeners = self.of_listeners();
                peers.iter().for_each(|peer| peer.send(Message::Tls(of_listeners.clone())));
            }
            let look = Look { is_asked, now: self.elapsed_ms(), wall: now };
            if self.token_keys.reload(look) {
                let keys = self.token_keys();
                peers.iter().for_each(|peer| peer.send(Message::TokenKeys(keys.clone())));
            }
            self.warn(now);
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
        let loaded = self.listeners.iter_mut().flatten();
        loaded.filter_map(|loaded| loaded.reload(all, now).then_some(())).count() > 0
    }

    /// Warns of certificates that expire soon, from time to time.
    fn warn(&mut self, now: i64) {
        if now - self.warned_at < WARN_INTERVAL_SECONDS {
            return;
        }
        self.warned_at = now;
        for loaded in self.listeners.iter().flatten() {
            if let Some(warning) = loaded.tls.expiry_warning(now) {
                warn!("listener {}: {warning}", loaded.name);
            }
        }
    }
}

impl Loaded {
    fn load(config: &Config, listener: &str, now: i64) -> Result<Self, Failure> {
        let settings = config.tls_settings(listener);
        let files = states(&settings);
        let tls = settings.load(now).map_err(|error| format!("listener {listener}: {error}"))?;
        tls.warnings.iter().for_each(|warning| warn!("listener {listener}: {warning}"));
        Ok(Self { name: listener.to_owned(), settings, tls, files })
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
                self.tls = tls;
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
