//! Groups, topics and configs for the admin side: for lag metrics, and for the read API and its
//! page.
//!
//! All data comes from questions to the shards ([`crate::inquiry`]). A shard answers a question in
//! one slice of its work. The list of all groups with their lag is a [`Survey`](survey). All
//! requests use the last survey, unless it is older than `admin.lag.interval.ms`: then a new one is
//! made. A single group is read for each request.
//!
//! A survey asks each shard page by page: first for the ends of partitions, then for groups with
//! their commits (`Coordinator::survey`). Of these it keeps a row for each group, and the
//! partitions with the most lag. A group and the leader of its partition may be on different
//! shards, but no shard asks another. Unloaded groups are read without loading them. A shard sends
//! an answer when the state of the groups in it is durable. The page is `metrics/page/page.html`;
//! `metrics/guard.rs` says which clients may ask.
//!
//! The slices of a reset (`shard/reset.rs`) write the tombstones of transactional ids, then those
//! of groups, then those of the state that shards share. A slice is answered once its tombstones
//! are durable.

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

/// The time limit of a survey. If it takes longer, the previous survey is used.
const SURVEY_PATIENCE: Duration = Duration::from_secs(5);

/// The groups, topics and configs of a server, for the admin side.
#[derive(Debug)]
pub(crate) struct Operator {
    limits: Limits,
    interval: Duration,
    shards: OnceLock<Shards>,
    surveyed: Mutex<Surveyed>,
}

/// The last survey, and when a survey was last attempted.
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

    /// Sets the shards. Called when they have started.
    pub(crate) fn set_shards(&self, peers: Vec<Peer>, common: Common) {
        // This is called once.
        let _ = self.shards.set(Shards::new(peers, common));
    }

    /// All groups with their lag; None until a survey has succeeded.
    pub(crate) fn survey(&self) -> Option<Arc<Survey>> {
        let shards = self.shards.get()?;
        // A request that panicked with this lock has left the last survey unchanged.
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

    /// Removes everything that clients have created, except users.
    pub(crate) fn reset(&self) -> Answer {
        match self.shards.get() {
            Some(shards) => match reset::reset(shards) {
                Ok(took_ms) => Answer::found(json!({ "took_ms": took_ms })),
                Err(why) => Answer::unavailable(why),
            },
            None => Answer::unavailable("the shards start"),
        }
    }

    /// The API's answer to a path, without the version prefix.
    pub(crate) fn answer(&self, path: &str, query: &Query) -> Answer {
        match self.shards.get() {
            Some(shards) => api::answer(self, shards, path, query),
            None => Answer::unavailable("the shards start"),
        }
    }
}
