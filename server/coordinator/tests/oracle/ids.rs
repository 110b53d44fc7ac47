//! The random ids of the oracle. With a seed, each id takes two steps of splitmix64. Without one,
//! the ids are numbers.

use crate::transcript::Line;
use muster_codec::Uuid;
use muster_coordinator::Ids;
use serde_json::Value;
use std::collections::HashMap;

/// The ids of a seed, in order.
#[derive(Debug, Clone)]
pub struct SeededIds {
    seed: Option<u64>,
    next: u64,
}

impl SeededIds {
    /// Without a seed, the oracle's n-th id has the number n in its last 8 bytes.
    pub fn new(seed: Option<u64>) -> Self {
        Self { seed, next: 0 }
    }

    /// Sets the number of the next id.
    pub fn seek(&mut self, number: u64) {
        self.next = number;
    }

    fn id(&self, number: u64) -> Uuid {
        let halves = match self.seed {
            Some(seed) => [2 * number + 1, 2 * number + 2].map(|step| splitmix64(seed, step)),
            None => [0, number + 1],
        };
        let [high, low] = halves.map(u64::to_be_bytes);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&high);
        bytes[8..].copy_from_slice(&low);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Uuid(bytes)
    }
}

impl Ids for SeededIds {
    fn next_id(&mut self) -> Uuid {
        self.next += 1;
        self.id(self.next - 1)
    }
}

fn splitmix64(seed: u64, step: u64) -> u64 {
    let z = seed.wrapping_add(step.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// For each line, the number of the id that Kafka used, if the transcript shows it.
///
/// Requests that are not compared also use ids. So before a request, muster's source of ids is set
/// to the number that Kafka used.
pub fn drawn(lines: &[Line], ids: &SeededIds) -> Vec<Option<u64>> {
    let joins: Vec<usize> =
        (0..lines.len()).filter(|i| asks_for_member_id(&lines[*i].input)).collect();
    let most = 2 * joins.len() as u64 + 16;
    let numbers: HashMap<String, u64> =
        (0..most).flat_map(|n| [(hyphenated(ids.id(n)), n), (ids.id(n).to_string(), n)]).collect();
    let answers = answered_member_ids(lines);
    let mut drawn = vec![None; lines.len()];
    for i in &joins {
        let answered = lines[*i].input["id"].as_str().and_then(|id| answers.get(id));
        drawn[*i] = answered.and_then(|member_id| {
            let start = member_id.len().saturating_sub(36);
            numbers.get(member_id.get(start..)?).copied()
        });
    }
    for i in joins.into_iter().filter(|i| drawn[*i].is_none()).collect::<Vec<_>>() {
        let after = drawn[..i].iter().rev().flatten().next().map_or(0, |number| number + 1);
        let before = drawn[i..].iter().flatten().next().copied().unwrap_or(most);
        drawn[i] = (after..before).find(|number| shown_later(&lines[i..], ids.id(*number)));
    }
    drawn
}

/// Whether some output of the transcript contains the member id that the first line's request gets
/// with this random id. The request itself is never answered.
fn shown_later(lines: &[Line], id: Uuid) -> bool {
    let input = &lines[0].input;
    let name = input["body"]["groupInstanceId"].as_str().or(input["client_id"].as_str());
    let member_id = format!("\"{}-{}\"", name.unwrap_or_default(), hyphenated(id));
    lines.iter().any(|line| line.output.to_string().contains(&member_id))
}

fn asks_for_member_id(input: &Value) -> bool {
    let api = input["api"].as_str();
    let nameless = input["body"]["memberId"].as_str().is_none_or(str::is_empty);
    matches!(api, Some("JoinGroup" | "ConsumerGroupHeartbeat")) && nameless
}

fn answered_member_ids(lines: &[Line]) -> HashMap<&str, &str> {
    let own = lines.iter().map(|line| &line.output);
    let later = lines.iter().flat_map(|line| line.output["completions"].as_array()).flatten();
    own.chain(later)
        .filter_map(|answer| {
            Some((answer["id"].as_str()?, answer["response"]["memberId"].as_str()?))
        })
        .collect()
}

/// A UUID as Java prints it.
fn hyphenated(id: Uuid) -> String {
    let hex: String = id.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    parts.join("-")
}
