//! The TLS of one listener and its source.

use crate::file_state::{FileState, state};
use muster_tls::{LoadError, Settings, Tls};
use tracing::{info, warn};

pub(super) struct Loaded {
    pub(super) listener: String,
    pub(super) settings: Settings,
    /// None if no certificate that clients have set could be loaded. The listener then uses the
    /// certificate of the server's configs.
    pub(super) tls: Option<Tls>,
    files: Vec<FileState>,
}

impl Loaded {
    pub(super) fn load(listener: &str, settings: Settings, now: i64) -> Result<Self, LoadError> {
        let files = states(&settings);
        let tls = settings.load(now)?;
        tls.warnings.iter().for_each(|warning| warn!("listener {listener}: {warning}"));
        Ok(Self { listener: listener.to_owned(), settings, tls: Some(tls), files })
    }

    /// Loads the certificate. If that fails, the result has the certificate `before`, but the new
    /// settings: their files may change and become usable. Returns the reason, too.
    pub(super) fn load_or_keep(
        listener: &str,
        settings: Settings,
        before: Option<Tls>,
        now: i64,
    ) -> (Self, Result<(), LoadError>) {
        let files = states(&settings);
        match Self::load(listener, settings.clone(), now) {
            Ok(loaded) => (loaded, Ok(())),
            Err(error) => {
                let listener = listener.to_owned();
                (Self { listener, settings, tls: before, files }, Err(error))
            }
        }
    }

    /// Loads the files again if they have changed, or if `is_asked`. Returns whether this
    /// succeeded. It may fail because a file is still being written; it has then changed again at
    /// the next check.
    pub(super) fn reload(&mut self, is_asked: bool, now: i64) -> bool {
        let files = states(&self.settings);
        if !is_asked && files == self.files {
            return false;
        }
        self.files = files;
        let listener = &self.listener;
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

    /// Warns of a certificate that expires soon.
    pub(super) fn warn(&self, now: i64) {
        if let Some(warning) = self.tls.as_ref().and_then(|tls| tls.expiry_warning(now)) {
            warn!("listener {}: {warning}", self.listener);
        }
    }
}

fn states(settings: &Settings) -> Vec<FileState> {
    settings.files().map(|path| state(path)).collect()
}
