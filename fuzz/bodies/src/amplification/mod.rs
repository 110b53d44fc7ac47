//! Measures the cost of a request in a shard with much state: bytes of memory, bytes of the answer
//! and turns of work. A client sends the request once and reads the answer, or it sends the request
//! many times (pipelined) and reads nothing. The input has the API and the version, the body, and
//! whether the request is pipelined. The body is given as bytes, or as a form to generate: how many
//! names, and whether they differ.
//!
//! Property: no request exceeds its bound in [`bounds`].

mod bounds;
#[path = "../../../../muster/tests/end_to_end/support/attacks/dense.rs"]
#[allow(dead_code, unreachable_pub, reason = "tests of the server take the rest")]
mod dense;
#[path = "../../../../muster/tests/end_to_end/support/attacks/dense_moves.rs"]
mod dense_moves;
#[path = "../../../../muster/tests/end_to_end/support/attacks/dense_shares.rs"]
mod dense_shares;
#[path = "../../../../muster/tests/end_to_end/support/attacks/dense_streams.rs"]
mod dense_streams;
#[path = "../../../../muster/tests/end_to_end/support/attacks/dense_tokens.rs"]
mod dense_tokens;
mod state;

use crate::memory::peak_of;
use crate::world::World;
use arbitrary::{Arbitrary, Result, Unstructured};
use bounds::{Bound, PIPELINED_BYTES_MAX, bound};
use dense::{Form, request};
use muster_codec::ApiKey;
use muster_codec::header::RequestHeader;
use state::{State, make};
use std::cell::RefCell;

pub use state::Sizes;

/// The amount of state for libFuzzer, which is created quickly.
const FUZZED: Sizes =
    Sizes { groups: 500, offsets: 10_000, members: 100, client_id_bytes: 2_000, topics: 100 };

/// The number of inputs that use the same shard, because it takes long to create one.
const RUNS_MAX: usize = 1_000;

/// The slot of the connection that sends the measured requests. The connections that create the
/// state have other slots.
const SLOT: u32 = 1_000;

/// The maximum number of pipelined requests, and their maximum size together.
const PIPELINED: usize = 30;
const PIPELINE_BYTES_MAX: usize = 4 << 20;

/// The bytes of answers that the socket of a non-reading client accepts.
const SOCKET_BYTES: usize = 64 << 10;

/// The cost of a request or of pipelined requests.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    pub request_bytes: usize,
    pub answer_bytes: usize,
    /// The peak of memory in use, less the memory in use before.
    pub memory_bytes: usize,
    /// The number of calls into the shard.
    pub turns: u64,
}

pub fn run(input: &[u8]) {
    thread_local! {
        static SHARD: RefCell<Option<(usize, State)>> = const { RefCell::new(None) };
    }
    SHARD.with_borrow_mut(|shard| {
        let fresh = || (0, make(FUZZED));
        let (runs, state) = shard.get_or_insert_with(fresh);
        *runs += 1;
        let is_worn = *runs >= RUNS_MAX;
        // An input that is too short makes no request.
        let _ = fuzzed(state, &mut Unstructured::new(input));
        if is_worn {
            *shard = None;
        }
    });
}

fn fuzzed(state: &mut State, u: &mut Unstructured<'_>) -> Result<()> {
    let api = *u.choose(ApiKey::ALL)?;
    let version = u.int_in_range(api.versions())?;
    let form = match u.int_in_range(0..=3)? {
        0 => Some(Form::Repeated(u.int_in_range(0..=5_000)?)),
        1 => Some(Form::Distinct(u.int_in_range(0..=5_000)?)),
        2 => Some(Form::All),
        _ => None,
    };
    let is_pipelined = bool::arbitrary(u)?;
    let frame = match form {
        Some(form) => frame(state, api, version, form),
        None => frame_of_body(api, version, u.bytes(u.len())?),
    };
    let too_much = if is_pipelined {
        too_much_pipelined(api, pipeline(&mut state.world, &frame))
    } else {
        too_much(api, alone(&mut state.world, &frame))
    };
    assert_eq!(too_much, None);
    Ok(())
}

