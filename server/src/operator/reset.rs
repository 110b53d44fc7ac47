//! The reset (`POST /reset`): removes everything that clients have created, so that the next test
//! finds the server as new. Connections and users stay.

use super::shards::Shards;
use crate::inquiry::{About, Finding, Reset};
use crate::placement::CONTROLLER;
use std::thread;
use std::time::{Duration, Instant};
use tracing::info;

/// The time limit of a reset.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pause before a shard is asked to continue.
const PAUSE: Duration = Duration::from_millis(1);

/// Removes transactional ids first, because an open transaction can be aborted only while its
/// partitions exist. Then it removes groups, which have offsets of topics, and then topics. Returns
/// the duration in milliseconds.
///
/// # Errors
/// The time limit was exceeded, and something is left.
pub(super) fn reset(shards: &Shards) -> Result<u64, &'static str> {
    let began = Instant::now();
    let until = began + PATIENCE;
    let is_done = on_all(shards, until, || Reset::Transactions)
        && on_all(shards, until, || Reset::Groups(None))
        && reset_cluster(shards, until);
    if !is_done {
        return Err("some shards have not finished in time: ask again");
    }
    let took_ms = began.elapsed().as_millis() as u64;
    info!(target: "change", took_ms, "reset: removed everything that clients had made");
    Ok(took_ms)
}

/// Makes the controller remove the state that all shards share, and waits until each shard has the
/// new image. The controller's own shard is asked first. When that shard has the image, the image
/// is on its way to all others.
fn reset_cluster(shards: &Shards, until: Instant) -> bool {
    let Some(Some(Reset::Taken { topics, access })) =
        ask(shards, until, CONTROLLER, Reset::Cluster)
    else {
        return false;
    };
    let taken = || Reset::Taken { topics, access };
    on_each(shards, until, vec![(CONTROLLER, taken())]) && on_all(shards, until, taken)
}

fn on_all(shards: &Shards, until: Instant, first: impl Fn() -> Reset) -> bool {
    on_each(shards, until, (0..shards.count()).map(|shard| (shard, first())).collect())
}

/// Asks each of the shards again and again until it has finished. Returns false if the time limit
/// is exceeded.
fn on_each(shards: &Shards, until: Instant, mut open: Vec<(u32, Reset)>) -> bool {
    while !open.is_empty() {
        let mut left = Vec::new();
        for (shard, reset) in open {
            match ask(shards, until, shard, reset) {
                Some(next) => left.extend(next.map(|next| (shard, next))),
                None => return false,
            }
        }
        open = left;
        if !open.is_empty() {
            thread::sleep(PAUSE);
        }
    }
    true
}

/// Asks a shard for a slice of the reset. Returns the work that remains. The outer None means that
/// the answer is late.
fn ask(shards: &Shards, until: Instant, shard: u32, reset: Reset) -> Option<Option<Reset>> {
    let found = shards.send(shard, About::Reset(reset))?.recv_deadline(until).ok()?;
    let Finding::Reset(next) = found else { return None };
    Some(next)
}
