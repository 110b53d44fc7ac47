//! The messages between a node and the other nodes of its cluster. The world delivers them.

use super::Node;
use super::letter::{FromPeer, PeerLetter, Said};
use super::shard::Running;
use crate::profile::SECOND;
use muster_server::files::FileError;
use muster_server::shard::PeerEvent;

/// A sender that has heard nothing of a node for so long sends it messages that are not fresh: the
/// election timeout.
const FRESH_FOR: u64 = SECOND;

impl Node {
    /// Passes an event of the connections with other nodes to a shard, if the process runs.
    pub(crate) fn hear(&mut self, shard: u32, event: FromPeer) {
        if let Some(sim) = self.process.shard(shard) {
            sim.peers.push_back(event);
            self.wake_shard(shard);
        }
    }

    /// The oldest message to another node that was not taken yet.
    pub(crate) fn next_said(&mut self) -> Option<Said> {
        self.said.pop_front()
    }

    /// Passes what has arrived from other nodes to the shard whose turn it is.
    ///
    /// # Errors
    /// A file operation failed that must not fail.
    pub(super) fn pass_peers(&mut self, it: &mut Running) -> Result<(), FileError> {
        while let Some(event) = self.turning().peers.pop_front() {
            let event = self.peer_event(event);
            let mut commands = Vec::new();
            let taken = it.shard.peer(self.clocks(), event, &mut commands);
            taken.unwrap_or_else(|lied| panic!("a node is taken for a liar: {lied:?}"));
            it.reactor.perform_all(self, commands)?;
            self.show_image(&it.shard);
        }
        Ok(())
    }

    fn peer_event(&mut self, event: FromPeer) -> PeerEvent {
        let now = self.now;
        let heard = &mut self.turning().heard;
        match event {
            FromPeer::Connected { node, session } => {
                heard.remove(&node);
                PeerEvent::Connected { node, session }
            }
            FromPeer::Lost { node, refused } => PeerEvent::Lost { node, refused },
            FromPeer::Said { from, letter: PeerLetter { sent, echo, message } } => {
                heard.insert(from.0, sent);
                let is_fresh = echo.is_some_and(|at| now <= at + FRESH_FOR);
                PeerEvent::Said { from, is_fresh, message }
            }
        }
    }

    /// Takes the messages to other nodes from the shard whose turn it is.
    pub(super) fn collect_said(&mut self, it: &mut Running) {
        let (sent, shard) = (self.now, self.process.turning);
        for (to, message) in it.shard.take_peer_messages() {
            let echo = self.turning().heard.get(&to).copied();
            let letter = PeerLetter { sent, echo, message };
            self.said.push_back(Said { shard, to, letter });
        }
    }
}