/// Measures requests in a shard with this amount of state: of every API, in its oldest and its
/// newest version (or in all versions), in each form, both alone and pipelined. Returns the name
/// and the cost of each, and a description of the bound that it exceeds, if any.
pub fn survey(
    sizes: Sizes,
    counts: &[usize],
    in_all_versions: bool,
) -> Vec<(String, Cost, Option<String>)> {
    let mut state = make(sizes);
    let mut costs = Vec::new();
    for api in ApiKey::ALL {
        let is_end =
            |version: &i16| [api.versions().start(), api.versions().end()].contains(&version);
        for version in api.versions().filter(|version| in_all_versions || is_end(version)) {
            for form in forms(counts) {
                let frame = frame(&state, *api, version, form);
                let name = format!("{} v{version} {form:?}", api.name());
                let cost = alone(&mut state.world, &frame);
                costs.push((name.clone(), cost, too_much(*api, cost)));
                let cost = pipeline(&mut state.world, &frame);
                costs.push((format!("{name}, pipelined"), cost, too_much_pipelined(*api, cost)));
            }
        }
    }
    costs
}

fn forms(counts: &[usize]) -> Vec<Form> {
    let counted = counts.iter().flat_map(|count| [Form::Repeated(*count), Form::Distinct(*count)]);
    counted.chain([Form::All]).collect()
}

fn frame(state: &State, api: ApiKey, version: i16, form: Form) -> Vec<u8> {
    let mut body = Vec::new();
    request(api, form, &state.target).write(version, &mut body).unwrap();
    frame_of_body(api, version, &body)
}

fn frame_of_body(api: ApiKey, version: i16, body: &[u8]) -> Vec<u8> {
    let client_id = Some("amplification".into());
    let header =
        RequestHeader { api_key: api as i16, api_version: version, correlation_id: 1, client_id };
    let mut frame = vec![0; 4];
    header.write(&mut frame);
    frame.extend_from_slice(body);
    let length = (frame.len() - 4) as i32;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

/// Sends one request on a new connection; its answer is read.
fn alone(world: &mut World, frame: &[u8]) -> Cost {
    cost(world, frame, true)
}

/// Sends the same request many times on one connection; the answers are not read.
fn pipeline(world: &mut World, frame: &[u8]) -> Cost {
    let times = (PIPELINE_BYTES_MAX / frame.len()).clamp(1, PIPELINED);
    cost(world, &frame.repeat(times), false)
}

fn cost(world: &mut World, bytes: &[u8], is_read: bool) -> Cost {
    world.open(SLOT);
    if !is_read {
        world.stop_reading(SLOT, SOCKET_BYTES);
    }
    let turns = world.turns();
    let (received, peak) = peak_of(|| {
        world.receive(SLOT, bytes);
        world.settle();
        let mut received = world.drain(SLOT);
        while is_read && world.taken(SLOT) {
            world.settle();
            received += world.drain(SLOT);
        }
        received
    });
    let turns = world.turns() - turns;
    world.end(SLOT);
    world.settle();
    Cost { request_bytes: bytes.len(), answer_bytes: received, memory_bytes: peak, turns }
}

/// Compares the cost of a request with the bounds of its API. Returns a description of a bound that
/// is exceeded.
fn too_much(api: ApiKey, cost: Cost) -> Option<String> {
    let Bound { memory_bytes, answer_bytes, factor } = bound(api);
    let grown = factor * cost.request_bytes;
    if cost.memory_bytes > memory_bytes + grown {
        return Some(format!(
            "{}: more than {} bytes of memory: {cost:?}",
            api.name(),
            memory_bytes + grown
        ));
    }
    let is_long = cost.answer_bytes > answer_bytes + grown;
    let most = answer_bytes + grown;
    is_long.then(|| format!("{}: more than {most} bytes of answer: {cost:?}", api.name()))
}

/// Compares the memory that pipelined requests took with the bound of their API. Returns a
/// description of the bound if it is exceeded.
fn too_much_pipelined(api: ApiKey, cost: Cost) -> Option<String> {
    let Bound { memory_bytes, factor, .. } = bound(api);
    let most = memory_bytes + PIPELINED_BYTES_MAX + factor * cost.request_bytes;
    let is_much = cost.memory_bytes > most;
    let name = api.name();
    is_much.then(|| format!("{name}, pipelined: more than {most} bytes of memory: {cost:?}"))
}
