//! The check copy of groups.

use muster_codec::DecodeError;
use muster_codec::record_batch::Batch;
use muster_coordinator::GroupDigest;
use muster_runtime::{CheckCopy, Digest};
use std::sync::Arc;

/// A sample of the groups, built from the log alone, to be compared with the live groups.
#[derive(Debug)]
pub(super) struct GroupsCopy(pub(super) muster_coordinator::CheckCopy);

impl CheckCopy for GroupsCopy {
    fn noun(&self) -> &'static str {
        "group"
    }

    fn halvings(&self) -> u32 {
        self.0.sample().halvings
    }

    fn has(&self, id: &str) -> bool {
        self.0.has(id)
    }

    fn replay(&mut self, batch: &Batch<'_>) -> Result<(), DecodeError> {
        self.0.replay(&batch.header, batch.records()?)
    }

    fn next(&self, after: Option<&Arc<str>>) -> Option<Arc<str>> {
        self.0.next_group(after)
    }

    fn digest(&mut self, id: &str) -> Digest {
        digest_of(self.0.digest(id))
    }
}

pub(super) fn digest_of(GroupDigest { fingerprint, items }: GroupDigest) -> Digest {
    Digest { fingerprint, items }
}
