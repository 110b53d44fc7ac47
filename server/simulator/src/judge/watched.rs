//! A running shard, as the judge has seen it since it was loaded.

use super::access::{Rules, Since, check};
use super::throttling::bounds;
use super::turns::Turns;
use crate::client::{Book, Finding, Quotas, quotas_of, rules_of};
use muster_coordinator::Topics;
use muster_server::cluster::ClusterImage;
use std::sync::Arc;

/// The maximum number of consecutive turns that are due but have no work. With more turns the shard
/// spins, which is a violation.
const IDLE_TURNS_MAX: u32 = 2_000;

/// A shard since it was loaded.
#[derive(Default)]
pub(super) struct Watched {
    /// The version of the shard's image of the cluster.
    image_version: i64,
    /// The version of the shard's ACLs; None until its first turn.
    access_version: Option<i64>,
    rules: Rules,
    /// The shard's last quotas; None until its first turn.
    last_quotas: Option<Quotas>,
    quotas: Since<Quotas>,
    turns: Turns,
    /// The number of consecutive turns that were due but had nothing to do.
    idle_turns: u32,
}

impl Watched {
    /// A shard that was loaded with this version of its image.
    pub(super) fn new(image_version: i64) -> Self {
        Self { image_version, ..Self::default() }
    }

    pub(super) fn turns(&mut self) -> &mut Turns {
        &mut self.turns
    }

    /// Whether the shard has not shown an image yet. Its counts of used bytes begin with the first
    /// image.
    pub(super) fn is_new(&self) -> bool {
        self.last_quotas.is_none()
    }

    /// Notes the image on which the shard decides.
    ///
    /// # Errors
    /// The image is older than the previous image.
    pub(super) fn note_image(&mut self, now: u64, image: &ClusterImage) -> Result<(), String> {
        let quotas = quotas_of(image);
        if self.last_quotas.replace(quotas) != Some(quotas) {
            self.quotas.set(now, quotas);
        }
        let access_version = Some(image.access_version());
        if self.access_version != access_version {
            self.access_version = access_version;
            self.rules.set(now, Arc::new(rules_of(image)));
        }
        let before = std::mem::replace(&mut self.image_version, image.version());
        if image.version() < before {
            let version = image.version();
            return Err(format!("its image of the cluster goes back from {before} to {version}"));
        }
        Ok(())
    }

    /// Notes a turn. `was_idle` means that the turn was due, but had no work.
    ///
    /// # Errors
    /// The shard spins.
    pub(super) fn note_idle(&mut self, was_idle: bool) -> Result<(), String> {
        self.idle_turns = if was_idle { self.idle_turns + 1 } else { 0 };
        if self.idle_turns > IDLE_TURNS_MAX {
            return Err("spins: what is due is never done".to_owned());
        }
        Ok(())
    }

    /// The version of the shard's ACLs; None until its first turn.
    pub(super) fn access_version(&self) -> Option<i64> {
        self.access_version
    }

    /// Checks the rights that an answer grants or refuses to a principal. `sent` is when the
    /// request was sent.
    ///
    /// # Errors
    /// No image that the shard had leads to this decision, or the decision contradicts a change
    /// that was answered before.
    pub(super) fn check_access(
        &self,
        principal: &str,
        findings: &[Finding],
        sent: u64,
        books: &Since<Book>,
    ) -> Result<(), String> {
        check(principal, findings, sent, (&self.rules, books))
    }

    /// The values that the quota with index `at` in [`LIMITED`](crate::client::LIMITED) had at
    /// `sent` or later.
    pub(super) fn bounds(&self, at: usize, sent: u64) -> Vec<Option<u32>> {
        bounds(&self.quotas, at, sent)
    }
}
