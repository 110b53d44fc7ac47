//! The keys with which listeners verify tokens (`sasl.oauthbearer.jwks.endpoint.url`). They come
//! from files or over HTTPS.

use crate::Failure;
use crate::config::{Config, KeysSource, ListenerSecurity, ServedListener};
use crate::file_state::{FileState, state};
use crate::key_fetcher::{KEYS_BYTES_MAX, KeysUrl};
use crate::security::{Jwks, TokenKeys};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use tracing::{info, warn};

/// The keys of the listeners and their sources.
pub(crate) struct TokenKeySources(Vec<Option<Loaded>>);

struct Loaded {
    listener: String,
    place: Place,
    keys: Arc<Jwks>,
}

enum Place {
    File { file: std::path::PathBuf, state: FileState },
    Https { url: KeysUrl, bytes: Vec<u8>, next_at: i64, failures: u32 },
}

/// The time and kind of a check of the sources.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    /// Whether the check was asked for, for example by SIGHUP. If so, all keys are loaded, even if
    /// they have not changed.
    pub(crate) is_asked: bool,
    /// Monotonic, in ms.
    pub(crate) now: i64,
    /// In seconds since 1970.
    pub(crate) wall: i64,
}

impl TokenKeySources {
    /// Loads the keys of all listeners with OAUTHBEARER.
    ///
    /// # Errors
    /// Keys cannot be used. The text names listener, source and reason.
    pub(crate) fn load(
        config: &Config,
        listeners: &[ServedListener],
        look: Look,
    ) -> Result<Self, Failure> {
        let securities = ListenerSecurity::of_all(config);
        let has_tokens = |name: &str| {
            let sasl = securities.iter().find(|it| it.name == name).and_then(|it| it.sasl.as_ref());
            sasl.is_some_and(|sasl| sasl.bearer.is_some())
        };
        let load = |listener: &ServedListener| {
            let load = || Loaded::load(config, &listener.name, look);
            has_tokens(&listener.name).then(load).transpose()
        };
        Ok(Self(listeners.iter().map(load).collect::<Result<_, Failure>>()?))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    pub(crate) fn of_listeners(&self) -> TokenKeys {
        self.0.iter().map(|loaded| loaded.as_ref().map(|it| Arc::clone(&it.keys))).collect()
    }

    /// Loads again the keys that may have changed, or all keys. Returns whether any keys are new.
    pub(crate) fn reload(&mut self, look: Look) -> bool {
        let loaded = self.0.iter_mut().flatten();
        loaded.filter_map(|loaded| loaded.reload(look).then_some(())).count() > 0
    }

    /// When keys must be fetched next, in monotonic ms.
    pub(crate) fn next_fetch(&self) -> Option<i64> {
        let times = self.0.iter().flatten().filter_map(|loaded| match loaded.place {
            Place::Https { next_at, .. } => Some(next_at),
            Place::File { .. } => None,
        });
        times.min()
    }
}

impl Loaded {
    fn load(config: &Config, listener: &str, look: Look) -> Result<Self, Failure> {
        let named = |why: String| format!("listener {listener}: {why}");
        let (place, keys) = match config.token_keys_source(listener).map_err(named)? {
            KeysSource::File(file) => {
                let state = state(&file);
                let keys = parse(&file.display().to_string(), &read(&file).map_err(named)?);
                (Place::File { file, state }, keys)
            }
            KeysSource::Https(url) => {
                let bytes = url.fetch(look.wall).map_err(named)?;
                let keys = parse(&url.url, &bytes);
                let next_at = look.now.saturating_add(url.wait_ms(0));
                (Place::Https { url, bytes, next_at, failures: 0 }, keys)
            }
        };
        let keys = keys.map_err(named)?;
        info!("listener {listener}: {} keys for tokens from {}", keys.len(), place.name());
        Ok(Self { listener: listener.to_owned(), place, keys: keys.into() })
    }

    /// Loads the keys again. If the new keys are invalid, or are the same as before, returns false
    /// and keeps the old keys.
    fn reload(&mut self, look: Look) -> bool {
        let Some(read) = self.place.read_again(look) else { return false };
        let listener = &self.listener;
        match read.and_then(|bytes| parse(&self.place.name(), &bytes)) {
            Ok(keys) => {
                info!("listener {listener}: loaded its {} keys for tokens again", keys.len());
                self.keys = keys.into();
                true
            }
            Err(why) => {
                warn!(
                    "listener {listener} keeps its keys for tokens, as the new ones are bad: {why}"
                );
                false
            }
        }
    }
}

impl Place {
    fn name(&self) -> String {
        match self {
            Self::File { file, .. } => file.display().to_string(),
            Self::Https { url, .. } => url.url.clone(),
        }
    }

    /// Reads the source again. Returns None if the source has not changed, if it is too early for a
    /// fetch, or if the fetch fails as the previous one did. If a file is incomplete because it is
    /// being written, the next check finds that it has changed again.
    fn read_again(&mut self, look: Look) -> Option<Result<Vec<u8>, String>> {
        match self {
            Self::File { file, state: before } => {
                let now = state(file);
                if !look.is_asked && now == *before {
                    return None;
                }
                *before = now;
                Some(read(file))
            }
            Self::Https { url, bytes, next_at, failures } => {
                if !look.is_asked && look.now < *next_at {
                    return None;
                }
                // Invalid keys count as a failed fetch, so the next attempt comes soon.
                let name = url.url.as_str();
                let fetched = url.fetch(look.wall).and_then(|it| parse(name, &it).map(|_| it));
                *failures = if fetched.is_ok() { 0 } else { failures.saturating_add(1) };
                *next_at = look.now.saturating_add(url.wait_ms(*failures));
                match fetched {
                    Ok(fetched) if fetched == *bytes => None,
                    Ok(fetched) => {
                        bytes.clone_from(&fetched);
                        Some(Ok(fetched))
                    }
                    // Only the first of several failures in a row is logged.
                    Err(_) if *failures > 1 => None,
                    Err(why) => Some(Err(why)),
                }
            }
        }
    }
}

fn parse(place: &str, bytes: &[u8]) -> Result<Jwks, String> {
    Jwks::parse(bytes).map_err(|error| format!("{place}: {error}"))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let named = |why: String| format!("{}: {why}", path.display());
    let file = File::open(path).map_err(|error| named(error.to_string()))?;
    let read = file.take(KEYS_BYTES_MAX + 1).read_to_end(&mut bytes);
    if read.map_err(|error| named(error.to_string()))? as u64 > KEYS_BYTES_MAX {
        return Err(named("it is too long for keys".to_owned()));
    }
    Ok(bytes)
}
