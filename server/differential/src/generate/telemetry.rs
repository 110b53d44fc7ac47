//! Client metrics. Each request has a new client instance id: whether a request of a known instance
//! is allowed depends on the time, and on subscriptions that other histories change.

use crate::world::World;
use muster_codec::messages::*;
use muster_codec::{Request, Uuid};

pub(super) fn get_telemetry_subscriptions(world: &mut World) -> Request<'static> {
    let client_instance_id = if world.chance(50) { Uuid::ZERO } else { instance(world) };
    GetTelemetrySubscriptionsRequest { client_instance_id }.into()
}

/// Never sends the right subscription id.
pub(super) fn push_telemetry(world: &mut World) -> Request<'static> {
    let reserved = Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    let client_instance_id = match world.random.u32(..4) {
        0 => Uuid::ZERO,
        1 => reserved,
        _ => instance(world),
    };
    PushTelemetryRequest {
        client_instance_id,
        subscription_id: world.random.i32(..),
        terminating: world.chance(30),
        compression_type: world.one(&[0, 1, 4, 5, -1]),
        metrics: world.one(&[&b""[..], b"\n\0", b"nonsense"]).into(),
    }
    .into()
}

fn instance(world: &mut World) -> Uuid {
    Uuid(std::array::from_fn(|_| world.random.u8(..)))
}
