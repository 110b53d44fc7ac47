//! The keys by which tokens are checked, in a shard that is loaded again.

use super::world::World;
use crate::security::{Jwks, TokenKeys};
use crate::shard::{Command, Event, Message};
use std::sync::Arc;

#[test]
fn the_newest_keys_outlive_a_shard_that_fails() {
    let mut world = World::new(&[]);
    let keys: TokenKeys = Arc::new([Some(Arc::new(Jwks::default()))]);
    world.step(Event::Mail(Message::TokenKeys(Arc::clone(&keys))));
    let World { shard, .. } = world;
    let passed_on = shard.leave().commands.into_iter().any(|command| match command {
        Command::Mail { to: 0, message: Message::TokenKeys(left) } => Arc::ptr_eq(&left, &keys),
        _ => false,
    });
    assert!(passed_on);
}
