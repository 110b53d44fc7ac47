//! The TLS of all listeners: from the server's configs, or from what clients have set instead.

use super::loaded::Loaded;
use crate::config::{Config, ListenerIndex, Replacement, ServedListener, ShardTls};
use muster_tls::Tls;
use std::collections::BTreeMap;
use std::sync::Arc;
use tracing::{info, warn};

pub(super) struct ListenerCertificates {
    listeners: Vec<Option<Loaded>>,
    /// Certificates that clients have set in place of those of the configs, by shard and listener.
    altered: BTreeMap<(u32, usize), Loaded>,
}

impl ListenerCertificates {
    /// Loads the certificates of all listeners with TLS. `now` is in seconds since 1970, here and
    /// below.
    ///
    /// # Errors
    /// A certificate cannot be used. The text names listener, config, file and reason.
    pub(super) fn load(
        config: &Config,
        listeners: &[ServedListener],
        now: i64,
    ) -> Result<Self, String> {
        let load = |listener: &ServedListener| {
            let is_encrypted = listener.protocol.is_encrypted();
            let settings = is_encrypted.then(|| config.tls_settings(&listener.name));
            let loaded = settings.map(|it| Loaded::load(&listener.name, it, now)).transpose();
            loaded.map_err(|error| format!("listener {}: {error}", listener.name))
        };
        let listeners = listeners.iter().map(load).collect::<Result<_, _>>()?;
        Ok(Self { listeners, altered: BTreeMap::new() })
    }

    /// Whether no listener has TLS.
    pub(super) fn is_empty(&self) -> bool {
        !self.listeners.iter().any(Option::is_some)
    }

    /// The TLS of each listener as the server's configs set it.
    pub(super) fn of_configs(&self) -> Arc<[Option<Tls>]> {
        let tls = |loaded: &Option<Loaded>| loaded.as_ref()?.tls.clone();
        self.listeners.iter().map(tls).collect()
    }

    /// The TLS of each listener of a shard.
    pub(super) fn of_shard(&self, shard: u32) -> Arc<[Option<Tls>]> {
        (0..self.listeners.len()).map(|at| self.used(shard, at).cloned()).collect()
    }

    /// The TLS that a shard's listener uses: what clients have set, else what the configs set.
    fn used(&self, shard: u32, at: usize) -> Option<&Tls> {
        let altered = self.altered.get(&(shard, at)).and_then(|it| it.tls.as_ref());
        let fixed = self.listeners.get(at).and_then(Option::as_ref);
        altered.or(fixed.and_then(|it| it.tls.as_ref()))
    }

    /// Clients want to set these certificates. Returns the shards that could not use theirs, each
    /// with the first reason.
    pub(super) fn refused(&self, all: &[ShardTls], now: i64) -> BTreeMap<u32, String> {
        let why = |of: &ShardTls| {
            let mut errors = of.replacements.iter().filter_map(|it| self.why(of.shard, it, now));
            errors.next().map(|why| (of.shard, why))
        };
        all.iter().filter_map(why).collect()
    }

    /// The reason why a listener of a shard cannot use a replacement of its certificate.
    fn why(&self, shard: u32, replacement: &Replacement, now: i64) -> Option<String> {
        let Replacement { listener: ListenerIndex(at), settings } = replacement;
        let name = &self.listeners.get(*at)?.as_ref()?.listener;
        let error = settings.load_instead(self.used(shard, *at)?, now).err()?;
        Some(format!("listener {name}: {error}"))
    }

    /// Applies the certificates that clients have set for a shard, and returns whether the TLS of
    /// one of its listeners changed. If a certificate cannot be loaded, the listener keeps its
    /// present one.
    pub(super) fn take(&mut self, order: &ShardTls, now: i64) -> bool {
        let shard = order.shard;
        let is_altered = |at: usize| order.replacements.iter().any(|it| it.listener.0 == at);
        let before = self.altered.len();
        self.altered.retain(|(of, at), _| *of != shard || is_altered(*at));
        let mut is_new = self.altered.len() < before;
        for replacement in &order.replacements {
            is_new |= self.replace(shard, replacement, now);
        }
        is_new
    }

    /// Applies a replacement, and returns whether the listener's TLS changed.
    fn replace(&mut self, shard: u32, replacement: &Replacement, now: i64) -> bool {
        let Replacement { listener: ListenerIndex(at), settings } = replacement;
        let Some(Some(fixed)) = self.listeners.get(*at) else { return false };
        if self.altered.get(&(shard, *at)).is_some_and(|it| it.settings == *settings) {
            return false;
        }
        let name = fixed.listener.clone();
        let before = self.altered.remove(&(shard, *at)).and_then(|it| it.tls);
        let (loaded, outcome) = Loaded::load_or_keep(&name, settings.clone(), before, now);
        match &outcome {
            Ok(()) => {
                info!("listener {name} of shard {shard} has the certificate that a client has set");
            }
            Err(error) => warn!(
                "listener {name} of shard {shard} keeps its certificate, as the one that a client \
                 has set is bad: {error}"
            ),
        }
        self.altered.insert((shard, *at), loaded);
        outcome.is_ok()
    }

    /// Loads the certificates whose files have changed, or all. Returns whether any is new.
    pub(super) fn reload(&mut self, all: bool, now: i64) -> bool {
        let loaded = self.listeners.iter_mut().flatten().chain(self.altered.values_mut());
        loaded.filter_map(|loaded| loaded.reload(all, now).then_some(())).count() > 0
    }

    /// Warns of certificates that expire soon.
    pub(super) fn warn(&self, now: i64) {
        self.listeners.iter().flatten().chain(self.altered.values()).for_each(|it| it.warn(now));
    }
}
