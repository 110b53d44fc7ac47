//! The first files of a node in a new cluster.

use super::Node;
use super::start::text;
use crate::random::SeededIds;
use muster_server::data_dir::{Meta, State};
use muster_server::offline::{OfflineLog, log_config};
use muster_server::shard::{form, log_directory};
use std::path::Path;

impl Node {
    /// Writes the stamp and the logs of a node in a new cluster to an empty directory.
    ///
    /// # Errors
    /// The file system refuses.
    pub(super) fn form_in(&mut self, path: &Path) -> Result<Meta, String> {
        let (shards, sizes) = (self.shards_on_disk, self.setup.sizes);
        let mut ids = SeededIds(self.ids.fork());
        let mut meta = Meta::new(self.placement_on(shards), &mut ids);
        let place = self.place.as_ref().ok_or("the node is in no cluster")?;
        let placement = self.placement_on(shards);
        for (number, known) in (0..).zip(&meta.logs) {
            let name = log_directory(shards, number);
            let config = log_config(name, known.id, self.block_bytes, sizes);
            let log = form(&place.nodes, placement, number, config);
            OfflineLog::of(path.to_owned(), log).finish().map_err(text)?;
        }
        meta.state = State::Made;
        meta.write(path).map_err(text)?;
        Ok(meta)
    }
}
