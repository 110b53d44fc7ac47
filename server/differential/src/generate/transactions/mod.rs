//! Valid and invalid requests of several producers with transactional ids, which are clients of
//! transaction version 1 or 2.

mod abandon;
mod claim;
mod learn;
mod observe;
mod offsets;
mod producers;
mod records;

pub(super) use learn::learn;
pub use producers::initialization;

use super::{Choice, GENERATORS, Row, Versions, flaw, one_of, version};
use crate::wire::{Ask, Flaw};
use crate::world::{Topic, World};
use muster_codec::{ApiKey, Request};
use std::ops::RangeInclusive;

/// The number of earlier requests that may be sent again.
const RECENT: usize = 8;

/// A request, and the versions that fit its client. Sometimes it is sent in another version.
type Draft = (Request<'static>, RangeInclusive<i16>);

/// All versions.
const ANY: RangeInclusive<i16> = 0..=i16::MAX;

type Step = fn(&mut World) -> Draft;

/// The generators of transactional requests, with their weights.
const STEPS: &[(u32, Step)] = &[
    (8, producers::init_producer_id),
    (9, producers::add_partitions),
    (2, producers::add_partitions_of_several),
    (4, producers::add_offsets),
    (12, offsets::txn_offset_commit),
    (30, records::produce),
    (20, producers::end),
    (2, producers::write_markers),
];

/// Other APIs whose requests are mixed with transactional requests, because a transaction may be
/// open when they are handled. (Requests that read transactions are in [`observe`].)
const AROUND: &[ApiKey] = &[
    ApiKey::Produce,
    ApiKey::InitProducerId,
    ApiKey::DeleteTopics,
    ApiKey::ConsumerGroupHeartbeat,
    ApiKey::JoinGroup,
    ApiKey::SyncGroup,
    ApiKey::OffsetCommit,
    ApiKey::OffsetDelete,
    ApiKey::DeleteGroups,
    ApiKey::FindCoordinator,
];

/// Returns the next request, and queues requests that show its effects.
pub(super) fn ask(world: &mut World, choice: &Choice<'_>) -> Ask {
    let versions = choice.versions;
    if choice.timeouts
        && world.chance(4)
        && let Some(first) = abandon::abandon(world)
    {
        return first;
    }
    let ask = match world.random.u32(..100) {
        0..8 if !world.recent.is_empty() => again(world, versions),
        8..15 => around(world, versions),
        _ => step(world, versions),
    };
    observe::demand(world, versions);
    ask
}

fn step(world: &mut World, versions: &Versions<'_>) -> Ask {
    let (request, fitting) = draft(world);
    let served = versions(request.api_key());
    let fitting = *fitting.start().max(served.start())..=*fitting.end().min(served.end());
    let range = if has_two_forms(&request) || !world.chance(5) { fitting } else { served };
    let ask = Ask { version: version(world, &range), request, flaw: flaw(world) };
    if ask.flaw == Flaw::None {
        world.recent.push_back(ask.clone());
        while world.recent.len() > RECENT {
            world.recent.pop_front();
        }
    }
    ask
}

/// Whether the request has other fields in other versions, and so cannot be sent in them: Kafka
/// does not answer an AddPartitionsToTxn without transactions.
fn has_two_forms(request: &Request<'_>) -> bool {
    matches!(request, Request::AddPartitionsToTxn(_))
}

fn draft(world: &mut World) -> Draft {
    let sum: u32 = STEPS.iter().map(|(weight, _)| weight).sum();
    let mut at = world.random.u32(..sum);
    for (weight, step) in STEPS {
        match at.checked_sub(*weight) {
            Some(rest) => at = rest,
            None => return step(world),
        }
    }
    producers::init_producer_id(world)
}

/// Repeats an earlier request, most often the last. Sometimes sends it in another version.
fn again(world: &mut World, versions: &Versions<'_>) -> Ask {
    let last = world.recent.len() - 1;
    let at = if world.chance(60) { last } else { world.random.usize(..=last) };
    let mut ask = world.recent[at].clone();
    if world.chance(20) && !has_two_forms(&ask.request) {
        ask.version = version(world, &versions(ask.api()));
    }
    ask
}

fn around(world: &mut World, versions: &Versions<'_>) -> Ask {
    let rows: Vec<&Row> = GENERATORS.iter().filter(|(_, api, _)| AROUND.contains(api)).collect();
    one_of(world, &rows, versions)
}

/// A topic, which mostly exists.
fn topic(world: &mut World) -> Topic {
    if world.topics.is_empty() || world.chance(4) {
        return world.topic();
    }
    let topics = world.topics.clone();
    world.one(&topics)
}

/// A partition, which mostly exists.
fn partition(world: &mut World, topic: &Topic) -> i32 {
    if world.chance(10) { world.partition(topic) } else { world.random.i32(0..topic.partitions) }
}
