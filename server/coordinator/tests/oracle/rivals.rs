//! Streams groups in which Kafka has refused a rival of a static member. It forgets that member's
//! target then, and gives it nothing when it comes back.

use crate::outcome::Outcome;
use crate::transcript::Line;
use std::collections::BTreeSet;

/// UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID
const REFUSED: [i64; 2] = [111, 82];

/// The groups since the last load.
#[derive(Debug, Default)]
pub struct Rivals(BTreeSet<String>);

impl Rivals {
    pub fn observe(&mut self, line: &Line) {
        if line.input["op"] == "reload" {
            self.0.clear();
        }
        let code = line.output["response"]["errorCode"].as_i64();
        let group = line.input["body"]["groupId"].as_str();
        if line.input["api"] == "StreamsGroupHeartbeat"
            && code.is_some_and(|code| REFUSED.contains(&code))
        {
            self.0.extend(group.map(str::to_owned));
        }
    }

    /// The group of a heartbeat after which the records differ.
    pub fn differing<'l>(
        &self,
        line: &'l Line,
        kafka: &Outcome,
        muster: &Outcome,
    ) -> Option<&'l str> {
        let group = line.input["body"]["groupId"].as_str()?;
        let of = |outcome: &'_ Outcome| -> Vec<_> {
            let of_group = outcome.records.iter().filter(|((_, of), _)| of == group);
            of_group.flat_map(|(_, records)| records.clone()).collect()
        };
        let beats = line.input["api"] == "StreamsGroupHeartbeat";
        (beats && self.0.contains(group) && of(kafka) != of(muster)).then_some(group)
    }
}
