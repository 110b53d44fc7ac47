//! The formation of a cluster from three empty directories, before any shard starts.
//!
//! Each node has a directory id, and says hello to the others at the ports of their shard 0. When
//! the node with the lowest id has heard that all are empty, it chooses the cluster id, and records
//! it with the directories of all nodes. Another node that hears of the cluster records the same. A
//! node that has heard that all others have recorded it makes its logs, and is formed.
//!
//! So a node is formed only after all have recorded the formation. If a disk is emptied meanwhile,
//! the node has another directory, and the others refuse it. In the end all nodes are formed with
//! the same directories, or some wait for an operator, and have no logs.
//!
//! - `forming`: the knowledge and the decisions of a node. Start here.
//! - `node`: this node, as others see it.

mod forming;
mod node;

#[cfg(test)]
mod tests;
