//! Groups, topics and configs as the admin side shows them: for the metrics of lag, and for the
//! read API and its page.
//!
//! All of it comes from questions to the shards ([`crate::inquiry`]), each of which is one slice of
//! work there. The list of all groups with their lag is a [`Survey`](survey): it is made when
//! someone asks for it and the last one is older than `admin.lag.interval.ms`, and is otherwise
//! shared. A single group is read when it is asked for.

mod api;
mod backups;
mod reset;
mod shards;
mod survey;
mod url;

pub(crate) use api::{Answer, timed};
pub(crate) use backups::Backups;
pub(crate) use survey::{GroupLag, Survey};
pub(crate) use url::{Query, decoded};

use crate::config::Config;
use crate::mailbox::Peer;
use crate::shard::Common;
use serde_json::json;
use shards::Shards;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use survey::{Kept, Limits, SHARE};

/// The time after which a survey is given up, and the last one is used.
const SURVEY_PATIENCE: Duration = Duration::from_secs(5);

/// See the head of the file.
#[derive(Debug)]
pub(crate) struct Operator {
    limits: Limits,
    interval: Duration,
    shards: OnceLock<Shards>,
    surveyed: Mutex<Surveyed>,
}

/// The last survey, and when one was last tried.
#[derive(Debug, Default)]
struct Surveyed {
    last: Option<Arc<Survey>>,
    tried: Option<Instant>,
    kept: Option<Kept>,
}

impl Operator {
    pub(crate) fn new(config: &Config) -> Self {
        let interval = config.admin_lag_interval_ms.max(0).unsigned_abs();
        Self {
            limits: Limits::of(config),
            interval: Duration::from_millis(interval),
            shards: OnceLock::new(),
            surveyed: Mutex::default(),
        }
    }

    /// The shards run from now on.
    pub(crate) fn set_shards(&self, peers: Vec<Peer>, common: Common) {
        // The shards are set once.
        let _ = self.shards.set(Shards::new(peers, common));
    }

    /// All groups with their lag; None before the shards run.
    pub(crate) fn survey(&self) -> Option<Arc<Survey>> {
        let shards = self.shards.get()?;
        // A panic of another request left the last survey as it was.
        let mut surveyed = self.surveyed.lock().unwrap_or_else(PoisonError::into_inner);
        if surveyed.tried.is_none_or(|tried| tried.elapsed() >= self.interval) {
            let began = Instant::now();
            let until = began + SURVEY_PATIENCE;
            let made = Survey::make(shards, &self.limits, &mut surveyed.kept, until);
            surveyed.last = made.map(Arc::new).or(surveyed.last.take());
            surveyed.tried = Some(began);
        }
        surveyed.last.clone()
    }

    /// Removes everything that clients have made.
    pub(crate) fn reset(&self) -> Answer {
        match self.shards.get() {
            Some(shards) => match reset::reset(shards) {
                Ok(took_ms) => Answer::found(json!({ "took_ms": took_ms })),
                Err(why) => Answer::unavailable(why),
            },
            None => Answer::unavailable("the shards start"),
        }
    }

    /// The answer of the API to a path below its version.
    pub(crate) fn answer(&self, path: &str, query: &Query) -> Answer {
        match self.shards.get() {
            Some(shards) => api::answer(self, shards, path, query),
            None => Answer::unavailable("the shards start"),
        }
    }
}
