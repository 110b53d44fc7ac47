//! Clients that send invalid and excessive requests.

use crate::random::Random;
use muster_codec::messages::{
    DeleteGroupsRequest, DescribeConfigsRequest, DescribeConfigsResource, DescribeGroupsRequest,
    MetadataRequest, MetadataRequestTopic,
};
use muster_codec::{ApiKey, Request, Str};

#[derive(Debug)]
pub(crate) struct Hostile;

pub(crate) fn garbage(random: &mut Random) -> Vec<u8> {
    let len = random.skewed(1, 3_000) as usize;
    let api = random.pick(ApiKey::ALL);
    let version = random.between(0, 14) as i16;
    if random.chance(LONG_CHANCE) {
        return long(random);
    }
    if random.chance(BURST_CHANCE) {
        return burst(random.between(1, 1_200) as usize);
    }
    match random.below(5) {
        0 => random.bytes(len),
        1 => (random.below(1 << 32) as u32).to_be_bytes().to_vec(),
        2 => frame(api as i16, version, &random.bytes(len)),
        3 => frame(random.below(1 << 16) as i16, version, &random.bytes(len)),
        _ => {
            let mut whole = frame(api as i16, version, &random.bytes(len));
            whole.truncate(random.below(whole.len() as u64) as usize + 1);
            whole
        }
    }
}

/// The probability that a client sends up to 1,200 requests at once. They may be more than the
/// server allows in flight on a connection. The probability is low because one such burst takes as
/// long as everything else together.
const BURST_CHANCE: f64 = 0.02;

/// The probability that a client requests an answer that takes many slices.
const LONG_CHANCE: f64 = 0.05;

/// A request that names many items.
fn long(random: &mut Random) -> Vec<u8> {
    let count = random.between(20, 2_000);
    let names: Vec<Str<'static>> = (0..count).map(|at| format!("none-{at}").into()).collect();
    let (version, request): (i16, Request<'static>) = match random.below(4) {
        0 => (0, DescribeGroupsRequest { groups: names, ..Default::default() }.into()),
        1 => (0, DeleteGroupsRequest { groups_names: names }.into()),
        2 => {
            let topic = |name| MetadataRequestTopic { name: Some(name), ..Default::default() };
            let topics = Some(names.into_iter().map(topic).collect());
            (1, MetadataRequest { topics, ..Default::default() }.into())
        }
        _ => {
            let resource = |resource_name| DescribeConfigsResource {
                resource_type: 32,
                resource_name,
                configuration_keys: None,
            };
            let resources = names.into_iter().take(200).map(resource).collect();
            (1, DescribeConfigsRequest { resources, ..Default::default() }.into())
        }
    };
    let mut body = Vec::new();
    // An error is impossible: the server serves these versions, so the codec can write them.
    let _served = request.write(version, &mut body);
    frame(request.api_key() as i16, version, &body)
}

/// This number of ApiVersions requests.
fn burst(count: usize) -> Vec<u8> {
    frame(ApiKey::ApiVersions as i16, 0, &[]).repeat(count)
}

/// A frame with request header version 1. The API may need another version of the header.
fn frame(api: i16, version: i16, body: &[u8]) -> Vec<u8> {
    let mut frame = ((10 + body.len()) as u32).to_be_bytes().to_vec();
    frame.extend_from_slice(&api.to_be_bytes());
    frame.extend_from_slice(&version.to_be_bytes());
    frame.extend_from_slice(&7_i32.to_be_bytes());
    frame.extend_from_slice(&(-1_i16).to_be_bytes());
    frame.extend_from_slice(body);
    frame
}
