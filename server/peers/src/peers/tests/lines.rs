//! The lines for the log.

use super::world::World;
use super::*;
use crate::output::{DialError, Level};

const B: NodeId = NodeId(2);

/// A node that is missing is one line, and its return another one.
#[test]
fn a_node_that_cannot_be_reached_is_a_line_and_so_is_its_return() {
    let mut world = World::new(1);
    world.start(1, 1, 11);
    world.pass(10_000);
    let missing = |node| {
        format!(
            "node {node} cannot be reached: its port refuses connections. Check that it runs, and \
             its address in controller.quorum.voters"
        )
    };
    assert_eq!(world.of(1, 0).reached, [missing(2), missing(3)]);
    world.of(1, 0).reached.clear();
    world.start(2, 2, 21);
    world.pass(5_000);
    world.reset(|_| true);
    world.pass(5_000);
    assert_eq!(world.of(1, 0).reached, ["node 2 is connected"]);
    let other = |why| Notice::Unreachable(B, why).to_string();
    assert!(other(DialError::Other("no such name".to_owned())).contains("reached: no such name."));
    assert!(other(DialError::TimedOut).contains("no connection was opened within seconds."));
}

/// Node 2 connects again each time, and sends bytes that are no frame.
#[test]
fn a_node_that_connects_and_then_is_wrong_is_one_line() {
    let mut world = World::new(1);
    world.start(1, 1, 11);
    world.start(2, 1, 21);
    for _ in 0..30 {
        world.pass(1_100);
        world.damage(2, 1);
        world.pass(200);
    }
    let notices = &world.of(1, 0).notices;
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].contains("it has sent a frame with"), "{notices:?}");
}

#[test]
fn a_restart_of_a_node_is_no_warning() {
    let level = |refusal| Notice::Refused(Some(B), refusal).level();
    assert_eq!(level(Refusal::Process(B)), Level::Debug);
    assert_eq!(level(Refusal::TwoProcesses(B)), Level::Warn);
    assert_eq!(Notice::Connected(B, Session(21)).level(), Level::Info);
}
