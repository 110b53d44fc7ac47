//! The admin side of a backup: `POST /api/v1/backup?ticket=TICKET`.

use super::{Answer, Query};
use crate::backup::{BackupOrder, Extents, Meeting, names_in, ticket_of};
use crate::mailbox::{Peer, ToReactor};
use crossbeam_channel::unbounded;
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, TryLockError};
use std::time::{Duration, Instant};
use tracing::info;

/// How long it may take until all shards meet at a barrier. While a shard waits there, it does
/// nothing.
const MEETING: Duration = Duration::from_secs(1);

/// How long the hard links to all files may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Begins backups, one at a time.
#[derive(Debug, Default)]
pub(crate) struct Backups {
    /// The shards and the data directory; empty until the shards have started.
    shards: OnceLock<(Vec<Peer>, PathBuf)>,
    is_beginning: Mutex<()>,
}

impl Backups {
    /// Sets the shards. Called when they have started.
    pub(crate) fn set_shards(&self, peers: Vec<Peer>, data: PathBuf) {
        // This is called once.
        let _ = self.shards.set((peers, data));
    }

    /// Makes hard links to the files of all shards. The answer lists the extents: how much of which
    /// files a backup has to copy.
    pub(crate) fn begin(&self, query: &Query) -> Answer {
        let Some((peers, data)) = self.shards.get() else {
            return Answer::unavailable("the shards start");
        };
        let _turn = match self.is_beginning.try_lock() {
            Err(TryLockError::WouldBlock) => return Answer::error(409, "another backup begins"),
            Ok(turn) => turn,
            // Another backup has panicked. It has left nothing here, because each backup has its
            // own directory.
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
        };
        let ticket = match ticket_of(data) {
            Ok(ticket) if query.text("ticket") == Some(&ticket) => ticket,
            // The request may be meant for a server with another data directory, where the ticket
            // is.
            _ => {
                let text = format!("its data directory is {}, without this ticket", data.display());
                return Answer::error(403, text);
            }
        };
        let into = names_in(&ticket);
        if let Err(error) = fs::create_dir(data.join(&into)) {
            return Answer::error(409, format!("could not make {}: {error}", into.display()));
        }
        match link_all(peers, into) {
            Ok(extents) => {
                info!(target: "change", "a backup was begun");
                Answer::found(json!(extents))
            }
            Err(reason) => Answer::unavailable(reason),
        }
    }
}

/// Makes all shards link their files.
fn link_all(peers: &[Peer], into: PathBuf) -> Result<Extents, String> {
    let until = Instant::now() + PATIENCE;
    let (to, answers) = unbounded();
    let order = BackupOrder { meeting: Arc::new(Meeting::of(peers.len(), MEETING)), into, to };
    peers.iter().for_each(|peer| peer.send(ToReactor::BackUp(order.clone())));
    drop(order);
    let late = |_| "not all shards have answered in time".to_owned();
    let answers: Vec<_> =
        peers.iter().map(|_| answers.recv_deadline(until).map_err(late)).collect();
    let mut all = Extents::default();
    for answer in answers {
        all.add(answer?.map_err(|error| format!("files could not be linked: {error}"))?);
    }
    Ok(all)
}
