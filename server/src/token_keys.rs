//! The files with the keys by which listeners check tokens (`sasl.oauthbearer.jwks.endpoint.url`).

use crate::Failure;
use crate::config::{Config, ListenerSecurity, ServedListener};
use crate::file_state::{FileState, state};
use crate::security::{Jwks, TokenKeys};
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use tracing::{info, warn};

/// The longest file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The files of the listeners, and what was loaded from them.
pub(crate) struct TokenKeyFiles(Vec<Option<Loaded>>);

struct Loaded {
    listener: String,
    file: PathBuf,
    state: FileState,
    keys: Arc<Jwks>,
}

impl TokenKeyFiles {
    /// Loads those of all listeners with OAUTHBEARER.
    ///
    /// # Errors
    /// One cannot be used: the text names listener, file and reason.
    pub(crate) fn load(config: &Config, listeners: &[ServedListener]) -> Result<Self, Failure> {
        let securities = ListenerSecurity::of_all(config);
        let has_tokens = |name: &str| {
            let sasl = securities.iter().find(|it| it.name == name).and_then(|it| it.sasl.as_ref());
            sasl.is_some_and(|sasl| sasl.bearer.is_some())
        };
        let load = |listener: &ServedListener| {
            has_tokens(&listener.name).then(|| Loaded::load(config, &listener.name)).transpose()
        };
        Ok(Self(listeners.iter().map(load).collect::<Result<_, Failure>>()?))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    pub(crate) fn of_listeners(&self) -> TokenKeys {
        self.0.iter().map(|loaded| loaded.as_ref().map(|it| Arc::clone(&it.keys))).collect()
    }

    /// Loads those again whose files have changed, or all. Returns whether there are new ones.
    pub(crate) fn reload(&mut self, all: bool) -> bool {
        let loaded = self.0.iter_mut().flatten();
        loaded.filter_map(|loaded| loaded.reload(all).then_some(())).count() > 0
    }
}

impl Loaded {
    fn load(config: &Config, listener: &str) -> Result<Self, Failure> {
        let named = |why: String| format!("listener {listener}: {why}");
        let file = config.token_keys_file(listener).map_err(named)?;
        let state = state(&file);
        let keys = read(&file).map_err(named)?;
        info!("listener {listener}: {} keys for tokens from {}", keys.len(), file.display());
        Ok(Self { listener: listener.to_owned(), file, state, keys: keys.into() })
    }

    /// A file that is being written may be incomplete: the next look finds it changed again.
    fn reload(&mut self, is_asked: bool) -> bool {
        let state = state(&self.file);
        if !is_asked && state == self.state {
            return false;
        }
        self.state = state;
        let listener = &self.listener;
        match read(&self.file) {
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

fn read(path: &PathBuf) -> Result<Jwks, String> {
    let mut bytes = Vec::new();
    let named = |why: String| format!("{}: {why}", path.display());
    let file = File::open(path).map_err(|error| named(error.to_string()))?;
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    if read.map_err(|error| named(error.to_string()))? as u64 > FILE_BYTES_MAX {
        return Err(named("it is too long for keys".to_owned()));
    }
    Jwks::parse(&bytes).map_err(|error| named(error.to_string()))
}
